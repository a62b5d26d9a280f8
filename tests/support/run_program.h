#pragma once
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace sextant {

// How a program ended and what it said.
struct Ran {
  int code = -1;  // exit code; 128 + signal when one killed it; -1 when the deadline did
  std::string out, err;
};

struct RunSettings {
  std::string directory = ".";          // where it runs
  std::vector<std::string> set = {};    // environment, "NAME=value"
  bool terminal = false;                // its stderr is a terminal
  std::function<void()> in_child = {};  // last thing before it starts: limits, other outputs
  std::chrono::seconds deadline{60};
};

// A program while it runs. Its pipes are small, so one that talks stands still until it is read:
// a test can rely on it being in the middle of its work.
class Running {
 public:
  Running(const std::vector<std::string>& command, const RunSettings& settings)
      : end_(std::chrono::steady_clock::now() + settings.deadline) {
    int out[2], err[2];
    if (::pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    if (settings.terminal) {
      err[0] = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
      if (err[0] < 0 || ::grantpt(err[0]) != 0 || ::unlockpt(err[0]) != 0)
        throw std::runtime_error("no terminal");
      err[1] = ::open(::ptsname(err[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
    } else {
      if (::pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
      ::fcntl(err[1], F_SETPIPE_SZ, kPipe);
    }
    child_ = ::fork();
    if (child_ == 0) become(command, settings, out[1], err[1]);
    ::close(out[1]);
    ::close(err[1]);
    streams_[0] = {out[0], POLLIN, 0};
    streams_[1] = {err[0], POLLIN, 0};
  }
  ~Running() {
    if (child_ > 0) kill(SIGKILL), finish();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void kill(int number) { ::kill(child_, number); }

  // Until its stderr holds `text`; false when it ended or the deadline passed before.
  bool read_until(const std::string& text) {
    while (ran_.err.find(text) == std::string::npos)
      if (!read_some(left())) return false;
    return true;
  }
  // What arrives within this time; false when it has ended.
  bool read_some(int milliseconds) {
    if (::poll(streams_, 2, milliseconds) <= 0) return false;
    bool open = false;
    for (pollfd& stream : streams_) {
      if (stream.fd < 0) continue;
      if (stream.revents == 0) {
        open = true;
        continue;
      }
      char buffer[4096];
      const ssize_t count = ::read(stream.fd, buffer, sizeof buffer);
      if (count > 0) {
        (&stream == streams_ ? ran_.out : ran_.err).append(buffer, static_cast<size_t>(count));
        open = true;
      } else {
        ::close(stream.fd);
        stream.fd = -1;
      }
    }
    return open;
  }
  bool has_ended() const { return streams_[0].fd < 0 && streams_[1].fd < 0; }
  // Until its stderr, which nobody reads meanwhile, has no room for two more lines; false at the
  // deadline.
  bool wait_until_full() {
    int waiting = 0;
    while (waiting < kPipe - kLine && left() > 0) {
      ::poll(nullptr, 0, 1);
      ::ioctl(streams_[1].fd, FIONREAD, &waiting);
    }
    return waiting >= kPipe - kLine;
  }
  // Without reading, so that one that stands still goes on standing.
  bool ends_within(int milliseconds) const {
    pollfd hung_up = {streams_[1].fd, 0, 0};
    return ::poll(&hung_up, 1, milliseconds) > 0;
  }

  Ran finish() {
    while (read_some(left())) {
    }
    const bool late = !has_ended();
    if (late) kill(SIGKILL);
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = -1;
    ran_.code = late ? -1 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return ran_;
  }

 private:
  [[noreturn]] static void become(const std::vector<std::string>& command,
                                  const RunSettings& settings, int out, int err) {
    std::vector<char*> arguments;
    for (const std::string& part : command) arguments.push_back(const_cast<char*>(part.c_str()));
    arguments.push_back(nullptr);
    ::unsetenv("NO_COLOR");
    for (const std::string& entry : settings.set) {
      const size_t equals = entry.find('=');
      ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    }
    ::dup2(out, 1);
    ::dup2(err, 2);
    if (::chdir(settings.directory.c_str()) != 0) ::_exit(127);
    if (settings.in_child) settings.in_child();
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int left() const {
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(
        end_ - std::chrono::steady_clock::now());
    return rest.count() > 0 ? static_cast<int>(rest.count()) : 0;
  }

  // Less room than two lines of log, more than one.
  static constexpr int kPipe = 4096, kLine = 160;

  std::chrono::steady_clock::time_point end_;
  pid_t child_ = -1;
  pollfd streams_[2] = {};
  Ran ran_;
};

}  // namespace sextant
