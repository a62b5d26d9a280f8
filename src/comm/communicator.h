#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "comm/call.h"
#include "comm/control.h"
#include "comm/ledger.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace sextant {

namespace gpu {
class Graph;
}
class Communicator;

// Handle of an asynchronous call (as PyTorch's Work). Its tensors must not be touched before wait
// returns; the handle keeps them alive until then. Used by its rank's thread only.
class Pending {
 public:
  Pending() noexcept {}  // not defaulted: `Pending()` would also clear the storage of State
  Pending(Pending&& other) noexcept;
  Pending& operator=(Pending&& other) noexcept;
  ~Pending() {  // waits, and drops any error
    if (communicator_ != nullptr) wait_ignoring_errors();
  }

  explicit operator bool() const { return communicator_ != nullptr; }  // something to wait for
  // Returns when the call is done, or throws its error; on a GPU when the call is issued and later
  // operations of its stream will run after it. A second wait does nothing.
  void wait();

 private:
  friend class Communicator;
  // Empty for a call that was done when its Pending was made, which is the common case.
  struct State {
    State(Stream& stream, const Call& call, const Tensor& in, const Tensor& out)
        : call(call), in(in), out(out), stream(&stream), access(stream) {}
    Call call;
    int64_t ticket = 0;
    uint32_t op = 0;  // in the trace, if one is recorded
    Tensor in, out;
    Stream* stream;
    Access access;
  };

  void wait_ignoring_errors() noexcept;

  Communicator* communicator_ = nullptr;
  std::optional<State> state_;
};

