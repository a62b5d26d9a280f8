#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/control.h"
#include "comm/ledger.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace sextant {

class Communicator;

// A collective that may still be running. Its tensors must not be touched before wait returns; it
// holds on to them until then. Lives on its rank's thread.
class Pending {
 public:
  Pending() noexcept {}  // not defaulted: `Pending()` would clear the module for State, too
  Pending(Pending&& other) noexcept;
  Pending& operator=(Pending&& other) noexcept;
  ~Pending() {  // waits; what went wrong is lost then
    if (communicator_ != nullptr) wait_anyhow();
  }

  explicit operator bool() const { return communicator_ != nullptr; }  // something to wait for
  // Returns when the collective is done; throws what it threw. Nothing to do a second time.
  void wait();

 private:
  friend class Communicator;
  // Most collectives are done when their Pending is made and need none of this.
  struct State {
    State(Stream& stream, const Call& call, const Tensor& in, const Tensor& out)
        : call(call), in(in), out(out), stream(&stream), access(stream) {}
    Call call;
    int64_t ticket = 0;
    uint32_t op = 0;  // in the trace, where somebody records one
    Tensor in, out;
    Stream* stream;
    Access access;
  };

  void wait_anyhow() noexcept;

  Communicator* communicator_ = nullptr;
  std::optional<State> state_;
};

