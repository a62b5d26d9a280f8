#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/storage.h"

namespace sextant {

// The file system without waiting for the device, for tests that write thousands of files.
class UnsyncedDisk : public Storage {
 public:
  std::unique_ptr<FileWriter> create(const std::string& path, OpenMode mode) override {
    return std::make_unique<Writer>(disk_.create(path, mode));
  }
  std::unique_ptr<FileReader> open(const std::string& path) override { return disk_.open(path); }
  void rename(const std::string& from, const std::string& to) override { disk_.rename(from, to); }
  void remove_all(const std::string& path) override { disk_.remove_all(path); }
  void make_directories(const std::string& path) override { disk_.make_directories(path); }
  void sync_directory(const std::string&) override {}
  void truncate(const std::string& path, int64_t size) override { disk_.truncate(path, size); }
  bool exists(const std::string& path) override { return disk_.exists(path); }
  bool is_directory(const std::string& path) override { return disk_.is_directory(path); }
  std::vector<std::string> list(const std::string& path) override { return disk_.list(path); }

 private:
  class Writer final : public FileWriter {
   public:
    explicit Writer(std::unique_ptr<FileWriter> under) : under_(std::move(under)) {}
    void write(std::span<const std::byte> bytes) override { under_->write(bytes); }
    void sync() override {}
    int64_t offset() const override { return under_->offset(); }

   private:
    std::unique_ptr<FileWriter> under_;
  };

  DiskStorage disk_;
};

}  // namespace sextant
