#include "comm/nccl/rank.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "comm/mismatch.h"
#include "comm/nccl/connection.h"

namespace sextant::nccl {
namespace {

constexpr auto kWatchEvery = std::chrono::milliseconds(20);

bool is_failure(ncclResult_t code) {
  return code != ncclSuccess && code != ncclInProgress;
}

}  // namespace

Rank::Rank(Communicator& host, const NcclOptions& options, CallOrder order)
    : host_(host),
      options_(options),
      order_(order),
      clock_(host.ledger().clock),
      stream_check_([this] { check(); }),
      watch_([this] { run_watch(); }) {}

// After a failure nobody finalizes: the connections are aborted.
Rank::~Rank() {
  progress_thread_.wait_idle();
  const bool is_unwinding = std::uncaught_exceptions() > 0;
  try {
    if (!is_unwinding && !has_failed()) finalize();
  } catch (const Error&) {  // aborted by `fail`; the run has its results
  }
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  watch_.join();
  abort_connections();
}

// All begin before any is waited for, as ranks may have made their connections in different orders.
void Rank::finalize() {
  for (const std::unique_ptr<Connection>& connection : connections_) connection->begin_finalize();
  for (const std::unique_ptr<Connection>& connection : connections_) connection->end_finalize();
}

Connection& Rank::add(std::unique_ptr<Connection> connection) {
  const std::lock_guard lock(mutex_);
  connections_.push_back(std::move(connection));
  return *connections_.back();
}

void Rank::check() {
  if (!failed_.load()) return host_.check_alive();
  const std::lock_guard lock(mutex_);
  throw Error(Fault::Peer, reason_);
}

void Rank::fail(const std::string& reason) {
  stop(reason);
  check();
  SXT_FAIL(Internal, "a failed rank goes on");
}

// A failure of another rank is that rank's to tell: only the connections are aborted then.
void Rank::stop(const std::string& reason) {
  if (!host_.is_aborted()) {
    {
      const std::lock_guard lock(mutex_);
      if (failed_.load()) return;
      reason_ = reason;
      failed_.store(true);
    }
    host_.abort(reason);
  }
  abort_connections();
}

void Rank::abort_connections() {
  std::vector<Connection*> all;
  {
    const std::lock_guard lock(mutex_);
    for (const std::unique_ptr<Connection>& connection : connections_)
      all.push_back(connection.get());
  }
  for (Connection* connection : all) connection->abort();
}

Mark* Rank::take_mark(int users) {
  const std::lock_guard lock(mutex_);
  if (free_marks_.empty()) {
    marks_.push_back(std::make_unique<Mark>(gpu()));
    free_marks_.reserve(marks_.size());
    flights_.reserve(marks_.size());
    free_marks_.push_back(marks_.back().get());
  }
  Mark* mark = free_marks_.back();
  free_marks_.pop_back();
  mark->users = users;
  return mark;
}

Mark* Rank::share(Mark* mark) {
  const std::lock_guard lock(mutex_);
  if (mark != nullptr) ++mark->users;
  return mark;
}

void Rank::release(Mark* mark) {
  if (mark == nullptr) return;
  const std::lock_guard lock(mutex_);
  let_go(mark);
}

void Rank::watch(const Connection& connection, const Call& call, Mark* done) {
  const std::lock_guard lock(mutex_);
  ++done->users;
  flights_.push_back({&connection, without_split(call), done, clock_.now()});
}

void Rank::await(const Mark& mark) {
  constexpr int kEager = 2000;
  for (int look = 0; !mark.event.is_done(); ++look) {
    if (has_failed()) check();
    if (look < kEager)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  if (has_failed()) check();  // kernels that were aborted are done too
}

int64_t Rank::keep(std::unique_ptr<Job> job) {
  jobs_.emplace(++last_ticket_, std::move(job));
  return last_ticket_;
}

std::unique_ptr<Job> Rank::take(int64_t ticket) {
  const auto found = jobs_.find(ticket);
  std::unique_ptr<Job> job = std::move(found->second);
  jobs_.erase(found);
  return job;
}

// A thread begins with GPU 0, which is another rank's where each process sees all GPUs.
void Rank::run_watch() {
  try {
    gpu::select(gpu());
  } catch (const Error& error) {
    return stop(error.what());
  }
  std::unique_lock lock(mutex_);
  while (!ending_) {
    changed_.wait_for(lock, kWatchEvery);
    if (ending_) return;
    lock.unlock();
    const std::string problem = find_problem();
    if (!problem.empty()) return stop(problem);
    lock.lock();
  }
}

std::string Rank::find_problem() {
  if (has_failed()) return "another rank failed";
  std::vector<Connection*> all;
  {
    const std::lock_guard lock(mutex_);
    for (const std::unique_ptr<Connection>& connection : connections_)
      all.push_back(connection.get());
  }
  for (Connection* connection : all)
    if (const ncclResult_t state = connection->state(); is_failure(state))
      return concat("group ", connection->name(), ": NCCL failed: ", connection->describe(state));
  try {
    return check_flights();
  } catch (const Error& error) {  // of a kernel
    return error.what();
  }
}

// A flight that another one or long compute holds up is late only when nothing ended for the whole
// time.
std::string Rank::check_flights() {
  const std::lock_guard lock(mutex_);
  size_t kept = 0;
  for (const Flight& flight : flights_) {
    if (!flight.done->event.is_done()) {
      flights_[kept++] = flight;
      continue;
    }
    last_end_ = clock_.now();
    let_go(flight.done);
  }
  flights_.resize(kept);
  for (const Flight& flight : flights_) {
    const bool is_late = clock_.now() - std::max(flight.issued, last_end_) > options_.timeout_s;
    if (is_late || host_.is_ending())
      return describe_late(*flight.connection, flight.call, is_late);
  }
  return check_launch();
}

std::string Rank::describe_late(const Connection& connection, const Call& call, bool is_late) {
  return concat(
      place_of(connection.name(), call), ": ", to_string(call),
      " was issued by all ranks and did not end on the GPU of rank ", host_.rank(),
      is_late ? concat(" within ", options_.timeout_s, " s") : " before mpirun ended the ranks");
}

void Rank::let_go(Mark* mark) {
  if (--mark->users == 0) free_marks_.push_back(mark);
}

}  // namespace sextant::nccl
