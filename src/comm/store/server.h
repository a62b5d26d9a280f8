#pragma once
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "comm/store/request.h"

namespace sextant::store {

// The store itself: a thread of rank 0's process to which all ranks are connected. It brings the
// calls of a group together, compares them, answers when all have come, and fails the world when
// one does not come before the deadline or a connection is lost.
class Server {
 public:
  // `own`: the connection of rank 0. `job`: what ranks of this run say to be let in.
  Server(Socket listener, Socket own, std::string job, int ranks, const Clock& clock,
         double timeout_s);
  ~Server();  // when all ranks have left, or after kLeaveSeconds
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

 private:
  struct Connection {
    Socket socket;
    Bytes buffer;
    int rank = -1;  // unknown yet
    bool has_left = false;
    std::optional<std::string> status;  // the answer to the last Question
  };
  // Calls that belong together.
  struct Meeting {
    std::vector<std::optional<Request>> requests;  // by rank, or sender and receiver
    std::vector<int64_t> ids;
    std::vector<int> world_ranks;
    double begun = 0;
    double asked = 0;  // when it was over the deadline and the missing ranks were asked; 0: not yet
  };
  // Number and first rank of the group; for messages sender and receiver, otherwise -1; sequence.
  using Key = std::tuple<int64_t, int, int, int, int64_t>;

  void work();
  void accept_one();
  void read_from(Connection& connection);
  void take(Connection& connection, const Frame& frame);
  void let_in(Connection& connection, const Frame& hello);
  void take_call(int rank, const Frame& frame);
  void finish(const Key& key, Meeting& meeting);
  void answer_all(const Meeting& meeting, const std::vector<Bytes>& results);
  void refuse(const Meeting& meeting, const std::string& text);
  void check_deadlines();
  void check_join();
  bool has_heard_of(const Meeting& meeting);
  static std::vector<int> missing_of(const Meeting& meeting);
  std::string describe_missing(const Key& key, const Meeting& meeting);
  void fail(const std::string& reason);
  void lose(Connection& connection);
  void send(Connection& connection, FrameKind kind, int64_t id, const Bytes& bytes);
  Connection* find(int rank);
  int joined() const;
  bool is_empty() const;  // nobody is connected, or will be

  Socket listener_;
  const std::string job_;
  const int ranks_;
  const Clock& clock_;
  const double deadline_s_;
  const double begun_;
  bool is_complete_ = false;  // all ranks have come
  std::string failure_;
  std::vector<Connection> connections_;
  std::map<Key, Meeting> meetings_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

inline constexpr double kLeaveSeconds = 5;

}  // namespace sextant::store
