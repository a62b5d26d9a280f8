#include "tensor/programs.h"

#include <limits>

#include "base/error.h"

namespace sextant {
namespace {

// While recording, tensors of programs get addresses beyond all resident memory.
constexpr int64_t kRecordedBase = int64_t{1} << 55;

const char* name_of(Program program) {
  constexpr const char* kNames[] = {"step", "evaluation", "redo"};
  return kNames[static_cast<size_t>(program)];
}

}  // namespace

void Programs::begin(Program program) {
  SXT_CHECK(live_ == 0 || program == Program::Redo, Internal, "the ", name_of(program),
            " begins while ", live_, " tensors of another program live");
  program_ = program;
  next_ = event_ = 0;
  has_diverged_ = false;
  top_ = 0;
}

void Programs::end() {
  SXT_CHECK(program_ && live_ == 0 && !has_diverged_, Internal, live_,
            " tensors outlive their program, or were freed out of turn");
  is_known_[static_cast<size_t>(*program_)] = true;
  SXT_CHECK(next_ == known_size(), Internal, "the ", name_of(*program_), " ended after ", next_,
            " tensors of ", known_size());
  program_.reset();
}

void Programs::begin_cycle() {
  cycle_ = next_;
  cycle_event_ = event_;
}

void Programs::leave_out(int count) {
  SXT_CHECK(program_ && !plan_, Internal, "only a recording leaves out cycles");
  record_.cycles[static_cast<size_t>(*program_)] = {next_ - cycle_, event_ - cycle_event_, next_,
                                                    event_, count};
}

Lifetime Programs::known(int64_t index) const {
  if (plan_) return (*plan_)[*program_].lifetime(index);
  return record_.programs[static_cast<size_t>(*program_)][static_cast<size_t>(index)];
}

int64_t Programs::known_size() const {
  return plan_ ? (*plan_)[*program_].size()
               : static_cast<int64_t>(record_.programs[static_cast<size_t>(*program_)].size());
}

Programs::Place Programs::take(int64_t size) {
  if (!program_) return take_resident(size);
  ++live_;
  const bool is_new = !plan_ && !is_known_[static_cast<size_t>(*program_)];
  const Place place = is_new ? take_recorded(size) : take_planned(size);
  ++next_;
  ++event_;
  if (!plan_ && *program_ == Program::Step) {
    if (alive_.size() <= static_cast<size_t>(place.index))
      alive_.resize(static_cast<size_t>(known_size()));
    alive_[static_cast<size_t>(place.index)] = true;
  }
  return place;
}

Programs::Place Programs::take_resident(int64_t size) {
  const Place place{resident_, 0, {}};
  resident_ += size;
  SXT_CHECK(!plan_ || resident_ <= plan_->resident, Internal, "resident memory of ", resident_,
            " bytes, planned are ", plan_->resident);
  record_.resident = resident_;
  return place;
}

Programs::Place Programs::take_recorded(int64_t size) {
  auto& own = record_.programs[static_cast<size_t>(*program_)];
  own.push_back({size, event_, std::numeric_limits<int32_t>::max()});
  if (*program_ == Program::Redo) {
    std::vector<int32_t>& alive = record_.alive_at_redo.emplace_back();
    for (size_t i = 0; i < alive_.size(); ++i)
      if (alive_[i]) alive.push_back(static_cast<int32_t>(i));
  }
  const Place place{kRecordedBase + top_, next_, program_};
  top_ += size;
  return place;
}

Programs::Place Programs::take_planned(int64_t size) {
  const bool is_known = !has_diverged_ && next_ < known_size();
  const Lifetime planned = is_known ? known(next_) : Lifetime{};
  SXT_CHECK(is_known && planned.bytes == size && planned.begin == event_, Internal, "tensor ",
            next_, " of the ", name_of(*program_), ", of ", size,
            " bytes, is not the one that was planned");
  Place place{kRecordedBase + top_, next_, program_};
  top_ += size;
  if (plan_) place.offset = plan_->resident + (*plan_)[*program_].offset(next_);
  return place;
}

void Programs::give_back(const Place& place) {
  if (!place.program) return;
  --live_;
  const auto index = static_cast<size_t>(place.index);
  if (!plan_ && *place.program == Program::Step) alive_[index] = false;
  if (place.program != program_) return;  // belongs to a discarded step
  const auto program = static_cast<size_t>(*program_);
  if (!plan_ && !is_known_[program])
    record_.programs[program][index].end = event_;
  else if (known(place.index).end != event_)
    has_diverged_ = true;
  ++event_;
}

}  // namespace sextant
