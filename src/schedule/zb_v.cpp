#include <algorithm>

#include "schedule/blank_schedule.h"
#include "schedule/generators.h"

namespace sextant {
namespace {

// Writes one rank's list, counting the micros of each chunk. The pattern needs 2 * ranks - 1
// micros; those from `micros` on are left out.
class ZbVWriter {
 public:
  ZbVWriter(std::vector<Action>& todo, int ranks, int rank, int micros)
      : todo_(todo), stage_{rank, 2 * ranks - 1 - rank}, micros_(micros) {}

  void f(int chunk) { put(Kind::F, chunk, forwards_[chunk]++); }
  void b(int chunk) { put(Kind::I, chunk, backwards_[chunk]++); }
  void w(int chunk) { put(Kind::W, chunk, weights_[chunk]++); }
  void flush(int chunk) {
    while (weights_[chunk] < backwards_[chunk]) w(chunk);
  }
  int forwards(int chunk) const { return forwards_[chunk]; }

 private:
  void put(Kind kind, int chunk, int micro) {
    if (micro < micros_) todo_.push_back({kind, stage_[chunk], micro});
  }

  std::vector<Action>& todo_;
  int stage_[2];
  int micros_;
  int forwards_[2] = {}, backwards_[2] = {}, weights_[2] = {};
};

}  // namespace

// Two chunks per rank in a V: 1F1B's memory on every rank, and no bubble when F, I and W take
// equally long.
Schedule zb_v(int ranks, int micros) {
  Schedule out = blank_schedule("zb-v", ranks, micros, 2, Placement::V);
  const int all = std::max(micros, 2 * ranks - 1);
  for (int rank = 0; rank < ranks; ++rank) {
    ZbVWriter write(out.ranks[rank], ranks, rank, micros);
    for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) write.f(0);
    for (int i = 0; i < rank; ++i) write.f(1), write.f(0);
    for (int i = 0; i < ranks - rank; ++i) write.f(1), write.b(1), write.w(1);
    while (write.forwards(1) < write.forwards(0) || write.forwards(0) < all) {
      if (write.forwards(0) < all) write.f(0);
      write.b(0), write.w(0);
      write.f(1), write.b(1), write.w(1);
    }
    for (int i = 0; i < rank; ++i) write.b(0), write.b(1);
    for (int i = 0; i < ranks - rank; ++i) write.b(0), write.w(0);
    write.flush(1), write.flush(0);
  }
  return out;
}

}  // namespace sextant
