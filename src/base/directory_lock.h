#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace sextant {

// The right to write a directory, which one run at a time has. Two things guard it, both in the
// file run.lock of the directory:
//   a kernel lock (flock), which ends with the process that holds it, however that ends
//   a token (host, process, start), for runs on hosts that do not see each other's kernel locks;
//   its holder refreshes the file's time while it lives
// The file stays when the lock is released, with an empty token.
class DirectoryLock {
 public:
  static constexpr const char* kName = "run.lock";

  struct Options {
    double wait_s = 5;      // for a process of this host that holds it, perhaps on its way out
    double refresh_s = 5;   // a token of another host is stale after three times this: the same
                            // value in all runs
    std::string host = {};  // this host; empty: its name
  };

  // Takes the lock. Calls `say` with a warning if it takes over a stale one. Error(Failure) names
  // the holder of a lock in use, Error(Data) a directory in which no lock can be made.
  DirectoryLock(const std::string& directory, const std::function<void(const std::string&)>& say,
                const Options& options);
  DirectoryLock(const std::string& directory, const std::function<void(const std::string&)>& say)
      : DirectoryLock(directory, say, Options()) {}
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // Whether it is the lock of this directory, by whatever path.
  bool is_in(const std::string& directory) const;

  // Error(Failure) when another run has taken the directory meanwhile.
  void check() const;

 private:
  void wait_for_kernel_lock() const;
  void wait_for_other_host(const std::string& token) const;
  [[noreturn]] void refuse(const std::string& token) const;
  void refresh();
  void write_token(const std::string& token);

  std::string directory_, path_, token_;
  Options options_;
  int file_ = -1;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_ending_ = false;
  std::thread refresher_;
};

}  // namespace sextant
