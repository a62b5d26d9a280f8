#include <algorithm>
#include <string>

#include "bench/op_samples.h"
#include "bench/together.h"
#include "comm/run_ranks.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

constexpr double kTimeout = 120;
constexpr int kTurns = 3;
constexpr int64_t kSizes[] = {256, 4 << 10, 64 << 10, 1 << 20, 8 << 20};  // bytes of the vector
constexpr int64_t kBytesOfTurn = 4 << 20;
constexpr int kMostCalls = 100;

// One rank's side: all groups of the world make the same call at the same time.
class Exchanges {
 public:
  Exchanges(Communicator& group, Together& together, int world_rank, bool is_shared)
      : group_(group),
        together_(together),
        world_rank_(world_rank),
        is_shared_(is_shared),
        arena_(Device{}, 3 * kSizes[std::size(kSizes) - 1] + Stream::scratch_bytes(1)),
        stream_(arena_, 1) {}

  // `share`: of the core seconds of all ranks, what belongs to a member; of a message, to the
  // thread that copies it.
  void run(double share, double message_share, OpSamples& samples) {
    for (const DType dtype : {DType::F32, DType::BF16})
      for (const int64_t bytes : kSizes) {
        const int64_t part = std::max<int64_t>(1, bytes / size_of(dtype) / group_.size());
        Tensor whole = make(dtype, part * group_.size()), other = make(dtype, part * group_.size()),
               own = make(dtype, part);
        time(bytes, share, samples, [&] { group_.all_reduce(stream_, whole, ReduceOp::Sum); });
        time(bytes, share, samples,
             [&] { group_.reduce_scatter(stream_, own, whole, ReduceOp::Sum); });
        if (dtype != DType::F32) continue;  // they move bytes of any type
        time(bytes, share, samples, [&] { group_.all_gather(stream_, whole, own); });
        time(bytes, share, samples, [&] { group_.all_to_all(stream_, other, whole); });
        time(bytes, share, samples, [&] { group_.broadcast(stream_, whole, 0); });
        if (group_.size() != 2) continue;
        time(bytes, message_share, samples, [&] {
          if (group_.rank() == 0) group_.send(stream_, whole, 1);
          if (group_.rank() == 1) group_.receive(stream_, whole, 0);
        });
      }
  }

 private:
  Tensor make(DType dtype, int64_t elements) {
    Tensor made = arena_.allocate(Category::Communication, dtype, {elements});
    fill_zero(stream_, made);
    return made;
  }

  // The number of calls must be equal on all ranks, so it follows from the vector of `bytes`.
  template <class Call>
  void time(int64_t bytes, double share, OpSamples& samples, Call&& call) {
    arena_.set_recorder(&recorder_);
    call();  // once for its trace, and to have touched its memory
    arena_.set_recorder(nullptr);
    const Trace trace = recorder_.take();
    const TraceOp& op = trace.ops.front();
    const int calls = static_cast<int>(std::clamp<int64_t>(kBytesOfTurn / bytes, 3, kMostCalls));
    for (int turn = 0; turn < kTurns; ++turn) {
      // Ranks that share cores leave theirs while they wait; the others keep it.
      const double all = process_seconds(), own = thread_seconds();
      together_.time(world_rank_, [&] {
        for (int i = 0; i < calls; ++i) call();
      });
      const double seconds =
          is_shared_ ? (process_seconds() - all) * share : thread_seconds() - own;
      if (op.sent == 0) continue;
      samples.add({collective_key(op.name, op.sent_as, group_.size(), is_shared_), 0, 0, 0,
                   static_cast<double>(op.sent * size_of(op.sent_as)), seconds / calls});
    }
  }

  Communicator& group_;
  Together& together_;
  int world_rank_;
  bool is_shared_;
  Arena arena_;
  Stream stream_;
  TraceRecorder recorder_;
};

}  // namespace

void sample_collectives(int ranks, int cores, const Clock& clock, OpSamples& samples) {
  Together together(ranks, clock, kTimeout);
  ThreadWorld world(ranks, clock, {.timeout_s = kTimeout});
  world.run([&](Communicator& rank) {
    for (int size = 2; size <= ranks; size *= 2) {
      if (ranks % size != 0) continue;
      const int first = rank.rank() / size * size;
      const std::unique_ptr<Communicator> group = rank.subgroup(
          ranks_where(ranks, [&](int one) { return one >= first && one < first + size; }),
          std::to_string(size));
      OpSamples own;
      Exchanges(*group, together, rank.rank(), ranks > cores)
          .run(1.0 / ranks, 1.0 / std::max(1, ranks / 2), own);
      if (rank.rank() == 0) samples.add(own);
      rank.control().barrier();
    }
  });
}

}  // namespace sextant
