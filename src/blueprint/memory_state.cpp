#include "blueprint/memory_state.h"

#include "base/share.h"

namespace sextant {
namespace {

constexpr auto kWeights = &MemoryEstimate::weights;
constexpr auto kGradients = &MemoryEstimate::gradients;
constexpr auto kCommunication = &MemoryEstimate::communication;

}  // namespace

int divided_stage(const MemoryQuestion& question) {
  return question.shard > 1 ? question.zero : 0;
}

StateWalk::StateWalk(MemoryWalk& walk, const GroupPlan& plan, const MemoryQuestion& question)
    : walk_(walk), zero_(divided_stage(question)), has_bucket_(plan.groups.size(), false) {
  const int64_t e = question.element_size;
  int64_t whole = 0, owned = 0;
  for (const GroupSpec& group : plan.groups) {
    bytes_.push_back(group.elements * e);
    whole += group.elements;
    owned += share_of(group.elements, question.shard, question.shard_rank).size();
  }
  walk_.take((zero_ >= 3 ? owned : whole) * e, kWeights);
  walk_.take((zero_ >= 2 ? owned : whole) * e, kGradients);
  const int64_t moments = question.moments * question.moment_size;
  walk_.take((zero_ >= 1 ? owned : whole) * (moments + (question.backup ? e + moments : 0)),
             &MemoryEstimate::optimizer);
}

void StateWalk::run(std::span<const StateEvent> events) {
  for (const StateEvent& event : events) run(event);
}

void StateWalk::run(const StateEvent& event) {
  const auto group = static_cast<size_t>(event.group);
  switch (event.step) {
    case StateStep::Await:
    case StateStep::Open:
      return;
    case StateStep::Gather:
      return walk_.take(bytes_[group], kWeights);
    case StateStep::Close:
      return walk_.free(bytes_[group], kWeights);
    case StateStep::Begin:
      has_bucket_[group] = true;
      return walk_.take(bytes_[group], kGradients);
    case StateStep::Reduce:
      if (zero_ >= 2)
        walk_.move(bytes_[group], kGradients, kCommunication);
      else if (has_bucket_[group])
        walk_.free(bytes_[group], kGradients);  // added to the kept gradient
      has_bucket_[group] = false;
      return;
    case StateStep::Finish:
      return walk_.free(bytes_[group], kCommunication);
  }
}

}  // namespace sextant
