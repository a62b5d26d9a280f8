#include "cli/signals.h"

#include <signal.h>
#include <time.h>
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
std::atomic<bool> answering{false};  // the line of the acknowledgement is not whole yet
std::atomic<bool> is_terminal{false};
static_assert(std::atomic<bool>::is_always_lock_free &&
              std::atomic<const char*>::is_always_lock_free);

void write_now(const char* text) {
  size_t left = std::strlen(text);
  while (left > 0) {
    const ssize_t written = ::write(STDERR_FILENO, text, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    left -= static_cast<size_t>(written);
  }
}

constexpr const char* kClearLine = "\r\x1b[K";

// A progress line, and the ^C that the terminal showed in it, vanish first. A terminal may show the
// acknowledgement, and get the next Ctrl-C, before it has taken the end of that line: another
// thread gives it time, so that the acknowledgement does not vanish too.
void clear_line() {
  if (!is_terminal.load()) return;
  constexpr int kPauses = 200;
  constexpr timespec kPause{0, 1'000'000};
  for (int pause = 0; pause < kPauses && answering.load(); ++pause) ::nanosleep(&kPause, nullptr);
  write_now(answering.load() ? "\n" : kClearLine);
}

void on_signal(int number) {
  const int error = errno;
  const char* const text = acknowledgement.load();
  const bool is_first = !stop_asked.exchange(true);
  const bool answers = is_first && number != SIGUSR1 && *text != '\0';
  if (answers) answering.store(true);  // before a second SIGINT can end the process
  if (number == SIGINT && interrupted.exchange(true)) {
    clear_line();
    ::_exit(130);
  }
  if (answers) {
    std::array<char, 512> line{};
    char* end = line.data();
    const auto add = [&](const char* part) {
      end = ::stpncpy(end, part, line.data() + line.size() - 1 - end);
    };
    if (is_terminal.load()) add(kClearLine);
    add(text);
    add("\n");
    write_now(line.data());
    answering.store(false);
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
