#include "bench/collectives.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/parse.h"
#include "bench/cpu/collective_floor.h"
#include "bench/together.h"
#include "comm/run_ranks.h"
#include "tensor/copy.h"
#include "tensor/device.h"

namespace sextant {
namespace {

constexpr int kPilot = 3;  // passes to estimate the time of one
constexpr double kNever = std::numeric_limits<double>::infinity();

// State shared by the ranks while they measure.
struct Shared {
  Shared(int ranks, const Clock& clock, double timeout_s) : together(ranks, clock, timeout_s) {
    buffers.in.resize(static_cast<size_t>(ranks));
    buffers.out.resize(static_cast<size_t>(ranks));
  }
  Together together;
  RankBuffers buffers;
};

// One rank's side of the benchmark. Every rank computes the same numbers.
class RankBench {
 public:
  RankBench(Communicator& world, Shared& shared, int64_t most_bytes)
      : world_(world),
        shared_(shared),
        arena_(Device{}, 2 * most_bytes + Stream::scratch_bytes(1)),
        stream_(arena_, 1) {}

  void run(CollectiveRow& row, const Turns& turns) {
    prepare(row);
    const auto limit = [&](int variant, int passes) {
      return time(passes, [&] {
        collective_floor(row.operation, variant, world_.rank(), shared_.buffers);
        shared_.together.meet();
      });
    };
    const auto ours = [&](int passes) { return time(passes, [&] { call(row.operation); }); };
    if (!has_limit(row.operation)) {
      const int passes = turns.calls(ours(kPilot));
      double best = kNever;
      for (int i = 0; i < turns.repeats; ++i) best = std::min(best, ours(passes));
      finish(row, best, 0);
      return;
    }
    // First all variants of the limit, with an estimated number of passes; the fastest then takes
    // turns with the collective.
    const int first_passes = turns.calls(limit(0, kPilot));
    int best_variant = 0;
    double best_limit = kNever, best = kNever;
    for (int variant = 0; variant < kFloorVariants; ++variant) {
      const double seconds = limit(variant, first_passes);
      if (seconds < best_limit) best_limit = seconds, best_variant = variant;
    }
    const int limit_passes = turns.calls(best_limit), passes = turns.calls(ours(kPilot));
    for (int i = 0; i < turns.repeats; ++i) {
      best = std::min(best, ours(passes));
      best_limit = std::min(best_limit, limit(best_variant, limit_passes));
    }
    finish(row, best, best_limit);
  }

 private:
  void finish(CollectiveRow& row, double seconds, double limit_seconds) {
    if (world_.rank() == 0) {
      row.seconds = std::min(row.seconds, seconds);
      row.limit_seconds = std::min(row.limit_seconds, limit_seconds);
    }
    in_ = out_ = Tensor();
    world_.control().barrier();  // no rank uses these buffers now
  }

  void prepare(const CollectiveRow& row) {
    const int64_t all = row.bytes / size_of(DType::F32), part = all / world_.size();
    const auto make = [&](int64_t elements) {
      Tensor made = arena_.allocate(Category::Communication, DType::F32, {elements});
      fill_zero(stream_, made);  // sums of zeros stay zero; also touches the pages
      return made;
    };
    const Operation operation = row.operation;
    const bool is_from_parts = operation == Operation::AllGather || operation == Operation::Gather;
    const bool is_to_parts =
        operation == Operation::ReduceScatter || operation == Operation::Scatter;
    const bool has_input = is_from_parts || is_to_parts || operation == Operation::AllToAll;
    if (has_input) in_ = make(is_from_parts ? part : all);
    if (operation != Operation::Barrier) out_ = make(is_to_parts ? part : all);
    const auto self = static_cast<size_t>(world_.rank());
    shared_.buffers.in[self] = has_input ? in_.raw() : nullptr;
    shared_.buffers.out[self] = out_ ? out_.raw() : nullptr;
    if (self == 0) shared_.buffers.bytes = row.bytes;
    world_.control().barrier();
  }

  void call(Operation operation) {
    switch (operation) {
      case Operation::AllReduce:
        world_.all_reduce(stream_, out_, ReduceOp::Sum);
        return;
      case Operation::ReduceScatter:
        world_.reduce_scatter(stream_, out_, in_, ReduceOp::Sum);
        return;
      case Operation::AllGather:
        world_.all_gather(stream_, out_, in_);
        return;
      case Operation::AllToAll:
        world_.all_to_all(stream_, out_, in_);
        return;
      case Operation::Broadcast:
        world_.broadcast(stream_, out_, 0);
        return;
      case Operation::Scatter:
        world_.scatter(stream_, out_, in_, in_.elements(), 0);
        return;
      case Operation::Gather:
        world_.gather(stream_, out_, in_, out_.elements(), 0);
        return;
      case Operation::Reduce:
        world_.reduce(stream_, out_, ReduceOp::Sum, 0);
        return;
      case Operation::Send:
      case Operation::Receive:
        message(operation == Operation::Send);
        return;
      case Operation::Barrier:
        world_.control().barrier();
        return;
    }
  }

