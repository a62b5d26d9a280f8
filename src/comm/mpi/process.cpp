#include "comm/mpi/process.h"

#include <algorithm>
#include <array>
#include <thread>

#include "base/error.h"
#include "base/parse.h"
#include "comm/mpi_world.h"

namespace sextant::mpi {
namespace {

constexpr int kFailureTag = 0, kQuestionTag = 1, kAnswerTag = 2;
constexpr int kNoticeBytes = 1024;  // small enough for MPI's eager protocol
// Long enough to hand over the sends, short compared with any deadline.
constexpr double kTellSeconds = 0.2;

// Global, because a signal handler sets it.
std::atomic<bool> end_has_come{false};

}  // namespace

void check_code(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  SXT_FAIL(Peer, std::string_view(call).substr(0, std::string_view(call).find('(')), ": ",
           std::string_view(text.data(), static_cast<size_t>(length)));
}

EndWatch::EndWatch() {
  end_has_come.store(false);
  struct sigaction action {};
  action.sa_handler = [](int) { end_has_come.store(true); };
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGTERM, &action, &before_);
}

EndWatch::~EndWatch() {
  ::sigaction(SIGTERM, &before_, nullptr);
}

bool EndWatch::has_come() {
  return end_has_come.load();
}

Process::Process(const Clock& clock, double timeout_s, const Ledger& ledger)
    : clock_(clock),
      deadline_s_(timeout_s),
      ledger_(ledger),
      staging_(static_cast<size_t>(kMpiStaging)) {
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
  // Only one of two threads that probe the same notice may receive it.
  const std::lock_guard lock(mutex_);
  if (failed_.load()) throw Error(Fault::Peer, reason_);
  take_notices();
}

void Process::take_notices() {
  while (true) {
    int there = 0, length = 0;
    MPI_Status status;
    SXT_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, notices_, &there, &status));
    if (there == 0) return;
    std::array<char, kNoticeBytes> buffer{};
    const int from = status.MPI_SOURCE, tag = status.MPI_TAG;
    SXT_MPI(MPI_Recv(buffer.data(), kNoticeBytes, MPI_CHAR, from, tag, notices_, &status));
    SXT_MPI(MPI_Get_count(&status, MPI_CHAR, &length));
    const std::string text(buffer.data(), static_cast<size_t>(length));
    if (tag == kQuestionTag) {
      const RankStatus own = status_of(ledger_);
      hand_over(concat(own.waits_for, ' ', own.text), {from}, kAnswerTag);
    } else if (tag == kAnswerTag) {
      const size_t blank = text.find(' ');
      const auto waits_for = static_cast<int>(parse_int(text.substr(0, blank)).value_or(-1));
      answers_[from] = {text.substr(blank + 1), waits_for};
    } else {
      reason_ = text;
      told_.store(true);
      failed_.store(true);
      throw Error(Fault::Peer, reason_);
    }
  }
}

std::optional<RankStatus> Process::ask(int rank, const Deadline& until) {
  check();
  try {
    const std::lock_guard lock(mutex_);
    answers_.erase(rank);
    hand_over("", {rank}, kQuestionTag);
  } catch (const Error&) {
    return {};
  }
  while (true) {
    listen();
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = answers_.find(rank); found != answers_.end()) return found->second;
    }
    if (until.is_over()) return {};
    std::this_thread::yield();
  }
}

void Process::fail(const std::string& reason, const char* did) {
  const std::lock_guard lock(mutex_);
  if (failed_.load()) return;
  std::vector<int> others;
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_) others.push_back(rank);
  try {
    hand_over(concat("rank ", rank_, ' ', did, ": ", reason), others, kFailureTag);
  } catch (const Error&) {  // the other ranks will time out
  }
  reason_ = reason;
  failed_.store(true);
}

void Process::hand_over(const std::string& text, const std::vector<int>& ranks, int tag) {
  std::vector<char> bytes(text.begin(), text.end());
  bytes.resize(std::min<size_t>(bytes.size(), kNoticeBytes));
  std::vector<MPI_Request> requests;
  for (const int rank : ranks) {
    requests.emplace_back();
    SXT_MPI(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_CHAR, rank, tag, notices_,
                      &requests.back()));
  }
  const Deadline deadline(clock_, kTellSeconds);
  int done = 0;
  while (done == 0 && !deadline.is_over())
    SXT_MPI(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                        MPI_STATUSES_IGNORE));
  if (done == 0) not_sent_yet_.push_back(std::move(bytes));
}

void Process::finalize() {
  if (has_failed()) return;
  progress_thread_.wait_idle();
  SXT_MPI(MPI_Comm_free(&notices_));
  SXT_MPI(MPI_Finalize());
}

}  // namespace sextant::mpi
