#include "comm/store/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"

namespace sextant::store {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolve(const Address& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  SXT_CHECK(code == 0, Config, "MASTER_ADDR='", address.host,
            "': must be a host name or an address that this machine knows (", ::gai_strerror(code),
            ")");
  return {found, &::freeaddrinfo};
}

Addresses any_address(int port) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(nullptr, std::to_string(port).c_str(), &hints, &found);
  SXT_CHECK(code == 0, Failure, "port ", port, ": ", ::gai_strerror(code));
  return {found, &::freeaddrinfo};
}

// Messages are small and waited for; a host that is gone is noticed while nobody sends.
void configure(const Socket& socket) {
  const int on = 1;
  ::setsockopt(socket.handle(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket.handle(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

int bind_and_listen(const addrinfo& where, Socket& socket) {
  Socket made(::socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC, where.ai_protocol));
  if (!made) return errno;
  const int on = 1;
  ::setsockopt(made.handle(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(made.handle(), where.ai_addr, where.ai_addrlen) != 0 ||
      ::listen(made.handle(), SOMAXCONN) != 0)
    return errno;
  socket = std::move(made);
  return 0;
}

}  // namespace

Socket::Socket(Socket&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this == &other) return *this;
  close();
  handle_ = std::exchange(other.handle_, -1);
  return *this;
}

void Socket::close() {
  if (handle_ >= 0) ::close(std::exchange(handle_, -1));
}

std::string to_string(const Address& address) {
  return concat(address.host, ':', address.port);
}

Socket try_to_listen_at(const Address& address) {
  const Addresses own = resolve(address), any = any_address(address.port);
  int problem = EADDRNOTAVAIL;
  Socket socket;
  for (const addrinfo* list : {own.get(), any.get()})
    for (const addrinfo* one = list; one != nullptr && problem == EADDRNOTAVAIL; one = one->ai_next)
      problem = bind_and_listen(*one, socket);
  SXT_CHECK(problem == 0 || problem == EADDRINUSE, Config, "cannot listen at ", to_string(address),
            " (MASTER_ADDR, MASTER_PORT): ", std::strerror(problem));
  return socket;
}

Socket listen_at(const Address& address) {
  Socket socket = try_to_listen_at(address);
  SXT_CHECK(socket, Config, "cannot listen at ", to_string(address), ": MASTER_PORT=", address.port,
            " is in use by another program; choose a free port");
  return socket;
}

Socket connect_to(const Address& address, const Deadline& deadline, std::string& why) {
  const Addresses found = resolve(address);
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    Socket made(::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                         one->ai_protocol));
    if (!made) continue;
    int problem = ::connect(made.handle(), one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
    if (problem == EINPROGRESS) {
      pollfd waits{made.handle(), POLLOUT, 0};
      const int milliseconds = static_cast<int>(std::clamp(deadline.left(), 0.0, 1.0) * 1000);
      socklen_t length = sizeof problem;
      if (::poll(&waits, 1, milliseconds) <= 0)
        problem = ETIMEDOUT;
      else
        ::getsockopt(made.handle(), SOL_SOCKET, SO_ERROR, &problem, &length);
    }
    if (problem == 0) {
      ::fcntl(made.handle(), F_SETFL, ::fcntl(made.handle(), F_GETFL) & ~O_NONBLOCK);
      configure(made);
      return made;
    }
    why = std::strerror(problem);
  }
  return {};
}

SocketPair make_pair() {
  std::array<int, 2> handles{};
  SXT_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, handles.data()) == 0, Failure,
            "socketpair: ", std::strerror(errno));
  return {Socket(handles[0]), Socket(handles[1])};
}

bool wait_readable(const Socket& socket, double seconds) {
  pollfd waits{socket.handle(), POLLIN, 0};
  return ::poll(&waits, 1, static_cast<int>(std::max(0.0, seconds) * 1000)) > 0;
}

}  // namespace sextant::store
