// In a step each rank passes on to the next rank what it had in hand in the step before, so what it
// works on comes from ever further back. A step ends when its message is here: communication shows
// only as far as it takes longer than the work of a step.
#include "parallel/tensor_ring.h"

#include "ops/add.h"
#include "parallel/activation.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

// A rank's place in the ring.
struct Ring {
  explicit Ring(const Communicator& ranks) : rank(ranks.rank()), size(ranks.size()) {}

  int next() const { return (rank + 1) % size; }
  int back(int steps) const { return (rank - steps + size) % size; }  // at most a round
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
  Pending goes;
  for (int step = 0; step < ring.size; ++step) {
    const int here = ring.back(step);
    Pending comes;
    if (step + 1 < ring.size) {
      Tensor before = part_of(ring.back(step + 1));
      comes = ranks.receive(stream, before, ring.back(1), When::Later);
      goes.wait();
      goes = ranks.send(stream, part_of(here), ring.next(), When::Later);
    }
    work(ring.rows_of(here, own.rows()));
    comes.wait();
  }
  goes.wait();
}

Tensor reduce_ring(Stream& stream, Communicator& ranks, DType dtype, const Shape& shape,
                   FunctionRef<void(Tensor& term, const Range& rows)> make) {
  const Ring ring(ranks);
  Tensor sum;
  Pending goes;
  for (int step = 0; step < ring.size; ++step) {
    Tensor before;
    Pending comes;
    if (step > 0) {
      before = activation(stream, dtype, shape);
      comes = ranks.receive(stream, before, ring.back(1), When::Later);
    }
    sum = activation(stream, dtype, shape);
    make(sum, ring.rows_of(ring.back(1 + step), shape[0]));
    comes.wait();
    if (before) add(stream, sum, before, sum);
    goes.wait();
    if (step + 1 < ring.size) goes = ranks.send(stream, sum, ring.next(), When::Later);
  }
  return sum;
}

}  // namespace sextant
