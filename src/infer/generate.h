#pragma once
#include <functional>
#include <span>
#include <vector>

#include "executor/serial_model.h"
#include "infer/sample.h"

namespace sextant {

struct GenerateOptions {
  int64_t tokens = 100;     // how many to make
  int32_t stop_token = -1;  // ends the text when drawn; -1 means none
  Sampling sampling;
};

// Continues `prompt` (at least one token), calling `emit` for each new token; stops early when emit
// returns false. Keys and values are kept, so a token costs one pass over one token. When the
// model's longest sequence is full, the text goes on from its last half.
std::vector<int32_t> generate(SerialModel& model, std::span<const int32_t> prompt,
                              const GenerateOptions& options,
                              const std::function<bool(int32_t)>& emit);

}  // namespace sextant
