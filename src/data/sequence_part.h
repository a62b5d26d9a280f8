#pragma once
#include <vector>

#include "blueprint/context_part.h"
#include "data/loader.h"

namespace sextant {

// A context parallel rank's part of the sequences. Targets and positions are those of the whole
// sequence, computed before it is cut. `window`: keys that a query sees at most, its own among
// them; 0: no bound.
class SequencePart {
 public:
  SequencePart(const ContextPart& context, int64_t seq, int64_t window);

  // Takes this rank's tokens of every row, and the keys that its queries see. Does not allocate
  // once `part` has had this shape.
  void take(HostBatch& part, const HostBatch& whole) const;

 private:
  void add_ranges(HostBatch& part, const HostBatch& whole, const std::vector<Range>& keys) const;

  ContextPart context_;
  int64_t seq_, window_;
  std::vector<Range> own_, queries_;
  std::vector<std::vector<Range>> keys_;  // by part, see Micro::key_begin
};

}  // namespace sextant
