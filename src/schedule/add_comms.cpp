#include "schedule/add_comms.h"

#include <vector>

#include "base/error.h"
#include "schedule/dependencies.h"
#include "schedule/print.h"

namespace sextant {
namespace {

// Visits the ranks in turn; a rank's next block moves to its new list once its inputs are there.
class Sweep {
 public:
  explicit Sweep(const Schedule& schedule)
      : from_(schedule), out_(schedule), done_(schedule), next_(schedule.ranks.size(), 0) {
    for (std::vector<Action>& todo : out_.ranks) todo.clear();
  }

  Schedule run() {
    while (!is_finished()) {
      bool moved = false;
      for (int rank = 0; rank < from_.size(); ++rank) moved |= move_block(rank);
      if (!moved) fail();
    }
    return std::move(out_);
  }

 private:
  bool is_finished() const {
    for (size_t r = 0; r < next_.size(); ++r)
      if (next_[r] < from_.ranks[r].size()) return false;
    return true;
  }

  bool is_ready(const Action& action) const {
    for (const Need& need : needs_of(from_, action, Receives::Listed))
      if (!done_.meets(need)) return false;
    return true;
  }

  bool move_block(int rank) {
    const std::vector<Action>& todo = from_.ranks[rank];
    const size_t at = next_[rank];
    if (at == todo.size()) return false;
    const size_t end = at + block_size(todo, at);
    for (size_t i = at; i < end; ++i)
      if (!is_ready(todo[i])) return false;
    for (size_t i = at; i < end; ++i) put(rank, todo[i]);
    for (size_t i = at; i < end; ++i) send(rank, todo[i]);
    next_[rank] = end;
    return true;
  }

  void put(int rank, const Action& action) {
    out_.ranks[rank].push_back(action);
    done_.add(action);
  }

  void send(int rank, const Action& action) {
    if (!crosses(from_, action)) return;
    const bool forward = action.kind == Kind::F;
    const int to = consumer(from_, action.kind, action.stage);
    put(rank, {forward ? Kind::SendF : Kind::SendB, action.stage, action.micro});
    put(from_.rank_of(to, action.micro), {forward ? Kind::RecvF : Kind::RecvB, to, action.micro});
  }

  [[noreturn]] void fail() const {
    for (size_t r = 0; r < next_.size(); ++r)
      if (next_[r] < from_.ranks[r].size())
        SXT_FAIL(Config, from_.name, ": ranks wait for each other; rank ", r, " cannot get past ",
                 describe(from_.ranks[r][next_[r]]), ", action ", next_[r] + 1);
    SXT_FAIL(Internal, from_.name, ": no rank waits and none moves");
  }

  const Schedule& from_;
  Schedule out_;
  Done done_;
  std::vector<size_t> next_;
};

}  // namespace

Schedule add_comms(const Schedule& schedule) {
  for (int rank = 0; rank < schedule.size(); ++rank)
    for (const Action& action : schedule.ranks[rank])
      SXT_CHECK(!is_comm(action.kind), Config, schedule.name, ": rank ", rank, " has ",
                describe(action), " already");
  return Sweep(schedule).run();
}

}  // namespace sextant
