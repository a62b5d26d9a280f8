#include "checkpoint/collect.h"

#include <algorithm>
#include <array>
#include <exception>
#include <numeric>

#include "base/error.h"
#include "base/parse.h"
#include "checkpoint/load.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

// An order as sent: the Order; bytes per element (Give) or the fault (Fail); an Ask per rank.
class Message {
 public:
  explicit Message(int ranks) : words_(2 + 3 * static_cast<size_t>(ranks)) {}
  Message(Order order, int ranks, int64_t value = 0) : Message(ranks) {
    words_[0] = static_cast<int64_t>(order);
    words_[1] = value;
  }
  Message(const std::vector<Ask>& asks, int64_t element_bytes)
      : Message(Order::Give, static_cast<int>(asks.size()), element_bytes) {
    auto word = words_.begin() + 2;
    for (const Ask& ask : asks)
      for (const int64_t value : {ask.index, ask.first, ask.count}) *word++ = value;
  }

  // Broadcast from rank 0.
  void travel(Communicator& world) {
    world.control().broadcast(std::as_writable_bytes(std::span(words_)), 0);
  }
  Order order() const { return static_cast<Order>(words_[0]); }
  Fault fault() const { return static_cast<Fault>(words_[1]); }
  Ask ask(int rank) const {
    const int64_t* word = words_.data() + 2 + 3 * rank;
    return {word[0], word[1], word[2]};
  }
  // Bytes that each rank sends; rank 0 has its own already.
  std::vector<int64_t> sizes() const {
    std::vector<int64_t> out((words_.size() - 2) / 3);
    for (size_t rank = 1; rank < out.size(); ++rank)
      out[rank] = ask(static_cast<int>(rank)).count * words_[1];
    return out;
  }

 private:
  std::vector<int64_t> words_;
};

// Copies the elements that `ask` names to the host, into `buffer`, which grows as needed.
std::span<std::byte> copy_asked(const Ask& ask, const std::vector<NamedTensor>& tensors,
                                Stream& stream, std::vector<std::byte>& buffer) {
  if (ask.count == 0) return {};
  SXT_CHECK(0 <= ask.index && ask.index < static_cast<int64_t>(tensors.size()), Internal,
            "asked for tensor ", ask.index, " of ", tensors.size());
  const Tensor& tensor = tensors[static_cast<size_t>(ask.index)].tensor;
  const Tensor asked =
      tensor.view(Shape{tensor.elements()}).slice(ask.first, ask.first + ask.count);
  const auto bytes = static_cast<size_t>(asked.bytes());
  if (buffer.size() < bytes) buffer.resize(bytes);
  copy_bytes_to_host(stream, std::span(buffer).first(bytes), asked);
  return std::span(buffer).first(bytes);
}

// Broadcasts rank 0's report.
void share_report(Communicator& world, SaveReport& report) {
  std::array<int64_t, 3> numbers{report.tensors, report.files, report.bytes};
  world.control().broadcast(std::as_writable_bytes(std::span(numbers)), 0);
  report.tensors = numbers[0];
  report.files = numbers[1];
  report.bytes = numbers[2];
  report.path = world.control().broadcast_text(report.path, 0);
  for (std::vector<std::string>* names : {&report.removed, &report.broken}) {
    const std::string text = world.control().broadcast_text(join(*names, "\n"), 0);
    *names = text.empty() ? std::vector<std::string>() : split(text, '\n');
  }
}

}  // namespace

std::vector<Part> exchange_parts(Communicator& world, const std::vector<NamedTensor>& tensors) {
  const std::vector<std::byte> own = pack_parts(tensors);
  std::vector<int64_t> sizes(static_cast<size_t>(world.size()));
  sizes[static_cast<size_t>(world.rank())] = static_cast<int64_t>(own.size());
  world.control().all_reduce(std::span(sizes), ReduceOp::Sum);
  std::vector<std::byte> all;
  if (world.rank() == 0)
    all.resize(static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0})));
  world.control().gather(all, own, sizes, 0);
  std::vector<Part> parts;
  if (world.rank() != 0) return parts;
  std::span<const std::byte> rest = all;
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto size = static_cast<size_t>(sizes[static_cast<size_t>(rank)]);
    for (Part& part : unpack_parts(rest.first(size), rank)) parts.push_back(std::move(part));
    rest = rest.subspan(size);
  }
  return parts;
}

void Collector::produce(const JoinedTensor& tensor, const ByteSink& sink) {
  const int64_t element_bytes = size_of(tensor.dtype);
  const int64_t total = elements_of(tensor.shape);
  for (int64_t begin = 0; begin < total;) {
    const std::vector<Ask> asks =
        next_piece(tensor, begin, kPassBytes / element_bytes, world_.size());
    sink(collect(asks, element_bytes));
    for (const Ask& ask : asks) begin += ask.count;
  }
}

std::span<const std::byte> Collector::collect(const std::vector<Ask>& asks, int64_t element_bytes) {
  // Rank 0's bytes come first in rank order. They are copied before the other ranks get the order:
  // if the copy fails, those can still receive Fail.
  const size_t own = copy_asked(asks[0], tensors_, stream_, buffer_).size();
  Message message(asks, element_bytes);
  const std::vector<int64_t> sizes = message.sizes();
  const auto others = static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
  if (others > 0) {
    if (buffer_.size() < own + others) buffer_.resize(own + others);
    message.travel(world_);
    world_.control().gather(std::span(buffer_).subspan(own, others), {}, sizes, 0);
  } else {
    tell_to_wait();
  }
  return std::span(buffer_).first(own + others);
}

void Collector::tell_to_wait() {
  Message(Order::Wait, world_.size()).travel(world_);
}

void Collector::tell_done(SaveReport& report) {
  Message(Order::Done, world_.size()).travel(world_);
  share_report(world_, report);
}

void Collector::tell_failure(Fault fault, const std::string& reason) noexcept {
  try {
    Message(Order::Fail, world_.size(), static_cast<int64_t>(fault)).travel(world_);
    world_.control().broadcast_text(reason, 0);
  } catch (const std::exception&) {
  }
}

SaveReport follow_orders(Communicator& world, const std::vector<NamedTensor>& tensors,
                         Stream& stream) {
  Message message(world.size());
  std::vector<std::byte> buffer;
  for (;;) {
    message.travel(world);
    switch (message.order()) {
      case Order::Wait:
        break;
      case Order::Give: {
        std::span<const std::byte> asked;
        try {
          asked = copy_asked(message.ask(world.rank()), tensors, stream, buffer);
        } catch (const std::exception& error) {
          // The other ranks wait for these bytes.
          world.abort(concat("saving a checkpoint: ", error.what()));
          throw;
        }
        world.control().gather({}, asked, message.sizes(), 0);
        break;
      }
      case Order::Done: {
        SaveReport report;
        share_report(world, report);
        return report;
      }
      case Order::Fail:
        throw Error(message.fault(),
                    concat("rank 0 could not save: ", world.control().broadcast_text("", 0)));
    }
  }
}

}  // namespace sextant
