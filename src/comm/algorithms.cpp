#include "comm/algorithms.h"

#include <array>
#include <bit>

#include "comm/reduce.h"

namespace sextant {
namespace {

// State of one all-reduce on one rank: the vector and a receive buffer.
class Reduction {
 public:
  Reduction(Stream& stream, Communicator& group, const Tensor& data, int64_t room)
      : stream_(stream),
        group_(group),
        data_(data.view({data.elements()})),
        incoming_(stream.arena().allocate(Category::Communication, data.dtype(), {room})) {}

  int rank() const { return group_.rank(); }
  int ranks() const { return group_.size(); }
  Range all() const { return {0, data_.elements()}; }
  Range part(int index) const {
    return even_part(data_.elements(), ranks(), (index % ranks() + ranks()) % ranks());
  }

  void send(int to, const Range& share) {
    if (share.size() > 0) group_.send(stream_, data_.slice(share.begin, share.end), to);
  }
  void receive(int from, const Range& share) {
    if (share.size() == 0) return;
    Tensor place = data_.slice(share.begin, share.end);
    group_.receive(stream_, place, from);
  }
  void receive_and_add(int from, const Range& share) {
    if (share.size() == 0) return;
    Tensor got = incoming_.slice(0, share.size());
    group_.receive(stream_, got, from);
    add(share, got);
  }
  // Both ends send and receive, so the send must not block.
  void exchange(int to, const Range& out, int from, const Range& in) {
    Pending sent = begin_send(to, out);
    receive(from, in);
    sent.wait();
  }
  void exchange_and_add(int to, const Range& out, int from, const Range& in) {
    Pending sent = begin_send(to, out);
    if (in.size() == 0) return sent.wait();
    Tensor got = incoming_.slice(0, in.size());
    group_.receive(stream_, got, from);
    sent.wait();  // `out` and `in` may be the same range
    add(in, got);
  }

 private:
  Pending begin_send(int to, const Range& share) {
    if (share.size() == 0) return {};
    return group_.send(stream_, data_.slice(share.begin, share.end), to, When::Later);
  }
  void add(const Range& share, const Tensor& from) {
    const Access access(stream_);
    std::byte* sum = data_.slice(share.begin, share.end).raw();
    const std::array<const std::byte*, 2> both = {sum, from.raw()};
    reduce_into(sum, both, share.size(), data_.dtype(), ReduceOp::Sum);
  }

  Stream& stream_;
  Communicator& group_;
  Tensor data_, incoming_;
};

void naive(Reduction& work) {
  if (work.rank() != 0) {
    work.send(0, work.all());
    work.receive(0, work.all());
    return;
  }
  for (int rank = 1; rank < work.ranks(); ++rank) work.receive_and_add(rank, work.all());
  for (int rank = 1; rank < work.ranks(); ++rank) work.send(rank, work.all());
}

// Reduce-scatter: part r ends on rank r, summed in the order r+1, r+2, ... r. Then all-gather.
void ring(Reduction& work) {
  const int rank = work.rank(), ranks = work.ranks();
  const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  for (int j = 0; j < ranks - 1; ++j)
    work.exchange_and_add(next, work.part(rank - 1 - j), last, work.part(rank - 2 - j));
  for (int j = 0; j < ranks - 1; ++j)
    work.exchange(next, work.part(rank - j), last, work.part(rank - 1 - j));
}

// Binomial tree: the parent of rank r is r with its lowest set bit cleared.
void tree(Reduction& work) {
  const int rank = work.rank(), ranks = work.ranks();
  int bit = 1;
  for (; bit < ranks && (rank & bit) == 0; bit *= 2)
    if (rank + bit < ranks) work.receive_and_add(rank + bit, work.all());
  if (rank != 0) {
    work.send(rank - bit, work.all());
    work.receive(rank - bit, work.all());
  }
  for (bit /= 2; bit > 0; bit /= 2)
    if (rank + bit < ranks) work.send(rank + bit, work.all());
}

// Ranks beyond the largest power of two send their vector to a neighbour first and receive the sum
// last. Both ends of an exchange add the same two vectors, so all ranks hold the same bits.
void doubling(Reduction& work) {
  const int rank = work.rank();
  const int most = static_cast<int>(std::bit_floor(static_cast<unsigned>(work.ranks())));
  const int beyond = work.ranks() - most;
  const bool is_paired = rank < 2 * beyond;
  if (is_paired && rank % 2 == 1) {
    work.send(rank - 1, work.all());
    work.receive(rank - 1, work.all());
    return;
  }
  if (is_paired) work.receive_and_add(rank + 1, work.all());
  const int place = is_paired ? rank / 2 : rank - beyond;
  for (int bit = 1; bit < most; bit *= 2) {
    const int other = place ^ bit;
    const int partner = other < beyond ? 2 * other : other + beyond;
    work.exchange_and_add(partner, work.all(), partner, work.all());
  }
  if (is_paired) work.send(rank + 1, work.all());
}

int ceil_log2(int value) {
  return std::bit_width(static_cast<unsigned>(value - 1));
}

}  // namespace

const char* name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::Naive:
      return "naive";
    case Algorithm::Ring:
      return "ring";
    case Algorithm::Tree:
      return "tree";
    case Algorithm::Doubling:
      return "doubling";
  }
  return "?";
}

std::vector<Algorithm> all_algorithms() {
  return {Algorithm::Naive, Algorithm::Ring, Algorithm::Tree, Algorithm::Doubling};
}

std::optional<Algorithm> find_algorithm(std::string_view name) {
  for (const Algorithm algorithm : all_algorithms())
    if (name == name_of(algorithm)) return algorithm;
  return std::nullopt;
}

int steps_of(Algorithm algorithm, int ranks) {
  switch (algorithm) {
    case Algorithm::Naive:
    case Algorithm::Ring:
      return 2 * (ranks - 1);
    case Algorithm::Tree:
      return 2 * ceil_log2(ranks);
    case Algorithm::Doubling:
      return std::has_single_bit(static_cast<unsigned>(ranks)) ? ceil_log2(ranks)
                                                               : ceil_log2(ranks) - 1 + 2;
  }
  return 0;
}

void all_reduce_by(Stream& stream, Communicator& group, Tensor& data, Algorithm algorithm) {
  SXT_CHECK(!stream.is_gpu(), Usage, "all_reduce_by ", name_of(algorithm), ": runs on the CPU");
  SXT_CHECK(data.dtype() == DType::F32, Usage, "all_reduce_by ", name_of(algorithm), ": data is ",
            name_of(data.dtype()), ", must be f32");
  if (group.size() == 1) return;
  const int64_t room = algorithm == Algorithm::Ring
                           ? even_part(data.elements(), group.size(), 0).size()
                           : data.elements();
  Reduction work(stream, group, data, room);
  switch (algorithm) {
    case Algorithm::Naive:
      return naive(work);
    case Algorithm::Ring:
      return ring(work);
    case Algorithm::Tree:
      return tree(work);
    case Algorithm::Doubling:
      return doubling(work);
  }
}

}  // namespace sextant
