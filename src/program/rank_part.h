#pragma once
#include <string>
#include <vector>

#include "base/range.h"
#include "blueprint/blueprint.h"
#include "program/keep.h"
#include "schedule/schedule.h"

namespace sextant {

// A model cut into stages, and the order in which the ranks of a pipeline work on them. A model on
// one rank is a pipeline of one stage.
struct Pipeline {
  Schedule schedule;          // compute, sends and receives
  std::vector<Range> stages;  // of Blueprint::layers
  std::vector<Keep> keeps;    // of Blueprint::layers; empty: all keep all
};

// The layers of a model that one rank of a pipeline holds.
struct RankPart {
  struct Chunk {
    int stage = 0;
    Range layers;  // of RankPart::layers
  };
  // Which of its parameters another rank of the pipeline holds too; their gradients are summed.
  //   Ends    a tied embedding whose two ends are on different ranks
  //   Mirror  all: rank p - 1 - r has the same stages as rank r
  enum class Duplicates { None, Ends, Mirror };

  std::vector<Chunk> chunks;                 // in the order of Schedule::chunk_of
  std::vector<size_t> layers;                // numbers in Blueprint::layers, chunk after chunk
  std::vector<Keep> keeps;                   // of these
  Duplicates duplicates = Duplicates::None;  // of the pipeline, the same on all its ranks
  bool is_second = false;  // of two duplicates it is the one that the other speaks for

  bool holds(const Blueprint& blueprint, LayerKind kind) const;
};

RankPart part_of(const Blueprint& blueprint, const Pipeline& pipeline, int rank);
RankPart whole_model(const Blueprint& blueprint);

// One stage, micro-batch after micro-batch, each forward and back.
Pipeline serial_pipeline(const Blueprint& blueprint, int micros);

// "embedding, layers 0-5", for people.
std::string layers_text(const Blueprint& blueprint, const Range& stage);

}  // namespace sextant
