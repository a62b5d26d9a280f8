#include "base/storage.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace sextant {
namespace {

namespace fs = std::filesystem;

std::string reason() {
  return std::strerror(errno);
}

class DiskWriter final : public FileWriter {
 public:
  DiskWriter(const std::string& path, OpenMode mode) : path_(path) {
    const int flags =
        O_WRONLY | O_CREAT | O_CLOEXEC | (mode == OpenMode::Append ? O_APPEND : O_TRUNC);
    fd_ = ::open(path.c_str(), flags, 0644);
    SXT_CHECK(fd_ >= 0, Failure, "cannot write ", path, ": ", reason());
    offset_ = ::lseek(fd_, 0, SEEK_END);
  }
  ~DiskWriter() override { ::close(fd_); }
  DiskWriter(const DiskWriter&) = delete;
  DiskWriter& operator=(const DiskWriter&) = delete;

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      SXT_CHECK(done > 0, Failure, "cannot write ", path_, ": ", reason());
      bytes = bytes.subspan(static_cast<size_t>(done));
      offset_ += done;
    }
  }
  void sync() override {
    SXT_CHECK(::fsync(fd_) == 0, Failure, "cannot sync ", path_, ": ", reason());
  }
  int64_t offset() const override { return offset_; }

 private:
  std::string path_;
  int fd_;
  int64_t offset_;
};

class DiskReader final : public FileReader {
 public:
  explicit DiskReader(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    SXT_CHECK(fd >= 0, Data, "cannot read ", path, ": ", reason());
    struct stat info {};
    const bool known = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    if (known && info.st_size > 0) {
      size_ = static_cast<size_t>(info.st_size);
      data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    const std::string why = reason();
    ::close(fd);
    SXT_CHECK(known, Data, "cannot read ", path, ": ",
              S_ISDIR(info.st_mode) ? "a directory" : "not a regular file");
    SXT_CHECK(data_ != MAP_FAILED, Data, "cannot map ", path, ": ", why);
  }
  ~DiskReader() override {
    if (size_ > 0) ::munmap(data_, size_);
  }
  DiskReader(const DiskReader&) = delete;
  DiskReader& operator=(const DiskReader&) = delete;

  std::span<const std::byte> bytes() const override {
    return {static_cast<const std::byte*>(data_), size_};
  }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace

std::unique_ptr<FileWriter> DiskStorage::create(const std::string& path, OpenMode mode) {
  return std::make_unique<DiskWriter>(path, mode);
}

std::unique_ptr<FileReader> DiskStorage::open(const std::string& path) {
  return std::make_unique<DiskReader>(path);
}

void DiskStorage::rename(const std::string& from, const std::string& to) {
  SXT_CHECK(::rename(from.c_str(), to.c_str()) == 0, Failure, "cannot rename ", from, " to ", to,
            ": ", reason());
}

void DiskStorage::remove_all(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  SXT_CHECK(!error, Failure, "cannot remove ", path, ": ", error.message());
}

void DiskStorage::make_directories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  const bool made = !error && fs::is_directory(path, error);
  SXT_CHECK(made, Failure, "cannot make directory ", path, ": ",
            error ? error.message() : "a file is in the way");
}

void DiskStorage::sync_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  SXT_CHECK(fd >= 0, Failure, "cannot sync ", path, ": ", reason());
  const bool synced = ::fsync(fd) == 0;
  const std::string why = reason();
  ::close(fd);
  SXT_CHECK(synced, Failure, "cannot sync ", path, ": ", why);
}

void DiskStorage::truncate(const std::string& path, int64_t size) {
  SXT_CHECK(::truncate(path.c_str(), size) == 0, Failure, "cannot cut ", path, " to ", size,
            " bytes: ", reason());
}

bool DiskStorage::exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool DiskStorage::is_directory(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::vector<std::string> DiskStorage::list(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entry(path, error);
  SXT_CHECK(!error, Data, "cannot list ", path, ": ", error.message());
  for (; entry != fs::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename().string());
  SXT_CHECK(!error, Data, "cannot list ", path, ": ", error.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::string read_text(Storage& storage, const std::string& path) {
  const std::unique_ptr<FileReader> file = storage.open(path);
  const std::span<const std::byte> bytes = file->bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void write_text(FileWriter& file, std::string_view text) {
  file.write(std::as_bytes(std::span(text.data(), text.size())));
}

void replace_file(Storage& storage, const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  try {
    const std::unique_ptr<FileWriter> file = storage.create(temporary);
    write_text(*file, text);
    file->sync();
    storage.rename(temporary, path);
  } catch (const Error&) {
    try {
      storage.remove_all(temporary);
    } catch (const Error&) {  // the first error is the one to report
    }
    throw;
  }
  storage.sync_directory(parent_path(path));
}

std::string join_path(std::string_view directory, std::string_view name) {
  return (fs::path(directory) / fs::path(name)).string();
}

std::string parent_path(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace sextant
