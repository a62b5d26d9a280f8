// Trials cost a dry run each, so combinations are tried only where the single changes let expect a
// fit: the need of a combination is guessed as the run's bytes of each category times the ratios
// that its changes showed alone. What is advised was tried itself.
#include "train/fit_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/parse.h"
#include "train/fit_moves.h"
#include "train/rehearsal.h"
#include "train/step_time.h"
#include "train/typical_rates.h"

namespace sextant {
namespace {

constexpr size_t kShown = 3;
constexpr size_t kTimed = 4;                             // fits whose step is simulated
constexpr double kMargin = 1.1;                          // of a guessed need
constexpr double kSingles = 0.6;                         // of the operations, for single changes
constexpr double kLargest = 0.3;                         // of the operations, for one trial
constexpr int64_t kTrial = 4000;                         // operations of a trial that runs nothing
constexpr int64_t kUsual = 2'400'000, kLeast = 600'000;  // operations of all trials
constexpr int64_t kTraceBytes = int64_t{16} << 20;       // of a simulated step

size_t largest_rank(const Preflight& flight) {
  return static_cast<size_t>(
      std::ranges::max_element(flight.memory, {}, &MemoryEstimate::reserved) -
      flight.memory.begin());
}

double step_seconds(const Config& config, const Preflight& flight) {
  const Rates rates = typical_rates(config);
  const auto at_rates = [&](const Trace& trace, const TraceOp& op) {
    return seconds_of(rates, trace, op);
  };
  return time_step(config, flight, at_rates, {}, kTraceBytes).seconds;
}

// What preparing a dry run takes, in operations: lists of ranks, layers and pipeline actions.
int64_t preparation(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  return kTrial + world_size(parallel) / 2 + config.model.layers +
         config.batch.accumulation * parallel.pp / 2;
}

using Moves = std::vector<const FitMove*>;

// Whether `moves` go as far as `others` in all respects.
bool includes(const Moves& moves, const Moves& others) {
  return std::ranges::all_of(others, [&](const FitMove* other) {
    return std::ranges::any_of(moves,
                               [&](const FitMove* move) { return is_at_least(*move, *other); });
  });
}

double slowdown_of(const Moves& moves) {
  double sum = 0;
  for (const FitMove* move : moves) sum += move->slowdown;
  return sum;
}

class Search {
 public:
  Search(const ResolvedConfig& resolved, const Preflight& flight, int64_t operations)
      : resolved_(resolved),
        flight_(flight),
        largest_(part_of(operations, kLargest)),
        moves_(fit_moves(resolved)) {
    left_ = part_of(operations, kSingles);
    kept_ = operations - left_;
  }

  FitAdvice run() {
    for (const FitMove& move : moves_)
      if (!is_more_than_enough({&move})) try_change({&move});
    left_ += std::exchange(kept_, 0);
    if (fits_.size() < kShown) try_combinations();
    rank_fits();
    return advice_;
  }

 private:
  struct Fit {
    Moves moves;
    FitChange change;
    Config config;
    Preflight flight;
  };
  struct Least {
    FitChange change;
    Config config;
  };
  struct Known {
    const FitMove* move;
    std::array<double, kCategories> ratios;
  };

  static int64_t part_of(int64_t operations, double part) {
    return static_cast<int64_t>(part * static_cast<double>(operations));
  }

  // Of one trial. What it takes is counted by `spend`.
  Budget operations() const { return Budget(most(), "the trial takes too long"); }
  int64_t most() const { return std::min(left_, largest_); }
  // A trial that was ended takes all that it had: how much of it was run by then depends on
  // threads.
  void spend(const Budget& budget) { left_ -= most() - std::max<int64_t>(budget.left(), 0); }

  // The need of a step with fewer micro-batches, which is no larger and takes less time to find,
  // or, where that fits, of the step itself. Nothing if the settings exclude each other.
  std::optional<Fit> forecast_with(const Moves& moves, Budget& budget) const {
    Fit fit{moves, {overrides_of(moves, resolved_)}, {}, {}};
    for (const FitMove* move : moves) fit.change.narrows |= move->part == FitPart::Precision;
    try {
      fit.config = with_overrides(resolved_, fit.change.overrides).config;
      if (fit.config == resolved_.config || !keeps_work(fit.config)) return {};
      const Config shorter = with_few_micros(fit.config);
      predict(fit, shorter, budget);
      if (fit.change.reserved <= flight_.memory_limit && shorter.batch != fit.config.batch)
        predict(fit, fit.config, budget);
    } catch (const Error& error) {
      if (error.fault() != Fault::Config) throw;
      return {};
    }
    return fit;
  }

