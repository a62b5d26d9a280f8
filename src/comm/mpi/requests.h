#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/mpi/process.h"

namespace sextant::mpi {

// What one collective or message has under way between this rank and its peers. Blocks are moved in
// pieces, as MPI counts in int; both sides cut them the same way. Messages between two ranks with
// one tag arrive in the order sent.
class Requests {
 public:
  explicit Requests(Process& process) : process_(process) {}
  // What has not ended ends here, unless the process has failed: see Process.
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  // `peer` is a rank of the world; `label` comes back from late() when it was not done in time.
  void send(const std::byte* data, int64_t bytes, int peer, int tag, int label);
  void receive(std::byte* data, int64_t bytes, int peer, int tag, int label);

  enum class End : uint8_t { Done, Late };
  // Until all are done, or none has been for the time of the deadline, or this process is to end.
  // Throws when a peer failed.
  End wait();
  std::vector<int> late() const;  // labels of what is not done, ascending, each once

 private:
  void add(MPI_Request request, int label);
  void require(int code, const char* call);
  bool test();  // whether something ended

  Process& process_;
  std::vector<MPI_Request> requests_;
  std::vector<int> labels_;
  std::vector<int> ended_;  // room for MPI's answer
};

}  // namespace sextant::mpi
