#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// A pipeline schedule as data: what each rank does, in order. The validator, the simulator, the
// executor and the pictures read this same object.

// Compute: F forward, B whole backward, I its input half, W its weight half. Communication between
// stages on different ranks: of activations after F, of their gradients after B or I.
enum class Kind : uint8_t { F, B, I, W, SendF, RecvF, SendB, RecvB };
inline constexpr int kKinds = 8;

struct Action {
  Kind kind = Kind::F;
  bool joined = false;  // runs overlapped with the next action, as one block (DualPipe's F&B)
  int stage = 0;
  int micro = 0;
  friend bool operator==(const Action&, const Action&) = default;
};

// Where stages lie.
//   Loop  stage s on rank s mod p
//   V     two stages a rank: r and 2p - 1 - r, so the first and the last share rank 0
//   Dual  two copies of every stage: stage s on rank s for the first half of the micros, and on
//         rank p - 1 - s for the second half
enum class Placement : uint8_t { Loop, V, Dual };

struct Schedule {
  std::string name;  // "1f1b"
  int stages = 0;    // in all; chunks * ranks, or ranks for Dual
  int micros = 0;
  Placement placement = Placement::Loop;
  std::vector<std::vector<Action>> ranks;  // what each does

  int size() const { return static_cast<int>(ranks.size()); }
  int chunks() const { return placement == Placement::Dual ? 2 : stages / size(); }
  int rank_of(int stage, int micro) const;
  // Which of its rank's stages this is: 0 ... chunks() - 1. Dual: 0 for the first half of the
  // micros, 1 for the second.
  int chunk_of(int stage, int micro) const;
};

}  // namespace sextant
