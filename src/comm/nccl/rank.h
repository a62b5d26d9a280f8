#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "comm/communicator.h"
#include "comm/job_thread.h"
#include "comm/nccl_world.h"
#include "tensor/gpu.h"

namespace sextant::nccl {

class Connection;

// The call without its split sizes, whose memory is the caller's.
inline Call without_split(Call call) {
  call.split_sizes = call.receive_split_sizes = SplitSizes();
  return call;
}

// A point in a queue, used again when nobody needs it any more.
struct Mark {
  explicit Mark(int gpu) : event(gpu) {}
  gpu::Event event;
  int users = 0;
};

// A call whose tensors may not be touched yet, or that was not waited for.
struct Job {
  Call call;
  Mark* ready = nullptr;          // the call's inputs and outputs can be used
  Mark* done = nullptr;           // its end
  Mark* after = nullptr;          // the end of a call that it follows
  JobThread* thread = nullptr;    // that issues it; null: issued already
  int64_t place = 0;              // there
  std::exception_ptr error = {};  // of the thread
};

// What one rank has for all of its groups: its connections, the thread that issues its asynchronous
// collectives, and the watch.
class Rank {
 public:
  Rank(Communicator& host, const NcclOptions& options, CallOrder order);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  Communicator& host() { return host_; }
  int gpu() const { return options_.gpu; }
  double timeout_s() const { return options_.timeout_s; }
  const Clock& clock() const { return clock_; }
  SumOrder sums() const { return options_.sums; }
  bool waits_on_host() const { return order_ == CallOrder::Host; }
  JobThread& progress_thread() { return progress_thread_; }
  const std::function<void()>& stream_check() const { return stream_check_; }

  // Keeps a connection until the end. Any thread, as all of the following.
  Connection& add(std::unique_ptr<Connection> connection);

  // Error(Peer) once this rank or another one has failed.
  void check();
  // Whether to give up waiting; cheap enough for a polling loop.
  bool has_failed() { return failed_.load() || host_.is_aborted(); }
  // Aborts all connections and tells the other ranks, once; then throws Error(Peer) with the reason
  // that came first.
  [[noreturn]] void fail(const std::string& reason);

  Mark* take_mark(int users);
  Mark* share(Mark* mark);   // for one more user
  void release(Mark* mark);  // by one user; null: nothing, as above
  // The watch follows the call until `done` has passed.
  void watch(const Connection& connection, const Call& call, Mark* done);
  // A graph of the rank's stream: a recording begins; a call was recorded in the connection's
  // queue; the recorded stream waits for the ends of all queues; what was recorded is about to be
  // launched, with no launch under way; it was launched in the queue, and the watch follows its
  // calls.
  void start_recording();
  void add_recorded(Connection& connection, const Call& call);
  void join_recorded(gpu::Queue& queue);
  void start_launch();
  void watch_launch(gpu::Queue& queue);
  // The host waits until the mark has passed.
  void await(const Mark& mark);

  // Started calls of all groups, by ticket; used by the rank's thread only.
  int64_t keep(std::unique_ptr<Job> job);
  Job& job(int64_t ticket) { return *jobs_.at(ticket); }
  std::unique_ptr<Job> take(int64_t ticket);

 private:
  // A call that was issued to the GPU.
  struct Flight {
    const Connection* connection;
    Call call;  // without split sizes, whose memory is the caller's
    Mark* done;
    double issued;
  };

  // A call of the graph, and its number among those of its connection, from 1.
  struct Recorded {
    Connection* connection;
    Call call;  // without split sizes
    int64_t number;
  };
  // The graph on the GPU.
  struct Launch {
    Mark* done;
    double issued;
    int64_t counted = 0;  // calls that have ended
  };

  void run_watch();
  std::string find_problem();  // "" or why the run cannot go on
  std::string check_flights();
  std::string check_launch();  // requires mutex_, as the following
  std::string describe_late(const Connection& connection, const Call& call, bool is_late);
  void let_go(Mark* mark);
  void stop(const std::string& reason);  // as fail, without throwing
  void abort_connections();
  void finalize();

  Communicator& host_;
  const NcclOptions options_;
  const CallOrder order_;
  const Clock& clock_;
  const std::function<void()> stream_check_;
  JobThread progress_thread_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards the members down to jobs_
  std::string reason_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Mark>> marks_;
  std::vector<Mark*> free_marks_;
  std::vector<Flight> flights_;
  std::vector<Recorded> recorded_;
  std::optional<Launch> launch_;
  double last_end_ = 0;  // of a flight or a recorded call
  bool ending_ = false;
  std::condition_variable changed_;
  std::unordered_map<int64_t, std::unique_ptr<Job>> jobs_;
  int64_t last_ticket_ = 0;
  std::thread watch_;
};

}  // namespace sextant::nccl
