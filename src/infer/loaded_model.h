#pragma once
#include <memory>
#include <span>
#include <string>

#include "base/storage.h"
#include "checkpoint/save.h"
#include "config/config.h"
#include "executor/serial_model.h"
#include "formats/tokenizer_files.h"

namespace sextant {

// The weights of a checkpoint or a Hugging Face directory in memory, for inference only.
class LoadedModel {
 public:
  // `path`: a checkpoint, a run's checkpoint directory or run.out, or a
  // Hugging Face directory; `overrides` change the settings
  // stored in it ("section.key=value"), but not the model's sizes.
  LoadedModel(Storage& storage, const std::string& path, std::span<const std::string> overrides);

  const Config& config() const { return config_; }
  const std::string& path() const { return path_; }
  const TokenizerFiles& tokenizer() const { return tokenizer_; }  // of the checkpoint; may be empty
  Stream& stream() { return *stream_; }
  SerialModel& model() { return *model_; }

  // Bytes of the keys and values of one text of model.seq tokens.
  int64_t cache_bytes() const;

 private:
  void make_model(const std::string& config, std::span<const std::string> overrides);
  void fill(const TensorSource& source);

  std::string path_;
  Config config_;
  TokenizerFiles tokenizer_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<SerialModel> model_;
};

// Largest difference between the logits of two models of the same sizes, over random tokens; NaN
// when either has NaN.
double max_logit_difference(LoadedModel& a, LoadedModel& b);

}  // namespace sextant
