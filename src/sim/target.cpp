#include "sim/target.h"

#include <algorithm>

#include "base/error.h"

namespace sextant {
namespace {

constexpr double kRounding = 1e-12;

class Search {
 public:
  Search(int most, int step, const Costs& costs, const MakeSchedule& make)
      : most_(most), step_(step), costs_(costs), make_(make) {}

  // The first number of micros from `micros` on that has a schedule, with its bubble; else nullopt.
  std::optional<MicrosForBubble> at_or_after(int micros) const {
    for (int tried = micros; tried <= most_ && tried - micros <= step_; ++tried)
      if (const std::optional<Schedule> schedule = make_(tried))
        return MicrosForBubble{tried, measure(simulate(*schedule, costs_)).bubble_fraction};
    return {};
  }

 private:
  int most_, step_;
  const Costs& costs_;
  const MakeSchedule& make_;
};

}  // namespace

MicrosForBubble least_micros(double target, int most, int step, const Costs& costs,
                             const MakeSchedule& make) {
  const Search search(most, step, costs, make);
  const auto is_enough = [&](const std::optional<MicrosForBubble>& found) {
    return found && found->bubble_fraction <= target + kRounding;
  };
  // Everything below `low` is too few.
  int low = 1;
  std::optional<MicrosForBubble> best;
  for (int micros = 1;;) {
    const std::optional<MicrosForBubble> found = search.at_or_after(micros);
    if (found) best = found;
    if (is_enough(found)) break;
    SXT_CHECK(micros < most, Config, "no number of micro-batches up to ", most,
              " brings the bubble to ", 100 * target, " %",
              best ? concat("; ", best->micros, " leave ", 100 * best->bubble_fraction, " %") : "");
    low = (found ? found->micros : micros) + 1;
    micros = static_cast<int>(std::min<int64_t>(most, int64_t{2} * micros));
    micros = std::max(micros, std::min(low, most));
  }
  int high = best->micros;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    const std::optional<MicrosForBubble> found = search.at_or_after(middle);
    if (is_enough(found) && found->micros < high) {
      best = found;
      high = found->micros;
    } else if (is_enough(found)) {
      high = middle;  // no candidate between it and the best
    } else {
      low = (found ? found->micros : middle) + 1;
    }
  }
  return *best;
}

}  // namespace sextant
