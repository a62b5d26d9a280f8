#include "plan/flow_program.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace sextant {
namespace {

bool is_pass(Kind kind) {
  return kind == Kind::F || kind == Kind::B || kind == Kind::I;
}
bool ends_backward(Kind kind) {
  return kind == Kind::B || kind == Kind::W;
}

class ProgramMaker {
 public:
  ProgramMaker(const FlowProgramRequest& request, int rank, const std::vector<double>& rates)
      : request_(request),
        layout_(request.asked.layout),
        rank_(rank),
        rates_(rates),
        actions_(request.schedule.ranks[static_cast<size_t>(rank)]) {
    const bool each = layout_.pp == 1 || request.asked.practice.each_micro;
    gathers_each_ = layout_.zero == 3 && each;
    reduces_each_ = layout_.zero >= 2 && each;
    chunks_ = static_cast<double>(request.schedule.chunks());
    for (size_t i = 0; i < actions_.size(); ++i)
      if (ends_backward(actions_[i].kind)) last_of_[stage_key(actions_[i])] = i;
  }

  FlowProgram make() {
    if (gathers_each_)
      gather_ahead(0);
    else if (layout_.zero > 0)
      gather(1);
    for (size_t i = 0; i < actions_.size(); ++i) add(i);
    wait_for_data();
    if (layout_.zero > 0) {  // between copies of the shards, once a step
      post(kSlotCopies, request_.traffic.dense.across);
      post(kSlotExpertCopies, request_.traffic.experts.across);
      wait_for_data();
    }
    compute(request_.optimizer);
    return std::move(out_);
  }

 private:
  // Stages of both directions of DualPipe are reduced apart.
  std::pair<int, int> stage_key(const Action& action) const {
    return {action.stage, request_.schedule.chunk_of(action.stage, action.micro)};
  }

  void compute(double seconds) {
    if (seconds > 0) out_.push_back({.step = FlowStep::Compute, .amount = seconds});
  }
  void post(int slot, double seconds) {
    if (seconds <= 0) return;
    out_.push_back({.step = FlowStep::Post,
                    .slot = slot,
                    .amount = seconds * rates_[static_cast<size_t>(slot)]});
    ++posted_[static_cast<size_t>(slot)];
  }
  void wait(int slot, int count) {
    if (count > 0) out_.push_back({.step = FlowStep::Wait, .slot = slot, .count = count});
  }
  void wait(int slot) { wait(slot, posted_[static_cast<size_t>(slot)]); }
  void exchange(int slot, double seconds) {
    post(slot, seconds);
    if (seconds > 0) wait(slot);
  }
  void wait_for_data() {
    for (const int slot : {kSlotShard, kSlotExpertShard, kSlotCopies, kSlotExpertCopies})
      wait(slot);
  }
  void gather(double share) {
    post(kSlotShard, share * request_.traffic.dense.gather);
    post(kSlotExpertShard, share * request_.traffic.experts.gather);
  }
  void reduce() {
    post(kSlotShard, request_.traffic.dense.reduce / chunks_);
    post(kSlotExpertShard, request_.traffic.experts.reduce / chunks_);
    if (layout_.zero == 0) {
      post(kSlotCopies, request_.traffic.dense.across / chunks_);
      post(kSlotExpertCopies, request_.traffic.experts.across / chunks_);
    }
  }

  // ZeRO-3 gathers the weights of the next pass beside the present one.
  void gather_ahead(size_t from) {
    for (size_t i = from; i < actions_.size(); ++i)
      if (is_pass(actions_[i].kind)) {
        awaited_ = {posted_[kSlotShard], posted_[kSlotExpertShard]};
        gather(1 / chunks_);
        awaited_ = {awaited_.first + (request_.traffic.dense.gather > 0),
                    awaited_.second + (request_.traffic.experts.gather > 0)};
        return;
      }
  }

  void add(size_t index) {
    const Action& action = actions_[index];
    if (action.kind >= Kind::SendF) return message(action);
    await_input(action);
    if (is_pass(action.kind) && gathers_each_) {
      const auto [dense, experts] = awaited_;
      gather_ahead(index + 1);
      wait(kSlotShard, dense);
      wait(kSlotExpertShard, experts);
    } else if (action.kind != Kind::F && !has_weights_) {
      wait_for_data();  // gathered beside the first forwards
      has_weights_ = true;
    }
    // Gradients leave in buckets while the pass makes the rest of them.
    const bool reduces =
        ends_backward(action.kind) && (reduces_each_ || last_of_[stage_key(action)] == index);
    const bool beside = request_.asked.practice.grads_overlap;
    if (reduces && beside) reduce();
    work(action);
    if (!reduces || beside) return;
    reduce();
    wait_for_data();
  }

  void work(const Action& action) {
    const RankTime& time = request_.stages[static_cast<size_t>(action.stage)];
    if (action.kind == Kind::W) return compute(time.weight);
    const bool forward = action.kind == Kind::F;
    const auto seconds = [&](const RankTime::Exposed& axis) {
      return forward ? axis.forward : axis.backward;
    };
    const double all = forward ? time.forward : time.input;
    compute(all - seconds(time.tp) - seconds(time.cp) - seconds(time.ep) +
            (action.kind == Kind::B ? time.weight : 0));
    exchange(kSlotTp, seconds(time.tp));
    exchange(kSlotCp, seconds(time.cp));
    exchange(kSlotEp, seconds(time.ep));
  }

  void message(const Action& action) {
    const bool forward = action.kind == Kind::SendF || action.kind == Kind::RecvF;
    const bool sends = action.kind == Kind::SendF || action.kind == Kind::SendB;
    const int pp = layout_.pp;
    const int step = forward == sends ? 1 : -1;  // stages towards the other end
    const int other = request_.schedule.rank_of(action.stage + step, action.micro);
    const bool is_next = sends ? other == (rank_ + 1) % pp : rank_ != (other + 1) % pp;
    const int kind = forward ? 0 : 1;
    if (sends) return post((is_next ? kSlotNextF : kSlotPrevF) + kind, request_.message);
    const int slot = (is_next ? kSlotFromNextF : kSlotFromPrevF) + kind;
    inputs_[{kind, action.stage, action.micro}] = {slot, ++received_[static_cast<size_t>(slot)]};
  }

  // A receive is posted early and waited for where its message is needed.
  void await_input(const Action& action) {
    if (action.kind == Kind::W) return;
    const auto found = inputs_.find({action.kind == Kind::F ? 0 : 1, action.stage, action.micro});
    if (found != inputs_.end()) wait(found->second.first, found->second.second);
  }

  const FlowProgramRequest& request_;
  const Layout& layout_;
  int rank_;
  const std::vector<double>& rates_;
  const std::vector<Action>& actions_;
  bool gathers_each_ = false, reduces_each_ = false, has_weights_ = false;
  double chunks_ = 1;
  std::map<std::pair<int, int>, size_t> last_of_;
  std::pair<int, int> awaited_ = {0, 0};
  std::map<std::tuple<int, int, int>, std::pair<int, int>> inputs_;  // slot and count
  std::array<int, kFlowSlots> posted_ = {}, received_ = {};
  FlowProgram out_;
};

}  // namespace

FlowProgram flow_program(const FlowProgramRequest& request, int pipeline_rank,
                         const std::vector<double>& rates) {
  return ProgramMaker(request, pipeline_rank, rates).make();
}

}  // namespace sextant
