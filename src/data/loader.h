#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/storage.h"
#include "config/config.h"
#include "data/tokenize.h"
#include "data/tokens.h"

namespace sextant {

enum class Split { Train, Eval };

// Rows of a batch on the host, or this rank's tokens of them. All vectors are [batch, seq].
struct HostBatch {
  int64_t batch = 0, seq = 0;
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;    // the next token, or -1: not in the loss
  std::vector<int32_t> starts;     // place in the row where the token's document begins
  std::vector<int32_t> positions;  // place in the row - start
  // Where ranks share the rows, in place of starts: see Micro::key_begin.
  std::vector<int32_t> key_begin, key_end;
  bool is_numbered = false;
  std::vector<int32_t> indices;  // of tokens, once number_tokens has numbered them

  struct Scratch {  // of fill, kept so that it allocates only once
    std::vector<int32_t> ids, scan;
    std::vector<uint8_t> mask;
    std::vector<int64_t> starts;
  } scratch;
};

// Makes the batch one row of tokens, none of which counts towards a loss; the first one has this
// position.
void fill_row(HostBatch& batch, std::span<const int32_t> tokens, int64_t first_position);

// Makes the batch `rows` rows long with rows that count towards nothing.
void pad_rows(HostBatch& batch, int64_t rows);

// Fills `indices`: place of the row in the batch of all ranks, of which this one's rows begin at
// `first_row`, times seq, and place in the row.
void number_tokens(HostBatch& batch, int64_t first_row);

// Where training stands: sample `index` of pass `epoch` comes next.
struct Cursor {
  int64_t epoch = 0, index = 0;
  bool operator==(const Cursor&) const = default;
};

struct LoaderSettings {
  int64_t seq = 0;
  int64_t vocab = 0;  // of the model; ids must be below it
  uint64_t seed = 0;
  int threads = 0;                                           // for tokenizing; 0: all cores
  std::function<void(const TokenizeProgress&)> on_progress;  // of tokenizing; may be empty
};

// Samples of a run. Sample p of a split is the tokens [p * seq, p * seq + seq] of its documents
// packed one behind the other; training meets them in an order that is a function of (seed, epoch,
// index), evaluation in file order. Samples have global numbers that run on through the epochs, and
// a sample is a function of its number alone: ranks cut ranges out of it as they like.
class Loader {
 public:
  // Opens, generates or tokenizes what `data` names. Throws Error: Data for bad content, for fewer
  // tokens than one sample needs, and (at once for small sets, else when it is met) for an id that
  // the model does not have; Config when the tokenizer has more ids than the model.
  static Loader open(Storage& storage, const DataConfig& data, const LoaderSettings& settings);

  int64_t samples(Split split) const;   // in one pass; 0: the split is empty
  int64_t tokens(Split split) const;    // of the data set's part; 0 for synthetic, which has no end
  Cursor cursor(int64_t sample) const;  // of a global training sample
  int64_t sample_at(Cursor cursor) const;  // the inverse

  // Rows first_sample ... first_sample + count - 1, perhaps none. Allocates nothing once the batch
  // has had this shape. Const and without shared state: threads may fill batches of their own.
  void fill(HostBatch& batch, Split split, int64_t first_sample, int64_t count) const;

 private:
  struct Part {
    size_t source = 0;           // of sources_
    int64_t begin = 0, end = 0;  // tokens
    int64_t samples = 0;
  };
  Loader(const DataConfig& data, const LoaderSettings& settings);
  void add_source(TokenSource source);
  void use_whole(Part& part, size_t source, const char* purpose) const;
  void split_tail(double fraction);
  int64_t find_cut(const TokenSource& source, int64_t at) const;
  void check_ids(const TokenSource& source) const;
  const Part& part(Split split) const { return split == Split::Train ? train_ : eval_; }
  void fill_row(HostBatch& batch, int64_t row, const Part& part, int64_t place) const;
  void fill_synthetic(HostBatch& batch, int64_t row, Split split, int64_t sample) const;

  int64_t seq_, vocab_;
  uint64_t seed_;
  bool is_synthetic_, masks_documents_;
  std::vector<TokenSource> sources_;
  Part train_, eval_;
};

}  // namespace sextant