// One rank's end of a group of ranks. All ranks of a group make the same calls in the same order
// (Send and Receive: pairwise); whoever calls something else, or with another type, count, root or
// cut, makes all of them throw Error(Peer) that says who called what. A call that not all ranks
// reach within the deadline throws Error(Peer) that lists the missing ones. The root of a small
// broadcast over threads waits for nobody, so it hears of either in one of its next calls (and its
// world is over then); in the group of all ranks at the latest when its function returns.
//
// Sums are folded in rank order 0 ... size - 1, element by element, narrow types in f32 and rounded
// once: the same bits on every run, every rank and every transport. Max and min give NaN if any
// element is.
//
// Used by its rank's thread only. Collectives with When::Later run beside it, those of a group in
// the order they were made. Order between groups comes from waiting alone: for a Pending, or with
// follow(). Calls with When::Now may overtake earlier ones with When::Later.
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

  // See Call for shapes. Tensors are taken as flat vectors of their elements.
  Pending all_reduce(Stream& stream, Tensor& data, Fold fold, When when = When::Now,
                     Book book = Book::Traffic);
  Pending reduce_scatter(Stream& stream, Tensor& out, const Tensor& in, Fold fold,
                         When when = When::Now, Into into = Into::Replace, const Cut& cut = {});
  Pending all_gather(Stream& stream, Tensor& out, const Tensor& in, When when = When::Now,
                     const Cut& cut = {});
  // Even cuts of both vectors, or the sizes for each rank of what is sent and received.
  Pending all_to_all(Stream& stream, Tensor& out, const Tensor& in, When when = When::Now,
                     const Cut& send = {}, const Cut& receive = {});
  Pending broadcast(Stream& stream, Tensor& data, int root, When when = When::Now);
  // `in` counts on the root only; elsewhere it may be empty. `total` elements in all.
  Pending scatter(Stream& stream, Tensor& out, const Tensor& in, int64_t total, int root,
                  When when = When::Now, const Cut& cut = {});
  // `out` counts on the root only; elsewhere it may be empty.
  Pending gather(Stream& stream, Tensor& out, const Tensor& in, int64_t total, int root,
                 When when = When::Now, const Cut& cut = {});
  // data = the fold, on the root; elsewhere it stays as it is.
  Pending reduce(Stream& stream, Tensor& data, Fold fold, int root, When when = When::Now);
  // Messages between two ranks arrive in the order sent. When::Later never blocks the other calls.
  Pending send(Stream& stream, const Tensor& data, int to, When when = When::Now);
  Pending receive(Stream& stream, Tensor& data, int from, When when = When::Now);

  // Where values of the host travel among the same ranks.
  virtual ControlPlane& control() { return control_; }

  // A group of these ranks of this one, in this order; the caller is one of them. All ranks call it
  // together, each with the list of the group it belongs to, the same on all members. The new end
  // must not outlive this one. Names differ among the groups of a rank.
  virtual std::unique_ptr<Communicator> subgroup(std::span<const int> ranks,
                                                 const std::string& name) = 0;

  // Collectives of this group that are made from now on run after this one, of any group of the
  // rank.
  void follow(const Pending& earlier);

  // This rank cannot go on: every call of the others, now and later and in all groups, throws
  // Error(Peer) with this reason. May be called from any thread.
  virtual void abort(const std::string& reason) = 0;

 protected:
  Communicator(int rank, int size, std::string name, Ledger& ledger);

  // Keeps the books of a call while it is executed, on whatever thread: recorder, busy time, trace.
  // Communicator makes one around execute; a transport makes one where it runs what start was
  // given.
  class Running {
   public:
    Running(Communicator& communicator, const Call& call);  // made with When::Later
    ~Running() {
      if (lane_ == 0 && communicator_.watch_ == 0)
        communicator_.ledger_.recorder.end(call_.event, begin_);
      else
        book();
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    friend class Communicator;
    Running(Communicator& communicator, const Call& call, double posted)  // When::Now
        : communicator_(communicator), call_(call), lane_(0), begin_(posted) {}
    void book();  // of a call that took time

    Communicator& communicator_;
    const Call& call_;
    int lane_;
    double begin_;
  };

  // Before a call is booked that is executed next: a chance to tell the other ranks of it, so that
  // this travels while the books are written. Returns whether the call may be over in less time
  // than it takes to read the clock twice; execute says start_watch then if it is not. Throws
  // nothing.
  virtual bool announce(const Call& /*call*/) { return false; }
  // Runs the call to its end on the calling thread, the rank's own.
  virtual void execute(const Call& call) = 0;
  // The call that is executed takes time from here on.
  void start_watch() {
    if (watch_ == 0) watch_ = ledger_.clock.now();
  }
  // Has it run beside the caller; the ticket names it. The call's cuts live until finish.
  virtual int64_t start(const Call& call) = 0;
  virtual void finish(int64_t ticket) = 0;  // waits for it and throws what it threw

 private:
  friend class Pending;
  // Values of the host over this transport itself.
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
  uint32_t record(Stream& stream, const Call& call, const Tensor& in, const Tensor& out);
  int lane_of(TraceRecorder& recorder, const Call& call);
  Traffic& traffic_of(const Call& call) {
    return call.book == Book::Control ? ledger_.control
                                      : ledger_.traffic[static_cast<size_t>(call.operation)];
  }
  Pending begin_later(Stream& stream, Call& call, const Tensor& in, const Tensor& out);
  void wait_for(const Call& call, int64_t ticket);
  void run_host(Call& call);
  void run_now(Call& call, Traffic& traffic);
  void number(Call& call);
  void post(Call& call, When when, double now);
  void check_cut(const Call& call, const Cut& cut, int64_t total) const {
    sextant::check_cut(call, cut, total, size_, name_);
  }
  void check_root(const Call& call) const;
  void check_size(const Call& call, const char* what, const Tensor& tensor, int64_t elements) const;
  void add_span(const char* kind, const Call& call, int lane, double begin, double end);

  int rank_, size_;
  std::string name_;
  std::array<char, 24> short_name_{};  // as the Recorder takes it
  Ledger& ledger_;
  int64_t collectives_ = 0;
  double watch_ = 0;  // when the call that is executed began to take time; 0: not so far
  std::vector<int64_t> sent_, received_;  // messages, by rank
  // Lanes of the trace, once used: of collectives, then of sends and of receives by rank. Of this
  // recorder.
  std::vector<int> lanes_;
  const TraceRecorder* lanes_of_ = nullptr;
  std::vector<uint32_t> followed_;  // operations of the trace that the next collective waits for
  OwnControl control_{*this};
};

// A second group of the same ranks, so that what travels in one does not wait for the other.
std::unique_ptr<Communicator> copy_of(Communicator& group, const std::string& name);

// The ranks of 0 ... size - 1 for which is_member(rank), ascending: a list for subgroup.
template <class F>
std::vector<int> ranks_where(int size, F&& is_member) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank)
    if (is_member(rank)) ranks.push_back(rank);
  return ranks;
}

}  // namespace sextant
