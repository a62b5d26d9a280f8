#pragma once
#include "data/loader.h"
#include "executor/serial_model.h"
#include "support/tiny_model.h"

namespace sextant {

// tiny_tokens as a batch on the host.
inline HostBatch tiny_batch(int64_t batch, int64_t seq, int64_t vocab) {
  TinyTokens from = tiny_tokens(batch, seq, vocab);
  HostBatch host;
  host.batch = batch;
  host.seq = seq;
  host.tokens = std::move(from.tokens);
  host.targets = std::move(from.targets);
  host.positions = std::move(from.positions);
  host.starts = std::move(from.starts);
  return host;
}

// Rows begin ... end - 1 of a batch of one row, from its start: positions and documents are kept.
inline HostBatch tokens_of(const HostBatch& whole, int64_t begin, int64_t end) {
  HostBatch part;
  part.batch = 1;
  part.seq = end - begin;
  for (const auto field :
       {&HostBatch::tokens, &HostBatch::targets, &HostBatch::positions, &HostBatch::starts})
    (part.*field).assign((whole.*field).begin() + begin, (whole.*field).begin() + end);
  return part;
}

// Loss of the batch: the sum over its tokens times kTinyLossScale.
inline double total_loss(SerialModel& model, const HostBatch& host, int64_t step = 0) {
  model.executor().forward(host, {.step = step});
  return model.executor().losses()[0] * kTinyLossScale;
}

// The gradients of one step over `micros` micro-batches that are all this one.
inline void run_step(SerialModel& model, const HostBatch& host, int64_t step = 0, int micros = 1) {
  const std::vector<HostBatch> hosts(static_cast<size_t>(micros), host);
  model.executor().run_step(hosts, kTinyLossScale, step);
  model.params().finish_gradients(model.stream());
}

}  // namespace sextant
