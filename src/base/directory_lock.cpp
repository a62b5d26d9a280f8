#include "base/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/host_name.h"
#include "base/storage.h"

namespace sextant {
namespace {

using Seconds = std::chrono::duration<double>;

// "process 4711 on gpu-3, started 1763240000123456789": unique, and readable in a message.
std::string make_token(const std::string& host) {
  const auto start = std::chrono::system_clock::now().time_since_epoch();
  return concat("process ", ::getpid(), " on ", host, ", started ",
                std::chrono::duration_cast<std::chrono::nanoseconds>(start).count());
}

std::string host_of(const std::string& token) {
  const size_t from = token.find(" on "), to = token.rfind(", started ");
  return from == std::string::npos || to == std::string::npos
             ? ""
             : token.substr(from + 4, to - from - 4);
}

// Without the part that only tells two runs of one process number apart.
std::string holder_of(const std::string& token) {
  return token.empty() ? "another process" : token.substr(0, token.rfind(", started "));
}

std::string token_in(int file) {
  std::array<char, 512> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  return {text.data(), static_cast<size_t>(size < 0 ? 0 : size)};
}

timespec changed(int file) {
  struct stat status {};
  ::fstat(file, &status);
  return status.st_mtim;
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& directory,
                             const std::function<void(const std::string&)>& say,
                             const Options& options)
    : directory_(directory), path_(join_path(directory, kName)), options_(options) {
  if (options_.host.empty()) options_.host = host_name();
  token_ = make_token(options_.host);
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  SXT_CHECK(file_ >= 0, Data, "cannot open ", path_, ": ", std::strerror(errno));
  try {
    wait_for_kernel_lock();
    const std::string before = token_in(file_);
    if (!before.empty()) {
      if (host_of(before) != options_.host) wait_for_other_host(before);
      say(concat(directory, ": took over the lock of ", holder_of(before), ", which is gone"));
    }
    write_token(token_);
  } catch (...) {
    ::close(file_);
    throw;
  }
  refresher_ = std::thread([this] { refresh(); });
}

DirectoryLock::~DirectoryLock() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ends_.notify_all();
  refresher_.join();
  try {
    if (token_in(file_) == token_) write_token("");
  } catch (const Error&) {  // the directory is gone; so is what the lock guarded
  }
  ::close(file_);
}

void DirectoryLock::refuse(const std::string& token) const {
  SXT_FAIL(Failure, directory_, " is in use by ", holder_of(token),
           ": wait for its end, or give this run a run.out and checkpoint.dir of its own");
}

// Ranks that outlive their launcher hold it until they notice.
void DirectoryLock::wait_for_kernel_lock() const {
  const auto end = std::chrono::steady_clock::now() + Seconds(options_.wait_s);
  while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    SXT_CHECK(errno == EWOULDBLOCK || errno == EINTR, Data, "cannot lock ", path_, ": ",
              std::strerror(errno));
    if (std::chrono::steady_clock::now() >= end) refuse(token_in(file_));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Clocks of hosts differ: the holder is gone when its refreshes stop, whatever time they say.
void DirectoryLock::wait_for_other_host(const std::string& token) const {
  const timespec seen = changed(file_);
  const auto end = std::chrono::steady_clock::now() + Seconds(3 * options_.refresh_s);
  while (std::chrono::steady_clock::now() < end) {
    const timespec now = changed(file_);
    if (now.tv_sec != seen.tv_sec || now.tv_nsec != seen.tv_nsec) refuse(token);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void DirectoryLock::refresh() {
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, Seconds(options_.refresh_s), [this] { return is_ending_; }))
    (void)::futimens(file_, nullptr);  // a failure shows as staleness, nothing else
}

bool DirectoryLock::is_in(const std::string& directory) const {
  struct stat own {
  }, other{};
  return ::fstat(file_, &own) == 0 && ::stat(join_path(directory, kName).c_str(), &other) == 0 &&
         own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

void DirectoryLock::check() const {
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);  // by name: it may be a new file
  const std::string now = token_in(file);
  if (file >= 0) ::close(file);
  SXT_CHECK(now == token_, Failure, directory_, " is not this run's any more: ",
            now.empty() ? std::string("its lock was removed") : holder_of(now) + " has taken it");
}

// Writes before it cuts: a token is never empty while the lock is held.
void DirectoryLock::write_token(const std::string& token) {
  const auto size = static_cast<ssize_t>(token.size());
  SXT_CHECK(::pwrite(file_, token.data(), token.size(), 0) == size &&
                ::ftruncate(file_, size) == 0 && ::fsync(file_) == 0,
            Failure, "cannot write ", path_, ": ", std::strerror(errno));
}

}  // namespace sextant
