#include "comm/mpi/process.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "comm/mpi_world.h"
#include "fault/deadline.h"

namespace sextant::mpi {
namespace {

constexpr int kNoticeTag = 0;
constexpr int kNoticeBytes = 1024;  // small enough for MPI to send without asking the receiver
// Long enough for sends to be handed over, short beside any deadline.
constexpr double kTellSeconds = 0.2;

}  // namespace

void check_code(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  SXT_FAIL(Peer, std::string_view(call).substr(0, std::string_view(call).find('(')), ": ",
           std::string_view(text.data(), static_cast<size_t>(length)));
}

Courier::Courier() : thread_([this] { work(); }) {}

Courier::~Courier() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

int64_t Courier::push(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return ++pushed_;
}

void Courier::wait_for(int64_t job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= job; });
}

void Courier::wait_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ == pushed_; });
}

void Courier::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

Process::Process(const Clock& clock, double deadline_s)
    : clock_(clock), deadline_s_(deadline_s), staging_(static_cast<size_t>(kMpiStaging)) {
  int begun = 0;
  MPI_Initialized(&begun);
  SXT_CHECK(begun == 0, Internal, "MPI is begun a second time in this process");
  int level = MPI_THREAD_SINGLE;
  SXT_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level));
  SXT_CHECK(level == MPI_THREAD_MULTIPLE, Config,
            "this MPI library cannot be called by several threads (MPI_THREAD_MULTIPLE): install "
            "libopenmpi-dev openmpi-bin and build again");
  SXT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  SXT_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  SXT_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size_));
  SXT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &notices_));
  int* largest = nullptr;
  int found = 0;
  SXT_MPI(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &found));
  largest_tag_ = found != 0 ? *largest : 32767;
}

Process::~Process() = default;

void Process::check() {
  if (!failed_.load()) return;
  const std::lock_guard lock(mutex_);
  throw Error(Fault::Peer, reason_);
}

void Process::listen() {
  check();
  // Two threads that both see the notice must not both receive it.
  const std::lock_guard lock(mutex_);
  if (failed_.load()) throw Error(Fault::Peer, reason_);
  int there = 0;
  MPI_Status status;
  SXT_MPI(MPI_Iprobe(MPI_ANY_SOURCE, kNoticeTag, notices_, &there, &status));
  if (there == 0) return;
  std::array<char, kNoticeBytes> text{};
  SXT_MPI(MPI_Recv(text.data(), kNoticeBytes, MPI_CHAR, status.MPI_SOURCE, kNoticeTag, notices_,
                   &status));
  int length = 0;
  SXT_MPI(MPI_Get_count(&status, MPI_CHAR, &length));
  reason_.assign(text.data(), static_cast<size_t>(length));
  told_.store(true);
  failed_.store(true);
  throw Error(Fault::Peer, reason_);
}

void Process::fail(const std::string& reason, const char* did) {
  const std::lock_guard lock(mutex_);
  if (failed_.load()) return;
  try {
    tell(concat("rank ", rank_, ' ', did, ": ", reason));
  } catch (const Error&) {  // nothing more can be done for them: they have deadlines
  }
  reason_ = reason;
  failed_.store(true);
}

void Process::tell(const std::string& reason) {
  const int length = static_cast<int>(std::min<size_t>(reason.size(), kNoticeBytes));
  std::vector<MPI_Request> requests;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    requests.emplace_back();
    SXT_MPI(
        MPI_Isend(reason.data(), length, MPI_CHAR, rank, kNoticeTag, notices_, &requests.back()));
  }
  const Deadline deadline(clock_, kTellSeconds);
  int done = 0;
  while (done == 0 && !deadline.is_over())
    SXT_MPI(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                        MPI_STATUSES_IGNORE));
}

void Process::finalize() {
  if (has_failed()) return;
  courier_.wait_idle();
  SXT_MPI(MPI_Comm_free(&notices_));
  SXT_MPI(MPI_Finalize());
}

}  // namespace sextant::mpi
