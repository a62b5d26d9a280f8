#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/storage.h"
#include "config/config.h"
#include "data/token_set.h"
#include "data/tokenize.h"

namespace sextant {

enum class Split { Train, Eval };

inline constexpr int64_t kBlendBlock = 4096;  // samples

// Rows of a batch on the host, or this rank's tokens of them. All vectors are [batch, seq].
struct HostBatch {
  int64_t batch = 0, seq = 0;
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;    // next token, or -1: not in the loss
  std::vector<int32_t> starts;     // index in the row of the document's first token
  std::vector<int32_t> positions;  // index in the row - start
  // Context parallel, in place of starts: see Micro::key_begin.
  std::vector<int32_t> key_begin, key_end;
  bool is_numbered = false;
  std::vector<int32_t> indices;  // of tokens, set by number_tokens
  int64_t samples = 0;           // rows of a step that are not padding, where `indices` are set

  struct Scratch {  // buffers of fill, kept so that it allocates only once
    std::vector<int32_t> ids, scan;
    std::vector<uint8_t> mask;
    std::vector<int64_t> starts;
  } scratch;
};

// Makes the batch one row of tokens without loss; the first one has position `first_position`.
void fill_row(HostBatch& batch, std::span<const int32_t> tokens, int64_t first_position);

// Pads the batch to `rows` rows with rows that do not count in the loss.
void pad_rows(HostBatch& batch, int64_t rows);

// Sets `indices` = (first_row + row) * seq + index in the row; `first_row` is this rank's first row
// in the global batch.
void number_tokens(HostBatch& batch, int64_t first_row);

// Position of training: sample `index` of epoch `epoch` is next.
struct Cursor {
  int64_t epoch = 0, index = 0;
  bool operator==(const Cursor&) const = default;
};

class Loader;

struct LoaderSettings {
  int64_t seq = 0;
  int64_t vocab = 0;  // of the model; ids must be smaller
  uint64_t seed = 0;
  int threads = 0;                                           // for tokenizing; 0: all cores
  std::function<void(const TokenizeProgress&)> on_progress;  // during tokenizing; may be empty
  // Called when the tokenizer of the data is known, before ids are checked; may throw, may be
  // empty.
  std::function<void(const Loader&)> on_tokenizer = {};
};

// A source of the held-out data: its samples follow those of the sources before it.
struct EvalSource {
  std::string name;  // as the path was given
  int64_t first = 0, samples = 0;
};

// Samples of a run. Sample p of a source is tokens [p * seq, p * seq + seq] of its packed
// documents. A blend draws from its sources by weight: each kBlendBlock training samples have
// exactly their shares (rounded to whole samples), in an order that is a function of (seed, block).
// Training uses an order that is a function of (seed, epoch, index), evaluation uses file order.
// Global sample numbers continue through the epochs, and a sample depends on its number alone:
// ranks may take any ranges.
class Loader {
 public:
  // Opens, generates or tokenizes the data of `data`. Error(Data) for bad content, for fewer tokens
  // than one sample needs, and for an id outside the model's vocabulary (at once for small sets,
  // else when it is read); Error(Config) when the tokenizer has more ids than the model.
  static Loader open(Storage& storage, const DataConfig& data, const LoaderSettings& settings);

  int64_t samples(Split split) const;  // per epoch, of all sources; 0: the split is empty
  int64_t tokens(Split split) const;   // of the split; 0 for synthetic data, which is infinite
  std::vector<EvalSource> eval_sources() const;  // empty for synthetic data
  // Name and files of the tokenizer; "" if it is unknown, of which `note` tells.
  const std::string& tokenizer() const { return tokenizer_; }
  const TokenizerFiles& tokenizer_files() const { return tokenizer_files_; }
  const std::string& note() const { return note_; }
  Cursor cursor(int64_t sample) const;     // of a global training sample
  int64_t sample_at(Cursor cursor) const;  // inverse of cursor

  // Fills rows first_sample ... first_sample + count - 1; count may be 0. Does not allocate once
  // the batch has had this shape. Thread-safe: const and without shared state.
  void fill(HostBatch& batch, Split split, int64_t first_sample, int64_t count) const;

 private:
  struct Part {
    int64_t begin = 0, end = 0;  // token range
    int64_t samples = 0;
  };
  struct Source {
    TokenSet tokens;
    Part train, eval;
    int64_t share = 0;  // training samples in a block of a blend
  };
  Loader(const DataConfig& data, const LoaderSettings& settings);
  TokenSet open_set(Storage& storage, const DataConfig& data, const std::string& path,
                    const LoaderSettings& settings) const;
  void take_tokenizer(Storage& storage, const DataConfig& data);
  void set_shares(std::span<const BlendPart> parts);
  Part whole(const TokenSet& tokens, const char* purpose) const;
  void split_tail(Source& source, double fraction) const;
  int64_t find_cut(const TokenSet& tokens, int64_t at) const;
  void check_ids(const TokenSet& tokens) const;
  struct Place {
    size_t source;
    int64_t sample;  // of the source's part
  };
  Place train_place(int64_t sample) const;
  Place eval_place(int64_t sample) const;
  void fill_row(HostBatch& batch, int64_t row, const TokenSet& tokens, int64_t begin) const;
  void fill_synthetic(HostBatch& batch, int64_t row, Split split, int64_t sample) const;

  int64_t seq_, vocab_;
  uint64_t seed_;
  bool is_synthetic_, masks_documents_;
  std::vector<Source> sources_;
  std::string tokenizer_, note_;
  TokenizerFiles tokenizer_files_;
};

}  // namespace sextant
