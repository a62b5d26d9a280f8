#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trace/arena_plan.h"

namespace sextant {

// Places of memory that were planned ahead; or, without a plan, the record of what a run allocates,
// from which one is made. Outside of programs memory is resident: it is placed one behind the other
// and kept. A program that runs again must allocate and free exactly as it did before.
class Programs {
 public:
  // Where a tensor is: `program` is empty for resident memory.
  struct Place {
    int64_t offset = 0;
    int32_t index = 0;  // among the tensors of its program
    std::optional<Program> program = {};
  };

  Programs() = default;  // records; every tensor has addresses of its own
  explicit Programs(std::shared_ptr<const ArenaPlan> plan) : plan_(std::move(plan)) {}

  // Redo may begin in the middle of a step, whose tensors then go one by one; every other program
  // when all tensors of the one before are gone.
  void begin(Program program);
  void end();  // all its tensors were allocated and are gone

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
  const std::vector<Lifetime>& lifetimes() const;

  std::shared_ptr<const ArenaPlan> plan_;
  ArenaRecord record_;
  std::array<bool, kPrograms> is_known_{};  // recorded to its end
  std::vector<bool> alive_;                 // by tensor of a step, while it is recorded
  std::optional<Program> program_;
  int32_t next_ = 0, event_ = 0;  // tensor and event of the program
  int64_t live_ = 0;              // tensors of programs
  int64_t resident_ = 0, top_ = 0;
  bool has_diverged_ = false;  // something was freed out of turn
};

}  // namespace sextant
