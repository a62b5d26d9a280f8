#include "comm/mpi/requests.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "fault/deadline.h"

namespace sextant::mpi {
namespace {

constexpr int64_t kPiece = int64_t{64} << 20;

// Backoff while polling: spin, then yield, then sleep, as ranks and compute threads may outnumber
// cores.
class Backoff {
 public:
  void pause() {
    ++looks_;
    if (looks_ < kEager) return;
    if (looks_ < kYields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  void reset() { looks_ = 0; }

 private:
  static constexpr int kEager = 32, kYields = 512;
  int looks_ = 0;
};

}  // namespace

// Without a failure, requests left here were never waited for, and their memory is still valid.
Requests::~Requests() {
  try {
    while (!requests_.empty() && !process_.has_failed())
      if (wait() == End::Late) process_.fail("a message was left without an end");
  } catch (const Error&) {  // the process has failed; the next Process::check throws the reason
  }
}

// Fails the process before throwing, so that nothing waits for the other requests.
void Requests::require(int code, const char* call) {
  try {
    check_code(code, call);
  } catch (const Error& error) {
    process_.fail(error.what());
    throw;
  }
}

void Requests::add(MPI_Request request, int label) {
  requests_.push_back(request);
  labels_.push_back(label);
}

void Requests::send(const std::byte* data, int64_t bytes, int peer, int tag, int label) {
  for (int64_t done = 0; done < bytes; done += kPiece) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int piece = static_cast<int>(std::min(kPiece, bytes - done));
    require(MPI_Isend(data + done, piece, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request),
            "MPI_Isend");
    add(request, label);
  }
}

void Requests::receive(std::byte* data, int64_t bytes, int peer, int tag, int label) {
  for (int64_t done = 0; done < bytes; done += kPiece) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int piece = static_cast<int>(std::min(kPiece, bytes - done));
    require(MPI_Irecv(data + done, piece, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request),
            "MPI_Irecv");
    add(request, label);
  }
}

bool Requests::test() {
  ended_.resize(requests_.size());
  int count = 0;
  require(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, ended_.data(),
                       MPI_STATUSES_IGNORE),
          "MPI_Testsome");
  if (count == 0 || count == MPI_UNDEFINED) return false;
  size_t kept = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    labels_[kept++] = labels_[i];
  }
  requests_.resize(kept);
  labels_.resize(kept);
  return true;
}

Requests::End Requests::wait() {
  constexpr int kListenEvery = 16;
  Deadline deadline(process_.clock(), process_.timeout_s());
  Backoff backoff;
  int idle = 0;
  while (!requests_.empty()) {
    process_.check();
    if (test()) {
      deadline = Deadline(process_.clock(), process_.timeout_s());
      backoff.reset();
      continue;
    }
    if (++idle % kListenEvery == 0) {
      process_.listen();
      if (deadline.is_over() || EndWatch::has_come()) return End::Late;
    }
    backoff.pause();
  }
  return End::Done;
}

std::vector<int> Requests::late() const {
  std::vector<int> labels = labels_;
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  return labels;
}

}  // namespace sextant::mpi