  void predict(Fit& fit, const Config& config, Budget& budget) const {
    budget.take(preparation(config));
    fit.flight = forecast(config, flight_.peak_flops, &budget);
    fit.change.reserved = fit.flight.memory[largest_rank(fit.flight)].reserved;
  }

  static Config with_few_micros(Config config) {
    const ParallelConfig& parallel = config.parallel;
    const int64_t few = parallel.pp == 1 ? 2 : 4 * int64_t{parallel.pp};
    if (config.batch.accumulation <= few || parallel.schedule.ends_with(".csv")) return config;
    config.batch.accumulation = few;
    config.batch.global = few * config.batch.micro * data_ranks(parallel);
    return config;
  }

  bool keeps_work(const Config& config) const {
    return world_size(config.parallel) == world_size(resolved_.config.parallel) &&
           config.batch.global == resolved_.config.batch.global;
  }

  void try_change(const Moves& moves) {
    if (left_ < kTrial) {
      ++advice_.untried;
      return;
    }
    Budget budget = operations();
    std::optional<Fit> fit = forecast_with(moves, budget);
    spend(budget);
    if (!fit) {
      if (budget.left() < 0) ++advice_.untried;
      return;
    }
    ++advice_.tried;
    if (moves.size() == 1) known_.push_back({moves[0], ratios_of(fit->flight)});
    if (!least_ || fit->change.reserved < least_->change.reserved)
      least_ = Least{fit->change, fit->config};
    if (fit->change.reserved <= flight_.memory_limit) fits_.push_back(std::move(*fit));
  }

  CategoryBytes need_of(const Preflight& flight) const {
    return flight.memory[largest_rank(flight)].categories();
  }

  std::array<double, kCategories> ratios_of(const Preflight& flight) const {
    std::array<double, kCategories> out{};
    const CategoryBytes before = need_of(flight_), after = need_of(flight);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = before[i] == 0 ? 1 : static_cast<double>(after[i]) / static_cast<double>(before[i]);
    return out;
  }

  double guessed_need(const std::vector<const Known*>& parts) const {
    const CategoryBytes before = need_of(flight_);
    double sum = 0, all = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      auto bytes = static_cast<double>(before[i]);
      all += bytes;
      for (const Known* part : parts) bytes *= part->ratios[i];
      sum += bytes;
    }
    return sum / all * static_cast<double>(flight_.memory[largest_rank(flight_)].reserved);
  }

  struct Combination {
    Moves moves;
    double guess = 0;
  };

  // All choices of at most one move of each part, two or more together.
  void combine(size_t next, std::vector<const Known*>& parts, std::vector<Combination>& out) const {
    if (parts.size() > 1) {
      Moves moves;
      for (const Known* part : parts) moves.push_back(part->move);
      out.push_back({std::move(moves), guessed_need(parts)});
    }
    for (size_t i = next; i < known_.size(); ++i) {
      const bool is_taken = std::ranges::any_of(
          parts, [&](const Known* part) { return part->move->part == known_[i].move->part; });
      if (is_taken) continue;
      parts.push_back(&known_[i]);
      combine(i + 1, parts, out);
      parts.pop_back();
    }
  }

  void try_combinations() {
    std::vector<Combination> all;
    std::vector<const Known*> parts;
    combine(0, parts, all);
    std::ranges::stable_sort(all, {},
                             [](const Combination& one) { return slowdown_of(one.moves); });
    const auto limit = kMargin * static_cast<double>(flight_.memory_limit);
    bool is_any_likely = false;
    for (const Combination& one : all) {
      if (fits_.size() >= kShown) return;
      if (one.guess > limit || is_more_than_enough(one.moves)) continue;
      is_any_likely = true;
      try_change(one.moves);
    }
    if (!is_any_likely && !all.empty() && fits_.empty())
      try_change(std::ranges::min_element(all, {}, &Combination::guess)->moves);
  }

  // Whether some of these moves fit already.
  bool is_more_than_enough(const Moves& moves) const {
    return std::ranges::any_of(fits_, [&](const Fit& fit) { return includes(moves, fit.moves); });
  }

