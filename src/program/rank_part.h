#pragma once
#include <string>
#include <vector>

#include "base/range.h"
#include "blueprint/blueprint.h"
#include "program/keep.h"
#include "schedule/schedule.h"

namespace sextant {

// A model split into stages, and its pipeline schedule. A model on one rank is a pipeline of one
// stage.
struct Pipeline {
  Schedule schedule;          // compute, sends and receives
  std::vector<Range> stages;  // ranges of Blueprint::layers
  std::vector<Keep> keeps;    // by layer of Blueprint::layers; empty: Keep::All
};

// The layers of a model that one pipeline rank holds.
struct RankPart {
  struct Chunk {
    int stage = 0;
    Range layers;  // range of RankPart::layers
  };
  // Which of the rank's parameters another pipeline rank holds too; their gradients are summed.
  //   Ends    a tied embedding whose first and last stage are on different ranks
  //   Mirror  all (DualPipe): rank p - 1 - r holds the same stages as rank r
  enum class Duplicates { None, Ends, Mirror };

  std::vector<Chunk> chunks;                 // by Schedule::chunk_of
  std::vector<size_t> layers;                // indices in Blueprint::layers, by chunk
  std::vector<Keep> keeps;                   // by layer of `layers`
  std::vector<bool> exchanges;               // likewise: it sends tokens to experts of other ranks
  Duplicates duplicates = Duplicates::None;  // equal on all ranks of the pipeline
  bool is_second = false;                    // the other of the two duplicates is counted and saved

  bool holds(const Blueprint& blueprint, LayerKind kind) const;
};

RankPart part_of(const Blueprint& blueprint, const Pipeline& pipeline, int rank);
RankPart whole_model(const Blueprint& blueprint);

// One stage; each micro-batch runs forward, then backward.
Pipeline serial_pipeline(const Blueprint& blueprint, int micros);

// "embedding, layers 0-5", for messages.
std::string layers_text(const Blueprint& blueprint, const Range& stage);

}  // namespace sextant
