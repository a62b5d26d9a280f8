#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/mpi/process.h"

namespace sextant::mpi {

// The MPI requests of one collective or message. Blocks are sent in pieces, as MPI counts in int;
// both sides split them the same way. Messages between two ranks with one tag arrive in the order
// sent.
class Requests {
 public:
  explicit Requests(Process& process) : process_(process) {}
  // Waits for unfinished requests, unless the process has failed: see Process.
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  // `peer` is a world rank; late() returns the `label` of a request that timed out.
  void send(const std::byte* data, int64_t bytes, int peer, int tag, int label);
  void receive(std::byte* data, int64_t bytes, int peer, int tag, int label);

  enum class End : uint8_t { Done, Late };
  // Done when all are done. Late when none completed for the time of the deadline, or SIGTERM came
  // (EndWatch). Throws when a peer failed.
  End wait();
  std::vector<int> late() const;  // labels of unfinished requests, ascending, each once

 private:
  void add(MPI_Request request, int label);
  void require(int code, const char* call);
  bool test();  // whether a request completed

  Process& process_;
  std::vector<MPI_Request> requests_;
  std::vector<int> labels_;
  std::vector<int> ended_;  // output of MPI_Testsome
};

}  // namespace sextant::mpi
