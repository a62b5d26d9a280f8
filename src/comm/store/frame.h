#pragma once
// What goes over a connection of the store: frames of a head and bytes, in the byte order of the
// machine, as all ranks run the same program.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/store/socket.h"

namespace sextant::store {

//             from     to       bytes
//   Hello     rank     server   job, rank, size
//   Accepted  server   rank     -                the job is this one
//   Welcome   server   rank     -                all ranks have come
//   Call      rank     server   Request          answered by Answer or Refusal of the same id
//   Answer    server   rank     result
//   Refusal   server   rank     text             the calls of the ranks differ
//   Failure   both              text             the sender's world is aborted
//   Question  server   rank     -
//   Status    rank     server   text             answer to a Question
//   Goodbye   rank     server   -                the rank has finished
enum class FrameKind : uint32_t {
  Hello,
  Accepted,
  Welcome,
  Call,
  Answer,
  Refusal,
  Failure,
  Question,
  Status,
  Goodbye,
};

using Bytes = std::vector<std::byte>;

struct Frame {
  FrameKind kind = FrameKind::Hello;
  int64_t id = 0;
  Bytes bytes;
};

Bytes encode(FrameKind kind, int64_t id, std::span<const std::byte> bytes);
Bytes bytes_of(const std::string& text);
std::string text_of(std::span<const std::byte> bytes);

// Takes the first frame off a buffer; nullopt if it is not complete. Error(Peer) if the bytes are
// none of this program's.
std::optional<Frame> take_frame(Bytes& buffer);

// Appends values to bytes, and takes them off in the same order.
class Writer {
 public:
  template <class T>
  Writer& add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return add_bytes(std::as_bytes(std::span(&value, 1)));
  }
  Writer& add_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  // A vector or string of plain values, with its length.
  template <class List>
  Writer& add_list(const List& list) {
    add(static_cast<int64_t>(list.size()));
    return add_bytes(std::as_bytes(std::span(list.data(), list.size())));
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T take() {
    T value{};
    const std::span<const std::byte> from = take_bytes(sizeof value);
    std::memcpy(&value, from.data(), from.size());
    return value;
  }
  template <class List>
  List take_list() {
    const auto count = take<int64_t>();
    check(count >= 0 && count <= static_cast<int64_t>(bytes_.size()));
    List list(static_cast<size_t>(count), typename List::value_type{});
    const std::span<const std::byte> from =
        take_bytes(list.size() * sizeof(typename List::value_type));
    if (!from.empty()) std::memcpy(list.data(), from.data(), from.size());
    return list;
  }

 private:
  static void check(bool fits);
  std::span<const std::byte> take_bytes(size_t count) {
    check(count <= bytes_.size());
    const std::span<const std::byte> taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

  std::span<const std::byte> bytes_;
};

inline constexpr double kSendSeconds = 5;  // for a peer to take what is sent to it
// Sends all bytes; false when the connection is lost or takes nothing for `seconds`.
bool send_all(const Socket& socket, std::span<const std::byte> bytes, double seconds);
// Appends what has arrived to the buffer, without waiting; false when the connection is lost.
bool receive_some(const Socket& socket, Bytes& buffer);

}  // namespace sextant::store