  // The simulated step, or nothing if it is too long to be simulated here.
  static std::optional<double> timed(const Config& config, const Preflight& flight) {
    try {
      return step_seconds(config, flight);
    } catch (const Error& error) {
      if (error.fault() != Fault::Config) throw;
      return {};
    }
  }

  // The need of the whole step, unless finding it takes too long.
  void find_least() {
    Fit fit{{}, least_->change, least_->config, {}};
    Budget budget = operations();
    try {
      predict(fit, fit.config, budget);
      advice_.least = fit.change;
    } catch (const Error& error) {
      if (error.fault() != Fault::Config) throw;
    }
  }

  void rank_fits() {
    const size_t rank = largest_rank(flight_);
    const CategoryBytes need = need_of(flight_);
    const auto largest = std::ranges::max_element(need);
    advice_.rank = static_cast<int>(rank);
    advice_.reserved = flight_.memory[rank].reserved;
    advice_.largest = static_cast<Category>(largest - need.begin());
    advice_.largest_bytes = *largest;
    if (fits_.empty()) {
      if (least_) find_least();
      return;
    }
    std::ranges::stable_sort(fits_, {}, [](const Fit& fit) { return slowdown_of(fit.moves); });
    if (fits_.size() > kTimed) fits_.resize(kTimed);
    const std::optional<double> before = timed(resolved_.config, flight_);
    for (Fit& fit : fits_) {
      const std::optional<double> after = before ? timed(fit.config, fit.flight) : std::nullopt;
      fit.change.step_ratio = after ? *after / *before : 1 + slowdown_of(fit.moves);
      advice_.changes.push_back(std::move(fit.change));
    }
    std::ranges::stable_sort(advice_.changes, {}, [](const FitChange& change) {
      return std::pair(change.narrows, change.step_ratio);
    });
    if (advice_.changes.size() > kShown) advice_.changes.resize(kShown);
  }

  const ResolvedConfig& resolved_;
  const Preflight& flight_;
  int64_t largest_;              // operations that one trial may take
  int64_t left_ = 0, kept_ = 0;  // operations now, and more for combinations
  std::vector<FitMove> moves_;
  std::vector<Known> known_;
  std::vector<Fit> fits_;
  std::optional<Least> least_;
  FitAdvice advice_;
};

std::string options_text(const FitChange& change) {
  std::string text;
  for (const std::string& one : change.overrides) text += concat(text.empty() ? "--" : " --", one);
  return text;
}

// "31 changes tried on the phantom device, 12 take too long to try"
std::string trials_text(const FitAdvice& advice) {
  return fmt::format(
      "{} change{} tried on the phantom device{}", advice.tried, advice.tried == 1 ? "" : "s",
      advice.untried == 0 ? "" : fmt::format(", {} take too long to try", advice.untried));
}

}  // namespace

int64_t operations_for_trials(const Config& config, const Preflight& flight) {
  const int64_t most = rehearsal_budget(config, flight.kinds.size()).left();
  const double used = static_cast<double>(flight.operations) / static_cast<double>(most);
  const auto left = static_cast<int64_t>((1 - used) * static_cast<double>(kUsual));
  return std::max(left - preparation(config), kLeast);
}

FitAdvice advise_fit(const ResolvedConfig& resolved, const Preflight& flight, int64_t operations) {
  return Search(resolved, flight, operations).run();
}

std::string advice_text(const FitAdvice& advice) {
  std::string text =
      fmt::format("largest    {}: {} of the {} of rank {}\n", name_of(advice.largest),
                  format_bytes(advice.largest_bytes), format_bytes(advice.reserved), advice.rank);
  if (advice.changes.empty()) {
    text += fmt::format("to fit     none found: {}", trials_text(advice));
    if (advice.least)
      text += fmt::format("; the least need is {}: {}", format_bytes(advice.least->reserved),
                          options_text(*advice.least));
    return text + "\n";
  }
  text += fmt::format("to fit     {}; expected change of step time, need, change:\n",
                      trials_text(advice));
  for (const FitChange& change : advice.changes)
    text += fmt::format("           {:>+6.1f} % {:>10}  {}{}\n", 100 * (change.step_ratio - 1),
                        format_bytes(change.reserved), options_text(change),
                        change.narrows ? " (narrower types)" : "");
  return text;
}

}  // namespace sextant
