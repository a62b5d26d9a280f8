#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// A file open for writing. `sync` returns when the bytes are on the device; the destructor closes
// without syncing and without throwing.
class FileWriter {
 public:
  virtual ~FileWriter() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
  virtual void sync() = 0;
  virtual int64_t offset() const = 0;
};

// A file open for reading, memory-mapped.
class FileReader {
 public:
  virtual ~FileReader() = default;
  virtual std::span<const std::byte> bytes() const = 0;
};

enum class OpenMode { Truncate, Append };

// Interface to the file system. All writes go through it, so that tests can inject faults (full
// disk, torn write, failed sync). Paths are UTF-8. A failed read throws Error(Data), a failed write
// Error(Failure); both name the path and the reason.
class Storage {
 public:
  virtual ~Storage() = default;
  virtual std::unique_ptr<FileWriter> create(const std::string& path,
                                             OpenMode mode = OpenMode::Truncate) = 0;
  virtual std::unique_ptr<FileReader> open(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove_all(const std::string& path) = 0;  // file or tree; may be absent
  virtual void make_directories(const std::string& path) = 0;
  virtual void sync_directory(const std::string& path) = 0;
  virtual void truncate(const std::string& path, int64_t size) = 0;
  virtual bool exists(const std::string& path) = 0;
  virtual bool is_directory(const std::string& path) = 0;
  virtual std::vector<std::string> list(const std::string& path) = 0;  // names, sorted
};

// The file system of this machine.
class DiskStorage final : public Storage {
 public:
  std::unique_ptr<FileWriter> create(const std::string& path, OpenMode mode) override;
  std::unique_ptr<FileReader> open(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove_all(const std::string& path) override;
  void make_directories(const std::string& path) override;
  void sync_directory(const std::string& path) override;
  void truncate(const std::string& path, int64_t size) override;
  bool exists(const std::string& path) override;
  bool is_directory(const std::string& path) override;
  std::vector<std::string> list(const std::string& path) override;
};

std::string read_text(Storage& storage, const std::string& path);
void write_text(FileWriter& file, std::string_view text);
// Replaces a file atomically: writes a temporary file, syncs it and renames it to `path`.
void replace_file(Storage& storage, const std::string& path, std::string_view text);
std::string join_path(std::string_view directory, std::string_view name);
std::string parent_path(const std::string& path);

}  // namespace sextant
