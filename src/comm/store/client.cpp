#include "comm/store/client.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "comm/timeout_report.h"

namespace sextant::store {
namespace {

constexpr double kPollSeconds = 0.05;
// The store keeps the deadlines. A rank gives it this much longer to say so before it gives up.
constexpr double kGraceSeconds = 5;
constexpr const char* kStoreIsGone =
    "rank 0, which keeps the store, has ended: its process was killed, or its host is gone";

// Whether the store at the other end is this run's; it says so at once, or closes the connection.
bool is_accepted(const Socket& socket, Bytes& buffer, const Deadline& deadline) {
  while (!deadline.is_over()) {
    if (!wait_readable(socket, std::min(kPollSeconds, std::max(0.0, deadline.left())))) continue;
    const bool is_open = receive_some(socket, buffer);
    const std::optional<Frame> frame = take_frame(buffer);
    if (frame && frame->kind == FrameKind::Failure)
      throw Error(Fault::Config, text_of(frame->bytes));
    if (frame) return frame->kind == FrameKind::Accepted;
    if (!is_open) return false;
  }
  return false;
}

}  // namespace

void introduce(const Socket& socket, const std::string& job, int rank, int ranks) {
  Writer writer;
  writer.add_list(job).add(rank).add(ranks);
  send_all(socket, encode(FrameKind::Hello, 0, writer.bytes()), kSendSeconds);
}

Accepted find_store(const std::vector<Address>& addresses, const std::string& job, int rank,
                    int ranks, const Deadline& deadline) {
  constexpr double kAcceptSeconds = 2;
  const SystemClock clock;
  std::string why = "nobody listens there";
  while (!deadline.is_over()) {
    for (const Address& address : addresses) {
      Socket socket = connect_to(address, deadline, why);
      if (!socket) continue;
      introduce(socket, job, rank, ranks);
      Bytes buffer;
      try {
        if (is_accepted(socket, buffer, Deadline(clock, std::min(kAcceptSeconds, deadline.left()))))
          return {std::move(socket), std::move(buffer)};
        why = "another program listens there";
      } catch (const Error& error) {
        if (error.fault() == Fault::Config) throw;
        why = "another program listens there";
      }
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(kPollSeconds));
  }
  SXT_FAIL(Peer, "rank ", rank, " found no store of rank 0 at ", to_string(addresses.front()),
           addresses.size() > 1 ? concat(" to ", addresses.back().port) : "", " within ",
           deadline.seconds(), " s (", why, "): see that rank 0 runs there and that MASTER_ADDR ",
           "and MASTER_PORT are the same for all ranks");
}

Client::Client(Accepted connection, int rank, double timeout_s, const Ledger& ledger)
    : socket_(std::move(connection.socket)),
      buffer_(std::move(connection.received)),
      rank_(rank),
      deadline_s_(timeout_s),
      ledger_(ledger),
      thread_([this] { work(); }) {}

Client::~Client() {
  {
    const std::lock_guard lock(mutex_);
    is_leaving_ = true;
  }
  thread_.join();
}

void Client::work() {
  bool is_open = true;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (is_leaving_) return;
    }
    std::string problem = is_open ? "" : kStoreIsGone;
    try {
      while (std::optional<Frame> frame = take_frame(buffer_)) take(*frame);
    } catch (const Error& error) {
      problem = error.what();
    }
    if (!problem.empty()) {
      const std::lock_guard lock(mutex_);
      was_told_ = was_told_ || failure_.empty();
      if (failure_.empty()) fail_by(problem);
      return;
    }
    if (wait_readable(socket_, kPollSeconds)) is_open = receive_some(socket_, buffer_);
  }
}

void Client::take(const Frame& frame) {
  if (frame.kind == FrameKind::Question)
    return send(FrameKind::Status, 0, bytes_of(status_of(ledger_).text));
  const std::lock_guard lock(mutex_);
  if (frame.kind == FrameKind::Welcome) {
    is_welcome_ = true;
  } else if (frame.kind == FrameKind::Failure) {
    was_told_ = was_told_ || failure_.empty();
    if (failure_.empty()) fail_by(text_of(frame.bytes));
  } else if (const auto found = replies_.find(frame.id); found != replies_.end()) {
    found->second = {true, frame.kind, frame.bytes};
  }
  changed_.notify_all();
}

void Client::send(FrameKind kind, int64_t id, const Bytes& bytes) {
  const std::lock_guard lock(sending_);
  send_all(socket_, encode(kind, id, bytes),
           kSendSeconds);  // a lost connection is met when reading
}

void Client::fail_by(const std::string& reason) {
  failure_ = reason;
  changed_.notify_all();
}

void Client::await_welcome() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(deadline_s_ + kGraceSeconds),
                    [this] { return is_welcome_ || !failure_.empty(); });
  SXT_CHECK(failure_.empty(), Peer, failure_);
  SXT_CHECK(is_welcome_, Peer, "rank 0, which keeps the store, does not answer");
}

Bytes Client::call(const Request& request) {
  std::unique_lock lock(mutex_);
  SXT_CHECK(failure_.empty(), Peer, failure_);
  const int64_t id = ++last_id_;
  replies_[id];
  lock.unlock();
  send(FrameKind::Call, id, encode(request));
  lock.lock();
  const Reply& reply = replies_[id];
  changed_.wait_for(lock, std::chrono::duration<double>(deadline_s_ + kGraceSeconds),
                    [&] { return reply.is_there || !failure_.empty(); });
  const Reply got = reply;
  replies_.erase(id);
  if (!got.is_there && failure_.empty()) {
    was_told_ = true;
    fail_by(concat("group ", request.group, ", ", request.text,
                   ": rank 0, which keeps the store, does not answer within ",
                   deadline_s_ + kGraceSeconds, " s"));
  }
  if (!got.is_there) throw Error(Fault::Peer, failure_);
  if (got.kind == FrameKind::Refusal) throw Error(Fault::Peer, text_of(got.bytes));
  return got.bytes;
}

void Client::fail(const std::string& reason, const char* did) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    fail_by(reason);
  }
  send(FrameKind::Failure, 0, bytes_of(concat("rank ", rank_, ' ', did, ": ", reason)));
}

void Client::leave() {
  send(FrameKind::Goodbye, 0, {});
}

bool Client::has_failed() {
  const std::lock_guard lock(mutex_);
  return !failure_.empty();
}

bool Client::was_told() {
  const std::lock_guard lock(mutex_);
  return was_told_;
}

void Client::check() {
  const std::lock_guard lock(mutex_);
  SXT_CHECK(failure_.empty(), Peer, failure_);
}

}  // namespace sextant::store
