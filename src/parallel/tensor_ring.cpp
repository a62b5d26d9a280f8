// In each step a rank computes on one piece while the message for the next step is in flight: the
// rows that it just had (gather) or the running sum (reduce) go to the next rank of the ring.
// Communication is exposed only where it takes longer than the compute of a step.
#include "parallel/tensor_ring.h"

#include "ops/add.h"
#include "parallel/activation.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

// A rank's position in the ring.
struct Ring {
  explicit Ring(const Communicator& ranks) : rank(ranks.rank()), size(ranks.size()) {}

  int next() const { return (rank + 1) % size; }
  int back(int steps) const { return (rank - steps + size) % size; }  // steps <= size
  Range rows_of(int peer, int64_t rows) const { return {peer * rows, (peer + 1) * rows}; }

  int rank, size;
};

}  // namespace

void gather_ring(Stream& stream, Communicator& ranks, Tensor& all, const Tensor& own,
                 FunctionRef<void(const Range& rows)> work) {
  const Ring ring(ranks);
  const auto part_of = [&](int peer) {
    const Range rows = ring.rows_of(peer, own.rows());
    return all.slice(rows.begin, rows.end);
  };
  Tensor place = part_of(ring.rank);
  copy(stream, place, own);
  Pending sending;
  for (int step = 0; step < ring.size; ++step) {
    const int here = ring.back(step);
    Pending receiving;
    if (step + 1 < ring.size) {
      Tensor before = part_of(ring.back(step + 1));
      receiving = ranks.receive(stream, before, ring.back(1), When::Later);
      sending.wait();
      sending = ranks.send(stream, part_of(here), ring.next(), When::Later);
    }
    work(ring.rows_of(here, own.rows()));
    receiving.wait();
  }
  sending.wait();
}

Tensor reduce_ring(Stream& stream, Communicator& ranks, DType dtype, const Shape& shape,
                   FunctionRef<void(Tensor& term, const Range& rows)> make) {
  const Ring ring(ranks);
  Tensor sum;
  Pending sending;
  for (int step = 0; step < ring.size; ++step) {
    Tensor before;
    Pending receiving;
    if (step > 0) {
      before = allocate_activation(stream, dtype, shape);
      receiving = ranks.receive(stream, before, ring.back(1), When::Later);
    }
    sum = allocate_activation(stream, dtype, shape);
    make(sum, ring.rows_of(ring.back(1 + step), shape[0]));
    receiving.wait();
    if (before) add(stream, sum, before, sum);
    sending.wait();
    if (step + 1 < ring.size) sending = ranks.send(stream, sum, ring.next(), When::Later);
  }
  return sum;
}

}  // namespace sextant
