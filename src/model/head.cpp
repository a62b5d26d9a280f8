#include "model/head.h"

#include <algorithm>
#include <utility>

#include "ops/cross_entropy.h"
#include "ops/sum.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

static_assert(Head::kChunk % kVocabBlock == 0);

// A slice of a tensor, or empty if the tensor is.
Tensor part_of(const Tensor& tensor, const Range& rows) {
  return tensor ? tensor.slice(rows) : Tensor();
}

// The last token of each row.
Tensor last_rows(Stream& stream, const Micro& micro, const Tensor& x) {
  Tensor last = allocate_activation(stream, x, {micro.batch, x.dim(1)});
  for (int64_t row = 0; row < micro.batch; ++row) {
    Tensor to = last.slice(row, row + 1);
    copy(stream, to, x.slice((row + 1) * micro.seq - 1, (row + 1) * micro.seq));
  }
  return last;
}

}  // namespace

Head::Head(const HeadParts& parts) : parts_(parts) {}

std::vector<Param*> Head::params() {
  std::vector<Param*> params;
  for (Param* param :
       {parts_.norm.weight, parts_.norm.bias, parts_.tied ? nullptr : parts_.output.weight})
    if (param != nullptr) params.push_back(param);
  return params;
}

bool Head::is_gradient_kept(const Micro& micro) const {
  return micro.output == HeadOutput::LossAndGradient && parts_.logits == LogitsPolicy::Keep &&
         parts_.ranks->is_alone();
}

void Head::for_chunks(FunctionRef<void(const Range& columns)> work) const {
  const int64_t all = parts_.output.out();
  const int64_t size = parts_.logits == LogitsPolicy::Keep ? all : kChunk;
  for (int64_t begin = 0; begin < all; begin += size) work({begin, std::min(begin + size, all)});
}

// Columns `columns` of the logits of x, written to the kept logits or to a new tensor.
Tensor Head::project(Stream& stream, const Tensor& x, const Range& columns,
                     const Tensor& kept) const {
  Tensor y = kept ? kept : allocate_activation(stream, x, {x.rows(), columns.size()});
  linear(stream, y, x, parts_.output.weight->value.slice(columns), {});
  return y;
}

Hidden Head::forward(Stream& stream, const Micro& micro, Hidden x, Saved& saved) {
  if (micro.output == HeadOutput::Logits || micro.output == HeadOutput::LastLogits)
    return {logits(stream, micro, std::move(x))};
  const DType statistics = parts_.norm.statistics;
  saved[Slot::Normed] = parts_.norm.forward(stream, x, norm_slots(saved));
  saved[Slot::Lse] = allocate_activation(stream, statistics, {micro.size()});
  Tensor loss = allocate_activation(stream, statistics, {micro.size()});
  Tensor running = allocate_activation(stream, statistics, {micro.size(), 3});
  if (parts_.logits == LogitsPolicy::Keep)
    saved[Slot::Logits] =
        allocate_activation(stream, saved[Slot::Normed], {micro.size(), parts_.output.out()});
  if (is_gradient_kept(micro)) {
    Tensor logits =
        project(stream, saved[Slot::Normed], {0, parts_.output.out()}, saved[Slot::Logits]);
    cross_entropy(stream, loss, saved[Slot::Lse], running, logits, micro.targets, parts_.vocab,
                  micro.scalars.loss_weight, micro.z_loss);
  } else {
    cross_entropy_of_chunks(stream, micro, loss, running, saved);
  }
  if (parts_.norm.watch != nullptr) parts_.norm.watch->round(stream, saved[Slot::Lse]);
  Tensor total = micro.sum_of(SideSum::Loss);
  sum(stream, total, loss, Write::Add);
  return {std::move(loss)};
}

void Head::cross_entropy_of_chunks(Stream& stream, const Micro& micro, Tensor& loss,
                                   Tensor& running, Saved& saved) const {
  cross_entropy_begin(stream, running);
  const auto work = [&](const Tensor& normed, const Range& rows) {
    Tensor part = running.slice(rows);
    for_chunks([&](const Range& columns) {
      const Tensor logits = project(stream, normed, columns, part_of(saved[Slot::Logits], rows));
      cross_entropy_chunk(stream, part, logits, micro.targets.slice(rows),
                          parts_.first_row + columns.begin, parts_.vocab);
    });
  };
  parts_.ranks->enter(stream, saved[Slot::Normed], work);
  if (!parts_.ranks->is_alone() && !parts_.ranks->is_injected(InjectionKind::LocalSoftmax))
    cross_entropy_join(stream, running, parts_.ranks->all_gather(stream, running));
  cross_entropy_end(stream, loss, saved[Slot::Lse], running, micro.targets, micro.z_loss);
}

Tensor Head::backward_input(Stream& stream, const Micro& micro, const Tensor&, Saved& saved) {
  const bool is_chunked = parts_.logits == LogitsPolicy::Chunked;
  // With Keep, only the weight gradient reads it.
  const Tensor normed = is_chunked ? parts_.ranks->enter(stream, saved[Slot::Normed]) : Tensor();
  Param& output = *parts_.output.weight;
  if (parts_.norm.watch != nullptr) parts_.norm.watch->read(stream, output.name, saved[Slot::Lse]);
  const auto make = [&](Tensor& dnormed, const Range& rows) {
    const Tensor lse = saved[Slot::Lse].slice(rows), targets = micro.targets.slice(rows);
    const Tensor x = part_of(normed, rows);
    // One write mode for all chunks: together they make one contribution to the gradient.
    const Write write_dw = is_chunked ? output.next_write() : Write::Replace;
    for_chunks([&](const Range& columns) {
      Tensor dlogits =
          is_chunked ? project(stream, x, columns) : part_of(saved[Slot::Logits], rows);
      if (!is_gradient_kept(micro))
        cross_entropy_backward(stream, dlogits, lse, targets, parts_.first_row + columns.begin,
                               parts_.vocab, micro.scalars.loss_weight, micro.z_loss);
      linear_backward_input(stream, dnormed, dlogits, output.value.slice(columns),
                            {.write = columns.begin == 0 ? Write::Replace : Write::Chain});
      if (!is_chunked) return;
      Tensor dweight = output.grad.slice(columns), no_bias;
      linear_backward_weight(stream, dweight, no_bias, dlogits, x, write_dw);
    });
  };
  const Tensor dnormed =
      parts_.ranks->leave(stream, saved[Slot::X].dtype(), {micro.size(), parts_.output.in()}, make);
  saved[Slot::Lse] = Tensor();
  if (is_chunked) saved[Slot::Normed] = Tensor();
  return parts_.norm.backward(stream, dnormed, Tensor(), norm_slots(saved));
}

void Head::backward_weight(Stream& stream, const Micro&, Saved& saved) {
  Tensor none;
  if (saved[Slot::Logits])  // now their gradient
    parts_.output.backward_weight_column(stream, {saved[Slot::Logits], none},
                                         {saved[Slot::Normed], none}, *parts_.ranks);
  saved.clear();
}

Tensor Head::logits(Stream& stream, const Micro& micro, Hidden x) const {
  SXT_CHECK(parts_.ranks->is_alone(), Internal, "logits of a head that ranks share");
  Saved unused;
  const Tensor normed = parts_.norm.forward(stream, x, norm_slots(unused));
  const bool all = micro.output == HeadOutput::Logits;
  return project(stream, all ? normed : last_rows(stream, micro, normed), {0, parts_.output.out()});
}

}  // namespace sextant
