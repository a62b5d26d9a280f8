#include "cli/signals.h"

#include <signal.h>
#include <unistd.h>

namespace sextant::cli {
namespace {

// Signal handlers can reach nothing else.
std::atomic<bool> stop_asked{false};
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int number) {
  if (number == SIGINT && interrupted.exchange(true)) ::_exit(130);
  stop_asked.store(true);
}

}  // namespace

const std::atomic<bool>& watch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return stop_asked;
}

bool was_interrupted() {
  return interrupted.load();
}

}  // namespace sextant::cli
