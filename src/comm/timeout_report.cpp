#include "comm/timeout_report.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.h"
#include "comm/call.h"

namespace sextant {
namespace {

constexpr int kMostOthers = 8;  // ranks listed besides those that somebody waits for

bool is_in_collective(const Event& event) {
  const std::string_view operation = event.operation;
  return event.ended == 0 && operation != name_of(Operation::Send) &&
         operation != name_of(Operation::Receive);
}

}  // namespace

RankStatus status_of(const Ledger& ledger) {
  const Doing doing = ledger.activity.now();
  const std::vector<Event> last = ledger.recorder.last(1);
  return {concat(doing.text.empty() ? "" : concat("is at ", doing.text, ", "),
                 "last: ", last.empty() ? "nothing" : to_string(last[0], ledger.clock.now())),
          doing.waits_for < 0 && !last.empty() && is_in_collective(last[0]) ? kUnknownRanks
                                                                            : doing.waits_for};
}

std::string describe_statuses(const Ledger& own, std::span<const int> missing, int world,
                              bool named,
                              const std::function<std::optional<RankStatus>(int rank)>& ask) {
  const Doing doing = own.activity.now();
  std::string text = concat("; ", named ? "in the world, " : "", "rank ", own.rank,
                            doing.text.empty() ? " waits" : concat(" is at ", doing.text));
  std::vector<int> ranks(missing.begin(), missing.end());  // queried
  std::set<int> silent, waited_for = {doing.waits_for};
  bool leads_to_collective = false;
  const auto has_asked = [&](int rank) {
    return rank == own.rank || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  };
  for (size_t i = 0; i < ranks.size(); ++i) {
    const std::optional<RankStatus> other = ask(ranks[i]);
    text += concat("; rank ", ranks[i], ' ', other ? other->text : "does not answer");
    if (!other) silent.insert(ranks[i]);
    if (other && other->waits_for == kUnknownRanks) leads_to_collective = true;
    if (!other || other->waits_for < 0) continue;
    waited_for.insert(other->waits_for);
    if (!has_asked(other->waits_for)) ranks.push_back(other->waits_for);
  }
  for (const int rank : waited_for) silent.erase(rank);
  for (int rank = 0; rank < world && !silent.empty(); ++rank) {
    const std::optional<RankStatus> other = has_asked(rank) ? std::nullopt : ask(rank);
    if (!other || silent.erase(other->waits_for) == 0) continue;
    text += concat("; rank ", rank, ' ', other->text);
    ranks.push_back(rank);
  }
  int told = 0;
  for (int rank = 0; rank < world && leads_to_collective && told < kMostOthers; ++rank) {
    const std::optional<RankStatus> other = has_asked(rank) ? std::nullopt : ask(rank);
    if (!other) continue;
    text += concat("; rank ", rank, ' ', other->text);
    ++told;
  }
  return text;
}

}  // namespace sextant
