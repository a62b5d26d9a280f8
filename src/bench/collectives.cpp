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
    if (world_.rank() == 0) {
      row.seconds = std::min(row.seconds, best);
      row.limit_seconds = std::min(row.limit_seconds, best_limit);
    }
    in_ = out_ = Tensor();
    world_.control().barrier();  // no rank uses these buffers now
  }

 private:
  void prepare(const CollectiveRow& row) {
    const int64_t all = row.bytes / size_of(DType::F32), part = all / world_.size();
    const auto make = [&](int64_t elements) {
      Tensor made = arena_.allocate(Category::Communication, DType::F32, {elements});
      fill_zero(stream_, made);  // sums of zeros stay zero; also touches the pages
      return made;
    };
    const Operation operation = row.operation;
    const bool is_in_place = operation == Operation::AllReduce || operation == Operation::Broadcast;
    if (!is_in_place) in_ = make(operation == Operation::AllGather ? part : all);
    out_ = make(operation == Operation::ReduceScatter ? part : all);
    const auto self = static_cast<size_t>(world_.rank());
    shared_.buffers.in[self] = is_in_place ? nullptr : in_.raw();
    shared_.buffers.out[self] = out_.raw();
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
      default:
        SXT_FAIL(Usage, "bench collectives: ", name_of(operation), " is not timed");
    }
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
  for (const CollectiveRow& row : rows) tasks.push_back({row.operation, row.bytes});
  try {
    const std::vector<double> seconds = options.peer(ranks, tasks, options.turns);
    SXT_CHECK(seconds.size() == rows.size(), Failure, "the peer answered ", seconds.size(), " of ",
              rows.size(), " tasks");
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i].mpi_seconds =
          rows[i].mpi_seconds > 0 ? std::min(rows[i].mpi_seconds, seconds[i]) : seconds[i];
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
  if (operation == Operation::AllReduce) return 2 * others;
  return operation == Operation::Broadcast ? 1 : others;
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
