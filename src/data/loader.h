#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/storage.h"
#include "config/config.h"

namespace sextant {

// `batch` rows of `seq` tokens in host memory, [batch * seq] each.
struct HostBatch {
  int64_t batch = 0, seq = 0;
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;    // the next token, -1 where no loss counts
  std::vector<int32_t> positions;  // index of the token in its document
  std::vector<int32_t> starts;     // index in the row of the document's first token
};

enum class Split { Train, Eval };

// Samples of model.seq tokens from what [data] names. Sample number g of a run, counted over all
// ranks and steps, is a function of (train.seed, epoch, index in the epoch) alone; epoch and index
// follow from g, so a step count is a cursor.
class Loader {
 public:
  // Reads or generates the data; long work shows progress. Throws Error(Data) for a file that is
  // bad, holds a token beyond model.vocab, or is too short for one sample (and says how short).
  Loader(const Config& config, Storage& storage, Split split, Log& log);
  ~Loader();
  Loader(Loader&&) noexcept;

  // Samples first ... first + count - 1 of the run. Reuses the batch's memory.
  void fill(HostBatch& batch, int64_t first, int64_t count);

  int64_t samples() const;  // in an epoch
  int64_t tokens() const;   // in this split
  struct Cursor {
    int64_t epoch = 0, index = 0;
  };
  Cursor cursor(int64_t sample) const;  // where sample number `sample` of the run lies

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sextant