  // Between ranks 0 and 1, 2 and 3, ...; the last one of an odd number has nobody.
  void message(bool from_even) {
    const int rank = world_.rank(), peer = rank ^ 1;
    if (peer >= world_.size()) return;
    if ((rank % 2 == 0) == from_even)
      world_.send(stream_, out_, peer);
    else
      world_.receive(stream_, out_, peer);
  }

  // Seconds per pass.
  template <class F>
  double time(int passes, F&& pass) {
    const double seconds = shared_.together.time(world_.rank(), [&] {
      for (int i = 0; i < passes; ++i) pass();
    });
    return seconds / passes;
  }

  Communicator& world_;
  Shared& shared_;
  Arena arena_;
  Stream stream_;
  Tensor in_, out_;
};

void run_round(std::vector<CollectiveRow>& rows, int ranks, const CollectiveOptions& options,
               const Clock& clock) {
  int64_t most_bytes = 0;
  for (const CollectiveRow& row : rows) most_bytes = std::max(most_bytes, row.bytes);
  Shared shared(ranks, clock, options.timeout_s);
  ThreadWorld world(ranks, clock, {.timeout_s = options.timeout_s});
  world.run([&](Communicator& rank) {
    RankBench bench(rank, shared, most_bytes);
    for (CollectiveRow& row : rows) bench.run(row, options.turns);
  });
}

void ask_peer(std::vector<CollectiveRow>& rows, int ranks, const CollectiveOptions& options,
              std::string& why_no_peer) {
  std::vector<NativeTask> tasks;
  std::vector<CollectiveRow*> asked;
  for (CollectiveRow& row : rows)
    if (has_limit(row.operation)) {
      tasks.push_back({row.operation, row.bytes});
      asked.push_back(&row);
    }
  if (tasks.empty()) return;
  try {
    const std::vector<double> seconds = options.peer(ranks, tasks, options.turns);
    SXT_CHECK(seconds.size() == tasks.size(), Failure, "the peer answered ", seconds.size(), " of ",
              tasks.size(), " tasks");
    for (size_t i = 0; i < tasks.size(); ++i)
      asked[i]->mpi_seconds =
          asked[i]->mpi_seconds > 0 ? std::min(asked[i]->mpi_seconds, seconds[i]) : seconds[i];
  } catch (const Error& error) {
    why_no_peer = error.what();
  }
}

// Buffers of all ranks, ours or the peer's; half of the memory is left for the library.
bool fits(int64_t bytes, int ranks) {
  return bytes <= physical_memory() / 2 / (2 * ranks);
}

}  // namespace

double bus_factor(Operation operation, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (operation) {
    case Operation::AllReduce:
      return 2 * others;
    case Operation::Broadcast:
    case Operation::Reduce:
    case Operation::Send:
    case Operation::Receive:
      return 1;
    default:
      return others;
  }
}

CollectiveReport bench_collectives(const CollectiveOptions& options, const Clock& clock) {
  SXT_CHECK(options.turns.repeats > 0 && options.rounds > 0, Usage,
            "bench collectives: repeats=", options.turns.repeats, " rounds=", options.rounds,
            ", both must be at least 1");
  CollectiveReport report;
  for (const int ranks : options.ranks) {
    std::vector<CollectiveRow> rows;
    for (const Operation operation : options.operations)
      for (const int64_t size : options.sizes) {
        if (operation == Operation::Barrier) {
          rows.push_back({operation, ranks, 0, kNever, kNever, 0});
          break;
        }
        const int64_t part = std::max<int64_t>(1, size / size_of(DType::F32) / ranks);
        if (fits(size, ranks))
          rows.push_back({operation, ranks, part * ranks * size_of(DType::F32), kNever, kNever, 0});
        else
          report.skipped.push_back(concat(name_of(operation), " of ", format_bytes(size), " over ",
                                          ranks, " ranks: needs ", format_bytes(2 * ranks * size),
                                          ", more than half of this machine's memory"));
      }
    for (int round = 0; round < options.rounds && !rows.empty(); ++round) {
      run_round(rows, ranks, options, clock);
      if (options.peer && report.why_no_peer.empty())
        ask_peer(rows, ranks, options, report.why_no_peer);
    }
    report.rows.insert(report.rows.end(), rows.begin(), rows.end());
  }
  return report;
}

}  // namespace sextant
