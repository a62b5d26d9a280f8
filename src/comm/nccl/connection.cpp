#include "comm/nccl/connection.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "fault/deadline.h"

namespace sextant::nccl {
namespace {

ncclConfig_t make_config() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

bool is_failure(ncclResult_t code) {
  return code != ncclSuccess && code != ncclInProgress;
}

}  // namespace

Connection::Connection(Rank& rank, std::string name, int ranks, int own, Carries carries)
    : rank_(rank),
      name_(std::move(name)),
      size_(ranks),
      own_(own),
      queue_(rank.gpu()),
      staging_(carries == Carries::Messages ? nullptr : gpu::allocate(rank.gpu(), kNcclStaging)),
      counter_(reinterpret_cast<int64_t*>(gpu::allocate_pinned(rank.gpu(), sizeof(int64_t)))) {}

Connection::~Connection() {
  gpu::release_pinned(queue_.index(), reinterpret_cast<std::byte*>(counter_));
  if (staging_ != nullptr) gpu::release(queue_.index(), staging_);
}

ncclUniqueId Connection::make_id() {
  ncclUniqueId id{};
  const ncclResult_t code = library().get_unique_id(&id);
  SXT_CHECK(code == ncclSuccess, Failure,
            "NCCL: ncclGetUniqueId failed: ", library().error_string(code), " (",
            library().last_error(nullptr), ")");
  return id;
}

Connection& Connection::create(Rank& rank, const std::string& name, const ncclUniqueId& id,
                               int ranks, int own, Carries carries) {
  Connection& made = rank.add(std::make_unique<Connection>(rank, name, ranks, own, carries));
  {
    const std::lock_guard lock(made.mutex_);
    gpu::select(rank.gpu());
    ncclConfig_t config = make_config();
    made.take_code(library().init(&made.handle_, ranks, id, own, &config));
  }
  made.await(concat("ncclCommInitRankConfig of ", ranks, " ranks"));
  return made;
}

// The new handle is valid once the parent is ready again.
Connection* Connection::split(const std::string& name, int color, int ranks, int own) {
  std::unique_ptr<Connection> child;
  if (color >= 0)
    child = std::make_unique<Connection>(rank_, name, ranks, own, Carries::Collectives);
  ncclComm_t nobody = nullptr;
  {
    const std::lock_guard lock(mutex_);
    check_usable();
    gpu::select(queue_.index());
    ncclConfig_t config = make_config();
    take_code(library().split(handle_, color >= 0 ? color : NCCL_SPLIT_NOCOLOR, own,
                              child ? &child->handle_ : &nobody, &config));
  }
  const std::string what = concat("ncclCommSplit into ", name);
  try {
    await(what);
  } catch (const Error&) {
    (void)child.release();  // NCCL may still write its handle
    throw;
  }
  if (!child) return nullptr;
  Connection& made = rank_.add(std::move(child));
  made.await(what);
  return &made;
}

void Connection::check_usable() {
  if (is_aborted_)
    throw Error(Fault::Peer, concat("group ", name_, ": its communicator is aborted"));
}

void Connection::take_code(ncclResult_t code) {
  if (is_failure(code)) code_ = code;
}

ncclResult_t Connection::state() {
  const std::lock_guard lock(mutex_);
  if (is_failure(code_)) return code_;
  if (is_aborted_ || handle_ == nullptr) return ncclSuccess;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t code = library().async_error(handle_, &state);
  return is_failure(code) ? code : state;
}

std::string Connection::describe(ncclResult_t code) {
  const std::lock_guard lock(mutex_);
  std::string text = library().error_string(code);
  if (is_aborted_ || handle_ == nullptr) return text;
  const char* more = library().last_error(handle_);
  if (more != nullptr && *more != '\0') text += concat(" (", more, ')');
  for (char& letter : text)
    if (letter == '\n') letter = ' ';  // an error is one line
  return text;
}

void Connection::await(const std::string& what) {
  constexpr int kEager = 200;
  const Deadline deadline(rank_.clock(), rank_.timeout_s());
  for (int look = 0;; ++look) {
    const ncclResult_t now = state();
    if (is_failure(now))
      rank_.fail(concat("group ", name_, ": ", what, " failed in NCCL: ", describe(now)));
    if (rank_.has_failed()) rank_.check();
    if (now == ncclSuccess) return;
    if (deadline.is_over())
      rank_.fail(concat("group ", name_, ": ", what, " did not end within ", rank_.timeout_s(),
                        " s: a rank of it does not come"));
    if (look < kEager)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void Connection::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_aborted_, true) || handle_ == nullptr) return;
  (void)library().abort(std::exchange(handle_, nullptr));
}

void Connection::begin_finalize() {
  const std::lock_guard lock(mutex_);
  if (!is_aborted_ && handle_ != nullptr) take_code(library().finalize(handle_));
}

void Connection::end_finalize() {
  await("ncclCommFinalize");
  const std::lock_guard lock(mutex_);
  if (is_aborted_ || handle_ == nullptr) return;
  is_aborted_ = true;
  (void)library().destroy(std::exchange(handle_, nullptr));
}

}  // namespace sextant::nccl