// One rank's handle to a process group. All ranks of a group make the same calls in the same order
// (Send and Receive: pairwise). If operation, type, count, root or split sizes differ between
// ranks, all of them throw Error(Peer) that says which rank called what. If a rank does not make
// the call within the deadline, the others throw Error(Peer) that lists the missing ranks.
// Exception: in a small broadcast over threads the root waits for rank 0 at most. If the call of
// another rank does not match, the root throws in one of its next calls, at the latest when its
// function returns.
//
// Reductions run in rank order 0 ... size - 1, element by element; narrow types accumulate in f32
// and are rounded once. The bits are the same on every run, rank and transport. Max and min give
// NaN if any element is NaN; the payload of a NaN may differ.
//
// On a GPU a call returns once all ranks have issued theirs; the work of the device runs later, in
// the order of the rank's stream (When::Now) or beside it (When::Later).
//
// Used by its rank's thread only. When::Later collectives of one group run in the order in which
// they were issued. Order between groups needs Pending::wait or order_after(). A When::Now call may
// overtake earlier When::Later calls.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_; }
  // Rank in the world of a rank of this group.
  virtual int world_rank(int rank) const = 0;
  Ledger& ledger() { return ledger_; }

  // See Call for shapes. Tensors are treated as flat vectors.
  Pending all_reduce(Stream& stream, Tensor& data, ReduceOp reduce_op, When when = When::Now,
                     TrafficClass traffic = TrafficClass::Tensor);
  Pending reduce_scatter(Stream& stream, Tensor& out, const Tensor& in, ReduceOp reduce_op,
                         When when = When::Now, Into into = Into::Replace,
                         const SplitSizes& split_sizes = {});
  Pending all_gather(Stream& stream, Tensor& out, const Tensor& in, When when = When::Now,
                     const SplitSizes& split_sizes = {});
  // Both vectors are split evenly, or by the elements sent to and received from each rank.
  Pending all_to_all(Stream& stream, Tensor& out, const Tensor& in, When when = When::Now,
                     const SplitSizes& send = {}, const SplitSizes& receive = {});
  Pending broadcast(Stream& stream, Tensor& data, int root, When when = When::Now);
  // `in` is read on the root only and may be empty elsewhere; it has `total` elements.
  Pending scatter(Stream& stream, Tensor& out, const Tensor& in, int64_t total, int root,
                  When when = When::Now, const SplitSizes& split_sizes = {});
  // `out` is written on the root only and may be empty elsewhere; it has `total` elements.
  Pending gather(Stream& stream, Tensor& out, const Tensor& in, int64_t total, int root,
                 When when = When::Now, const SplitSizes& split_sizes = {});
  // data = the reduction on the root, unchanged elsewhere.
  Pending reduce(Stream& stream, Tensor& data, ReduceOp reduce_op, int root, When when = When::Now);
  // Messages between two ranks arrive in the order sent. When::Later messages block no other call.
  Pending send(Stream& stream, const Tensor& data, int to, When when = When::Now);
  Pending receive(Stream& stream, Tensor& data, int from, When when = When::Now);

  // Collectives of host values among the same ranks.
  virtual ControlPlane& control() { return control_; }

  // A new group of these ranks of this group, in this order. Collective over this group: each rank
  // passes the list of the new group it belongs to, the same list on all members. The result must
  // not outlive this communicator. `name` must differ from those of the rank's other groups. What
  // it sends is counted for `axis`, without one for that of this group.
  std::unique_ptr<Communicator> subgroup(std::span<const int> ranks, const std::string& name,
                                         std::string_view axis = {});

  // The next When::Later collective of this group runs after `earlier`, a When::Later collective of
  // any group of this rank.
  void order_after(const Pending& earlier);

  // For transports whose data moves on devices: the ranks of a collective, or both ends of a
  // message, agree on `call` on the host, with the errors of a call that moves its data. A sender's
  // note of kNoteBytes becomes that of the receiver. Neither counted nor traced. `call.sequence` is
  // the caller's: meetings have a group for themselves. One thread at a time for collectives, and
  // one for the messages from a rank to another.
  void meet(const Call& call, std::byte* note = nullptr);

  // Whether a rank's calls can be part of a gpu::Graph of its stream, for all groups of the world
  // that this one is. Without peers they are work of the stream as any other.
  virtual bool can_record() const { return size_ == 1; }
  // Records f's work on the stream in the graph. Collective: all ranks record the same calls, which
  // are agreed on as they are recorded.
  virtual void record(gpu::Graph& graph, Stream& stream, FunctionRef<void()> f);
  // Launches what was recorded last. All ranks must have met on the host before: the calls of a
  // graph meet on the device only. Errors and deadlines are those of calls that are not recorded.
  // The host waits for the stream before the next launch.
  virtual void launch(gpu::Graph& graph, Stream& stream);

  // Whether this rank or another one has aborted the world. Any thread.
  virtual bool is_aborted() { return false; }
  // Whether the launcher is about to end this process because of another rank. Any thread.
  virtual bool is_ending() { return false; }
  // If the world is aborted, throws what any call would.
  virtual void check_alive() {}

  // Aborts the world because this rank cannot continue: all current and later calls of the other
  // ranks, in all groups, throw Error(Peer) with this reason. May be called from any thread.
  virtual void abort(const std::string& reason) = 0;

 protected:
  Communicator(int rank, int size, std::string name, Ledger& ledger);

  // Scope of a call while it executes, on any thread: updates the recorder, busy time and spans.
  // Communicator creates one around execute; a transport creates one where it runs a call that it
  // got by start.
  class Running {
   public:
    Running(Communicator& communicator, const Call& call);  // When::Later
    ~Running() {
      if (lane_ == 0 && communicator_.watch_ == 0)
        communicator_.ledger_.recorder.end(call_.event, begin_);
      else
        record_time();
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    friend class Communicator;
    Running(Communicator& communicator, const Call& call, double posted)  // When::Now
        : communicator_(communicator), call_(call), lane_(0), begin_(posted) {}
    void record_time();  // for a call that took time

    Communicator& communicator_;
    const Call& call_;
    int lane_;
    double begin_;
  };

  // The subgroup of these ranks, of which this one is number `own`.
  virtual std::unique_ptr<Communicator> make_subgroup(std::span<const int> ranks, int own,
                                                      const std::string& name) = 0;
  // Called right before a call is counted and executed: the transport can post it to the other
  // ranks early, so that bookkeeping overlaps with its delivery. Returns true if the call may be
  // shorter than two clock reads; execute then calls start_watch if it has to wait. Does not throw.
  virtual bool announce(const Call& /*call*/) { return false; }
  // Runs the call to completion on the rank's own thread.
  virtual void execute(const Call& call) = 0;
  // Starts timing the call that is executing.
  void start_watch() {
    if (watch_ == 0) watch_ = ledger_.clock.now();
  }
  // Starts the call asynchronously and returns its ticket. The call's split sizes stay alive until
  // finish.
  virtual int64_t start(const Call& call) = 0;
  virtual void finish(int64_t ticket) = 0;  // waits for the call; throws its error
  // The next call that is started runs after this one, of any group of the rank. For transports
  // whose calls do not run in the order in which the rank starts them.
  virtual void start_after(int64_t /*ticket*/) {}

 private:
  friend class Pending;
  // Host values over the same transport as tensors.
  class OwnControl final : public ControlPlane {
   public:
    explicit OwnControl(Communicator& communicator) : communicator_(communicator) {}
    int rank() const override { return communicator_.rank(); }
    int size() const override { return communicator_.size(); }
    const std::string& name() const override { return communicator_.name(); }

   protected:
    void run(Call& call) override { communicator_.run_host(call); }

   private:
    Communicator& communicator_;
  };

  Pending begin(Stream& stream, Call& call, const Tensor& in, const Tensor& out, When when);
  uint32_t record(Stream& stream, const Call& call, const Tensor& in, const Tensor& out, When when);
  int lane_of(TraceRecorder& recorder, const Call& call);
  Traffic& traffic_of(const Call& call) {
    return call.traffic == TrafficClass::Control ? ledger_.control
                                                 : ledger_.traffic.at(axis_, call.operation);
  }
  Pending begin_later(Stream& stream, Call& call, const Tensor& in, const Tensor& out);
  void wait_for(const Call& call, int64_t ticket);
  void run_host(Call& call);
  void add_exposed(const Call& call, double seconds);
  void run_now(Call& call, Traffic& traffic);
  void number(Call& call);
  void post(Call& call, When when, double now);
  void check_split(const Call& call, const SplitSizes& split_sizes, int64_t total) const {
    sextant::check_split(call, split_sizes, total, size_, name_);
  }
  void check_root(const Call& call) const;
  void check_size(const Call& call, const char* what, const Tensor& tensor, int64_t elements) const;
  void add_span(const char* kind, const Call& call, int lane, double begin, double end);

  int rank_, size_;
  std::string name_;
  std::array<char, 24> short_name_{};  // for the Recorder
  Ledger& ledger_;
  size_t axis_;  // in ledger_.traffic
  int64_t collectives_ = 0;
  double watch_ = 0;                      // start time of the executing call; 0: not timed yet
  std::vector<int64_t> sent_, received_;  // messages, by rank
  // Trace lanes used so far with recorder lanes_of_: collectives, then sends by rank, then receives
  // by rank.
  std::vector<int> lanes_;
  const TraceRecorder* lanes_of_ = nullptr;
  std::vector<uint32_t> followed_;  // trace operations that the next collective waits for
  OwnControl control_{*this};
};

// A second group of the same ranks, whose calls are not ordered with those of the first.
std::unique_ptr<Communicator> duplicate(Communicator& group, const std::string& name);

// The ranks of 0 ... size - 1 with is_member(rank), ascending: an argument for subgroup.
template <class F>
std::vector<int> ranks_where(int size, F&& is_member) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank)
    if (is_member(rank)) ranks.push_back(rank);
  return ranks;
}

}  // namespace sextant
