#include "cli/signals.h"

#include <signal.h>
#include <unistd.h>

namespace sextant::cli {
namespace {

// Signal handlers can reach nothing else.
std::atomic<bool> stop_asked{false};
std::atomic<bool> interrupted{false};  // the next SIGINT ends the process
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int number) {
  if (number == SIGINT && interrupted.exchange(true)) ::_exit(130);
  stop_asked.store(true);
}

}  // namespace

const std::atomic<bool>& watch_signals(Stops stops) {
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
