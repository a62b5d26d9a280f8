#pragma once
#include <functional>
#include <span>
#include <vector>

#include "executor/serial_model.h"
#include "infer/sample.h"

namespace sextant {

struct GenerateOptions {
  int64_t tokens = 100;                   // number of new tokens
  std::vector<int32_t> stop_tokens = {};  // each ends the text when sampled
  Sampling sampling;
};

// Continues `prompt` (at least one token), calling `emit` for each new token; stops early when emit
// returns false. With the KV cache each token costs one forward pass of one token. When the model's
// maximum sequence length is reached, the last half of the text becomes the new prompt.
std::vector<int32_t> generate(SerialModel& model, std::span<const int32_t> prompt,
                              const GenerateOptions& options,
                              const std::function<bool(int32_t)>& emit);

}  // namespace sextant
