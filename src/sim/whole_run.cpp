#include "sim/whole_run.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace sextant {
namespace {

constexpr int64_t kMostEvents = 2'000'000;  // interruptions of one simulated run

constexpr auto kTerms = {&RunOutlook::seconds,      &RunOutlook::work, &RunOutlook::slow,
                         &RunOutlook::checkpoints,  &RunOutlook::lost, &RunOutlook::restarts,
                         &RunOutlook::interruptions};

void add(RunOutlook& out, const RunOutlook& one, double share) {
  for (const auto term : kTerms) out.*term += share * (one.*term);
}

// One run with one seed. A draw is keyed by its number, so runs with other intervals meet the same
// interruptions.
class OneRun {
 public:
  OneRun(const WholeRun& run, uint64_t seed) : run_(run), random_(seed, "whole run") {
    draw_nodes();
  }

  // Of a run that is not interrupted.
  double alone_seconds() const { return to_end(); }

  RunOutlook alone() {
    train(run_.work - saved_, whole_intervals());
    return finish();
  }

  // Of a run that is interrupted before its end, with the first interruption drawn from those.
  RunOutlook interrupted_run(double alone_share) {
    double until = std::min(interruption(alone_share), to_end());
    bool first = true;
    while (first || until < to_end()) {
      // Until the interruption at `until`.
      first = false;
      const double period = run_.interval * factor_ + run_.checkpoint;
      const double periods = std::min(whole_intervals(), std::floor(until / period));
      train(periods * run_.interval, periods);
      out_.lost += until - periods * period;
      interrupted();
      // Restarts are interrupted too.
      for (until = interruption(0); until < run_.restart; until = interruption(0)) {
        out_.restarts += until;
        interrupted();
      }
      out_.restarts += run_.restart;
      until -= run_.restart;
      draw_nodes();
    }
    return alone();
  }

 private:
  // Intervals with a checkpoint behind them, of what is left; none after the last.
  double whole_intervals() const {
    return std::max(0.0, std::ceil((run_.work - saved_) / run_.interval) - 1);
  }
  double to_end() const {
    return (run_.work - saved_) * factor_ + whole_intervals() * run_.checkpoint;
  }

  RunOutlook finish() {
    out_.seconds = out_.work + out_.slow + out_.checkpoints + out_.lost + out_.restarts;
    return out_;
  }

  void train(double work, double checkpoints) {
    saved_ += work;
    out_.work += work;
    out_.slow += work * (factor_ - 1);
    out_.checkpoints += checkpoints * run_.checkpoint;
  }

  void interrupted() {
    out_.interruptions += 1;
    SXT_CHECK(out_.interruptions < kMostEvents, Config, "the run does not end: interrupted every ",
              run_.between, " s, it needs ", run_.restart, " s to restart and ",
              run_.interval + run_.checkpoint, " s to the next checkpoint");
  }

  // Seconds to the next one, of those that come before a share `later` of all.
  double interruption(double later) {
    const double u = random_.uniform(draws_++, 0);
    return -run_.between * std::log(later + (1 - later) * u);
  }

  void draw_nodes() {
    const double none_slow = std::pow(1 - run_.slow_share, run_.nodes);
    factor_ = random_.uniform(restarts_++, 1) < none_slow ? 1 : run_.slow_factor;
  }

  const WholeRun& run_;
  Random random_;
  RunOutlook out_;
  uint64_t draws_ = 0, restarts_ = 0;
  double saved_ = 0, factor_ = 1;
};

// A short run is hardly ever interrupted, but then loses much: whether it is at all is weighted by
// its probability, and not left to the seeds.
RunOutlook expected_run(const WholeRun& run, uint64_t seed) {
  const double alone = std::exp(-OneRun(run, seed).alone_seconds() / run.between);
  RunOutlook out;
  add(out, OneRun(run, seed).alone(), alone);
  if (alone < 1) add(out, OneRun(run, seed).interrupted_run(alone), 1 - alone);
  out.goodput = out.work / out.seconds;
  return out;
}

}  // namespace

RunOutlook simulate_whole_run(const WholeRun& run, uint64_t seed, int seeds) {
  SXT_CHECK(run.work > 0 && run.interval > 0 && run.between > 0 && seeds > 0, Config,
            "a run needs work (", run.work, " s), an interval between checkpoints (", run.interval,
            " s) and a time between interruptions (", run.between, " s) above 0");
  RunOutlook out;
  out.goodput_low = 1;
  for (int i = 0; i < seeds; ++i) {
    const RunOutlook one = expected_run(run, seed + static_cast<uint64_t>(i));
    add(out, one, 1.0 / seeds);
    out.goodput_low = std::min(out.goodput_low, one.goodput);
    out.goodput_high = std::max(out.goodput_high, one.goodput);
  }
  out.goodput = out.work / out.seconds;
  return out;
}

double expected_seconds(const WholeRun& run) {
  const double intervals = run.work / run.interval;
  if (std::isinf(run.between)) return run.work + intervals * run.checkpoint;
  return intervals * run.between * std::exp(run.restart / run.between) *
         std::expm1((run.interval + run.checkpoint) / run.between);
}

double young_interval(double checkpoint, double between) {
  return std::sqrt(2 * checkpoint * between);
}

double daly_interval(double checkpoint, double between) {
  if (checkpoint >= 2 * between) return between;
  const double ratio = checkpoint / (2 * between);
  return std::sqrt(2 * checkpoint * between) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - checkpoint;
}

double best_interval(const WholeRun& run, uint64_t seed, int seeds) {
  if (std::isinf(run.between)) return run.work;
  // A grid of factors around the first order estimate, each with the same interruptions.
  constexpr double kLeast = 0.25, kMost = 4, kRatio = 1.04;
  const double start = young_interval(std::max(run.checkpoint, 1e-3), run.between);
  double best = start, least = INFINITY;
  for (double factor = kLeast; factor <= kMost; factor *= kRatio) {
    WholeRun tried = run;
    tried.interval = std::min(start * factor, run.work);
    const double seconds = simulate_whole_run(tried, seed, seeds).seconds;
    if (seconds >= least) continue;
    least = seconds;
    best = tried.interval;
  }
  return best;
}

}  // namespace sextant
