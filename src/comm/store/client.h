#pragma once
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "comm/ledger.h"
#include "comm/store/request.h"

namespace sextant::store {

// A connection that the store has accepted, with what it has sent since.
struct Accepted {
  Socket socket;
  Bytes received;
};

// One rank's connection to the store. A thread of it takes what the store sends, so that a failure
// of another rank is known at once and questions are answered while the rank computes.
class Client {
 public:
  // `ledger`: the source of this rank's status when the store asks for it.
  Client(Accepted connection, int rank, double timeout_s, const Ledger& ledger);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  int rank() const { return rank_; }
  double timeout_s() const { return deadline_s_; }

  void await_welcome();  // until all ranks have come
  // Returns the store's answer. Error(Peer) when the calls of the ranks differ or the world is
  // aborted. Any thread.
  Bytes call(const Request& request);

  // Tells all other ranks, once, that this one failed; from then on calls throw. Any thread.
  void fail(const std::string& reason, const char* did = "failed");
  void leave();  // this rank has finished

  bool has_failed();
  bool was_told();  // the failure is another rank's
  void check();     // Error(Peer) once a rank, this one or another, has failed

 private:
  struct Reply {
    bool is_there = false;
    FrameKind kind = FrameKind::Answer;
    Bytes bytes;
  };

  void work();
  void take(const Frame& frame);
  void send(FrameKind kind, int64_t id, const Bytes& bytes);
  void fail_by(const std::string& reason);  // requires mutex_

  Socket socket_;
  Bytes buffer_;  // of its thread
  const int rank_;
  const double deadline_s_;
  const Ledger& ledger_;
  std::mutex sending_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool is_welcome_ = false, is_leaving_ = false, was_told_ = false;
  std::string failure_;
  int64_t last_id_ = 0;
  std::map<int64_t, Reply> replies_;
  std::thread thread_;
};

// Connects to the store of rank 0, which may not have begun yet: tries the addresses in turn until
// the deadline. Error(Peer) if there is none.
Accepted find_store(const std::vector<Address>& addresses, const std::string& job, int rank,
                    int ranks, const Deadline& deadline);
// Says Hello on a connection.
void introduce(const Socket& socket, const std::string& job, int rank, int ranks);

}  // namespace sextant::store
