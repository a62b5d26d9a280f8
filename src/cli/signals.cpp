#include "cli/signals.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace sextant::cli {
namespace {

// Signal handlers can reach nothing else.
std::atomic<bool> stop_asked{false};
std::atomic<bool> interrupted{false};  // the next SIGINT ends the process
std::atomic<const char*> acknowledgement{""};
std::atomic<bool> is_terminal{false};
static_assert(std::atomic<bool>::is_always_lock_free &&
              std::atomic<const char*>::is_always_lock_free);

void write_now(const char* text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

constexpr const char* kClearLine = "\r\x1b[K";

// A progress line, and the ^C that the terminal showed in it, vanish first.
void clear_line() {
  if (is_terminal.load()) write_now(kClearLine);
}

void on_signal(int number) {
  const int error = errno;
  if (number == SIGINT && interrupted.exchange(true)) {
    clear_line();
    ::_exit(130);
  }
  const bool is_first = !stop_asked.exchange(true);
  const char* const text = acknowledgement.load();
  if (is_first && number != SIGUSR1 && *text != '\0') {
    // In one write: the next SIGINT may come to another thread, which clears the line it finds.
    std::array<char, 512> line{};
    char* end = line.data();
    const auto add = [&](const char* part) {
      end = ::stpncpy(end, part, line.data() + line.size() - 1 - end);
    };
    if (is_terminal.load()) add(kClearLine);
    add(text);
    add("\n");
    write_now(line.data());
  }
  errno = error;
}

}  // namespace

const std::atomic<bool>& watch_signals(Stops stops, const char* text) {
  acknowledgement.store(text);
  is_terminal.store(::isatty(STDERR_FILENO) != 0);
  interrupted.store(stops == Stops::AtOnce);
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  if (stops == Stops::WhenReady)
    for (const int number : {SIGTERM, SIGUSR1}) ::sigaction(number, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  return stop_asked;
}

}  // namespace sextant::cli
