#pragma once
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/storage.h"

namespace sextant {

// A disk whose power fails at the nth operation that changes it; from then on all of them fail.
// lose_unsynced() then leaves what a machine finds after starting again, at worst: no byte that was
// not synced, no name in a directory that was not.
class PowerLossStorage final : public Storage {
 public:
  explicit PowerLossStorage(int64_t nth) : nth_(nth) {}
  bool is_dead() const { return done_ >= nth_; }

  std::unique_ptr<FileWriter> create(const std::string& path, OpenMode mode) override {
    step();
    if (!disk_.exists(path)) changes_.push_back({path, path, {}});
    synced_bytes_[path] = 0;
    return std::make_unique<Writer>(*this, path, disk_.create(path, mode));
  }
  void rename(const std::string& from, const std::string& to) override {
    step();
    Change change{from, to, {}};
    if (disk_.exists(to) && !disk_.is_directory(to)) change.replaced = read_text(disk_, to);
    disk_.rename(from, to);
    changes_.push_back(change);
    std::map<std::string, int64_t> moved;
    for (const auto& [path, bytes] : synced_bytes_)
      moved[path.starts_with(from) ? to + path.substr(from.size()) : path] = bytes;
    synced_bytes_ = std::move(moved);
  }
  void remove_all(const std::string& path) override {
    step();
    disk_.remove_all(path);
  }
  void make_directories(const std::string& path) override {
    step();
    disk_.make_directories(path);
  }
  void sync_directory(const std::string& path) override {
    step();
    std::erase_if(changes_, [&](const Change& change) { return parent_path(change.to) == path; });
  }
  void truncate(const std::string& path, int64_t size) override {
    step();
    disk_.truncate(path, size);
  }
  std::unique_ptr<FileReader> open(const std::string& path) override { return disk_.open(path); }
  bool exists(const std::string& path) override { return disk_.exists(path); }
  bool is_directory(const std::string& path) override { return disk_.is_directory(path); }
  std::vector<std::string> list(const std::string& path) override { return disk_.list(path); }

  void lose_unsynced() {
    for (const auto& [path, bytes] : synced_bytes_)
      if (disk_.exists(path)) disk_.truncate(path, bytes);
    std::reverse(changes_.begin(), changes_.end());
    for (const Change& change : changes_) {
      if (!disk_.exists(change.to)) continue;
      if (change.from == change.to) {
        disk_.remove_all(change.to);
        continue;
      }
      disk_.rename(change.to, change.from);
      if (change.replaced)
        write_text(*disk_.create(change.to, OpenMode::Truncate), *change.replaced);
    }
  }

 private:
  class Writer final : public FileWriter {
   public:
    Writer(PowerLossStorage& owner, std::string path, std::unique_ptr<FileWriter> under)
        : owner_(owner), path_(std::move(path)), under_(std::move(under)) {}
    void write(std::span<const std::byte> bytes) override {
      owner_.step();
      under_->write(bytes);
    }
    void sync() override {
      owner_.step();
      owner_.synced_bytes_[path_] = under_->offset();
    }
    int64_t offset() const override { return under_->offset(); }

   private:
    PowerLossStorage& owner_;
    std::string path_;
    std::unique_ptr<FileWriter> under_;
  };
  // A name that appeared: created (from == to) or renamed.
  struct Change {
    std::string from, to;
    std::optional<std::string> replaced;  // what the name held before
  };

  void step() { SXT_CHECK(++done_ < nth_, Failure, "the power failed"); }

  DiskStorage disk_;
  int64_t nth_, done_ = 0;
  std::map<std::string, int64_t> synced_bytes_;  // of each file written
  std::vector<Change> changes_;                  // not yet synced
};

}  // namespace sextant
