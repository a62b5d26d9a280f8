#include "comm/mpi_timing.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "comm/mpi/process.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace sextant {
namespace {

// MPI_Init and MPI_Finalize. Errors end the process, MPI's default: it does nothing else.
class Session {
 public:
  Session() {
    SXT_MPI(MPI_Init(nullptr, nullptr));
    SXT_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
    SXT_MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks_));
  }
  ~Session() { MPI_Finalize(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  int rank_ = 0, ranks_ = 1;
};

// The buffers of one task, in the same kind of pages as our own ranks use.
class Trial {
 public:
  Trial(const Session& session, const NativeTask& task)
      : operation_(task.operation),
        ranks_(session.ranks()),
        part_(std::max<int64_t>(1, task.bytes / size_of(DType::F32) / session.ranks())),
        arena_(Device{}, 2 * total() * size_of(DType::F32) + kSlack),
        in_(arena_.allocate(Category::Communication, DType::F32, {total()})),
        out_(arena_.allocate(Category::Communication, DType::F32, {total()})) {
    SXT_CHECK(total() <= std::numeric_limits<int>::max(), Usage, "bytes=", task.bytes,
              ": MPI counts at most 2^31 - 1 elements");
    fill(0);
  }

  void fill(float value) {
    std::fill_n(in_.data<float>(), total(), value);
    std::fill_n(out_.data<float>(), total(), value);
  }

  void run() {
    float *in = in_.data<float>(), *out = out_.data<float>();
    const int part = static_cast<int>(part_), all = static_cast<int>(total());
    const MPI_Comm world = MPI_COMM_WORLD;
    switch (operation_) {
      case Operation::AllReduce:
        SXT_MPI(MPI_Allreduce(MPI_IN_PLACE, out, all, MPI_FLOAT, MPI_SUM, world));
        return;
      case Operation::ReduceScatter: {
        const std::vector<int> parts(static_cast<size_t>(ranks_), part);
        SXT_MPI(MPI_Reduce_scatter(in, out, parts.data(), MPI_FLOAT, MPI_SUM, world));
        return;
      }
      case Operation::AllGather:
        SXT_MPI(MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, world));
        return;
      case Operation::AllToAll:
        SXT_MPI(MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, world));
        return;
      case Operation::Broadcast:
        SXT_MPI(MPI_Bcast(out, all, MPI_FLOAT, 0, world));
        return;
      default:
        SXT_FAIL(Usage, name_of(operation_), " is not timed beside MPI's");
    }
  }

  // All inputs are 1, so sums must be the number of ranks and all other results 1.
  void check() {
    fill(1);
    run();
    const bool is_sum =
        operation_ == Operation::AllReduce || operation_ == Operation::ReduceScatter;
    const float right = is_sum ? static_cast<float>(ranks_) : 1.0f;
    const int64_t count = operation_ == Operation::ReduceScatter ? part_ : total();
    const float* out = out_.data<float>();
    for (int64_t i = 0; i < count; ++i)
      SXT_CHECK(out[i] == right, Failure, "MPI's ", name_of(operation_), " over ", ranks_,
                " ranks gave ", out[i], " for ", right);
    fill(0);  // sums of sums would overflow
  }

 private:
  static constexpr int64_t kSlack = 4096;
  int64_t total() const { return part_ * ranks_; }

  Operation operation_;
  int ranks_;
  int64_t part_;
  Arena arena_;
  Tensor in_, out_;
};

constexpr int kPilot = 3;  // calls to estimate the duration of one

// From the first rank's begin to the last one's end: clocks of one machine agree.
double time_calls(Trial& trial, int calls, const Clock& clock) {
  SXT_MPI(MPI_Barrier(MPI_COMM_WORLD));
  std::array<double, 2> span{-clock.now(), 0};
  for (int i = 0; i < calls; ++i) trial.run();
  span[1] = clock.now();
  SXT_MPI(MPI_Allreduce(MPI_IN_PLACE, span.data(), 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
  return (span[1] + span[0]) / calls;
}

}  // namespace

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  SXT_MPI(MPI_Get_library_version(text.data(), &length));
  const std::string version(text.data(), static_cast<size_t>(length));
  return version.substr(0, version.find(','));
}

std::vector<double> time_native(std::span<const NativeTask> tasks, const Turns& turns,
                                const Clock& clock) {
  const Session session;
  std::vector<double> seconds;
  for (const NativeTask& task : tasks) {
    Trial trial(session, task);
    trial.check();
    const int calls = turns.calls(time_calls(trial, kPilot, clock));
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < turns.repeats; ++i) best = std::min(best, time_calls(trial, calls, clock));
    seconds.push_back(best);
  }
  if (session.rank() != 0) seconds.clear();
  return seconds;
}

}  // namespace sextant
