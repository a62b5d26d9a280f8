#pragma once
#include <cstdint>
#include <string>

#include "fault/deadline.h"

namespace sextant::store {

// A socket that is closed at the end.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int handle) : handle_(handle) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  int handle() const { return handle_; }
  explicit operator bool() const { return handle_ >= 0; }
  void close();

 private:
  int handle_ = -1;
};

// Where rank 0 listens.
struct Address {
  std::string host;
  int port = 0;
};
std::string to_string(const Address& address);  // "node7:29500"

// Listens at the address; on all addresses of this machine if the host's name is not one of them.
// Error(Config) for a host that is not known or a port that is in use.
Socket listen_at(const Address& address);
// Whether the port is in use is the caller's to handle: an empty Socket.
Socket try_to_listen_at(const Address& address);

// An empty Socket if nobody listens there; `why` then says what the system says.
Socket connect_to(const Address& address, const Deadline& deadline, std::string& why);

struct SocketPair {
  Socket one, other;
};
SocketPair make_pair();

// Waits until there is something to read; false when the time is over.
bool wait_readable(const Socket& socket, double seconds);

}  // namespace sextant::store
