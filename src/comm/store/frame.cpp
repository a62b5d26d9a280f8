#include "comm/store/frame.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "base/error.h"

namespace sextant::store {
namespace {

constexpr uint32_t kMagic = 0x53585453;  // "STXS"
constexpr int64_t kMostBytes = int64_t{1} << 30;

struct Head {
  uint32_t magic = kMagic;
  FrameKind kind = FrameKind::Hello;
  int64_t id = 0;
  int64_t bytes = 0;
};

}  // namespace

Bytes encode(FrameKind kind, int64_t id, std::span<const std::byte> bytes) {
  Writer writer;
  writer.add(Head{kMagic, kind, id, static_cast<int64_t>(bytes.size())}).add_bytes(bytes);
  return writer.bytes();
}

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<Frame> take_frame(Bytes& buffer) {
  if (buffer.size() < sizeof(Head)) return {};
  Head head;
  std::memcpy(&head, buffer.data(), sizeof head);
  SXT_CHECK(head.magic == kMagic && head.bytes >= 0 && head.bytes <= kMostBytes &&
                head.kind <= FrameKind::Goodbye,
            Peer, "the store got bytes that no rank sends");
  const size_t all = sizeof head + static_cast<size_t>(head.bytes);
  if (buffer.size() < all) return {};
  const auto end = buffer.begin() + static_cast<std::ptrdiff_t>(all);
  Frame frame{head.kind, head.id,
              Bytes(buffer.begin() + static_cast<std::ptrdiff_t>(sizeof head), end)};
  buffer.erase(buffer.begin(), end);
  return frame;
}

void Reader::check(bool fits) {
  SXT_CHECK(fits, Peer, "the store got a frame that is cut off");
}

bool send_all(const Socket& socket, std::span<const std::byte> bytes, double seconds) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket.handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return false;
    pollfd waits{socket.handle(), POLLOUT, 0};
    if (::poll(&waits, 1, static_cast<int>(seconds * 1000)) == 0) return false;
  }
  return true;
}

bool receive_some(const Socket& socket, Bytes& buffer) {
  std::array<std::byte, 65536> piece;
  while (true) {
    const ssize_t got = ::recv(socket.handle(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got > 0) {
      buffer.insert(buffer.end(), piece.begin(), piece.begin() + got);
      if (static_cast<size_t>(got) < piece.size()) return true;
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
}

}  // namespace sextant::store
