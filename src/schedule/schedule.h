#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// A pipeline schedule as data: the ordered actions of each rank. The validator, the simulator, the
// executor and the timeline plots all read it.

// Compute: F forward, B whole backward, I input gradient, W weight gradient. Messages between
// stages on different ranks: activations after F, their gradients after B or I.
enum class Kind : uint8_t { F, B, I, W, SendF, RecvF, SendB, RecvB };
inline constexpr int kKinds = 8;

struct Action {
  Kind kind = Kind::F;
  int stage = 0;
  int micro = 0;
  bool joined = false;  // runs overlapped with the next action, as one block (DualPipe's F&B)
  friend bool operator==(const Action&, const Action&) = default;
};

// Which rank holds a stage, for p ranks.
//   Loop  stage s on rank s mod p
//   V     two stages per rank, r and 2p - 1 - r: rank 0 holds the first and the last stage
//   Dual  two copies of every stage: stage s on rank s for the first half of the micros, and on
//         rank p - 1 - s for the second half
enum class Placement : uint8_t { Loop, V, Dual };

struct Schedule {
  std::string name;  // "1f1b"
  int stages = 0;    // total: chunks * ranks, or ranks for Dual
  int micros = 0;
  Placement placement = Placement::Loop;
  std::vector<std::vector<Action>> ranks;  // the actions of each rank, in order

  int size() const { return static_cast<int>(ranks.size()); }
  int chunks() const { return placement == Placement::Dual ? 2 : stages / size(); }
  int rank_of(int stage, int micro) const;
  // Chunk of a stage on its rank: 0 ... chunks() - 1. Dual: 0 for the first half of the micros, 1
  // for the second.
  int chunk_of(int stage, int micro) const;
};

}  // namespace sextant
