#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trace/arena_plan.h"

namespace sextant {

// Allocation by a plan of addresses; or, without a plan, the record of a run from which a plan is
// made. Memory allocated outside of programs is resident: contiguous and never freed. Every run of
// a program must allocate and free in the recorded order.
class Programs {
 public:
  // Location of a tensor: `program` is empty for resident memory.
  struct Place {
    int64_t offset = 0;
    int32_t index = 0;  // among the tensors of its program
    std::optional<Program> program = {};
  };

  Programs() = default;  // records; no two tensors share addresses
  explicit Programs(std::shared_ptr<const ArenaPlan> plan) : plan_(std::move(plan)) {}

  // Redo may begin in the middle of a step, whose tensors are then freed one by one. Any other
  // program requires that all tensors of the previous one are freed.
  void begin(Program program);
  void end();  // requires that all tensors of the program were allocated and freed

  // A recording may leave out equal cycles of its program: begin_cycle at the begin of one, after
  // some equal ones, and leave_out at its end, for the next `count` ones.
  void begin_cycle();
  void leave_out(int count);

  Place take(int64_t size);
  void give_back(const Place& place);

  bool has_plan() const { return plan_ != nullptr; }
  // Bytes of resident memory so far.
  int64_t resident() const { return resident_; }
  const ArenaRecord& record() const { return record_; }

 private:
  Place take_resident(int64_t size);
  Place take_planned(int64_t size);
  Place take_recorded(int64_t size);
  Lifetime known(int64_t index) const;  // of a planned or completely recorded program
  int64_t known_size() const;

  std::shared_ptr<const ArenaPlan> plan_;
  ArenaRecord record_;
  std::array<bool, kPrograms> is_known_{};  // completely recorded
  std::vector<bool> alive_;                 // by tensor of the step, while recording
  std::optional<Program> program_;
  int32_t next_ = 0, event_ = 0;         // next tensor and event of the program
  int32_t cycle_ = 0, cycle_event_ = 0;  // the same where the cycle began
  int64_t live_ = 0;                     // number of live tensors of programs
  int64_t resident_ = 0, top_ = 0;
  bool has_diverged_ = false;  // a tensor was freed out of order
};

}  // namespace sextant
