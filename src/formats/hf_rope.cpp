#include "formats/hf_rope.h"

#include <nlohmann/json.hpp>

namespace sextant {
namespace {

using nlohmann::json;

constexpr const char* kOriginal = "original_max_position_embeddings";

void read_llama3_rope(HfRopeScaling& scaling, const HfKeys& rope) {
  scaling.low_freq_factor = rope.positive("low_freq_factor");
  scaling.high_freq_factor = rope.positive("high_freq_factor");
  scaling.original_positions = rope.size(kOriginal);
  if (scaling.high_freq_factor <= scaling.low_freq_factor)
    rope.refuse("high_freq_factor", "it must be above low_freq_factor");
}

// 0 where the key says nothing, or 0.
double positive_or_none(const HfKeys& keys, const char* key) {
  const json* value = keys.find(key);
  return value == nullptr || *value == 0 ? 0 : keys.positive(key);
}

void read_yarn_rope(HfRopeScaling& scaling, const HfKeys& rope, const HfKeys& keys,
                    int64_t positions) {
  scaling.type = HfRopeType::Yarn;
  scaling.original_positions = keys.size_or(kOriginal, rope.size_or(kOriginal, positions));
  scaling.beta_fast = rope.positive_or("beta_fast", 32);
  scaling.beta_slow = rope.positive_or("beta_slow", 1);
  if (scaling.beta_fast <= scaling.beta_slow)
    rope.refuse("beta_fast", "it must be above beta_slow");
  scaling.attention_factor = positive_or_none(rope, "attention_factor");
  scaling.mscale = positive_or_none(rope, "mscale");
  scaling.mscale_all_dim = positive_or_none(rope, "mscale_all_dim");
  if (!rope.flag_or("truncate", true)) rope.refuse("truncate", "only true is supported");
  if (scaling.factor == 1 && scaling.attention_factor != 0 && scaling.attention_factor != 1)
    rope.refuse("attention_factor", "only 1 is supported with a factor of 1");
}

// Whatever stands in `rope` wins over the top-level keys, but for the original length, as in
// transformers 5.
void read_rope_set(HfConfig& config, const HfKeys& rope, const HfKeys& keys) {
  config.rope_theta = rope.positive_or("rope_theta", config.rope_theta);
  if (rope.positive_or("partial_rotary_factor", 1.0) != 1.0)
    rope.refuse("partial_rotary_factor", "only 1, rotation of whole heads, is supported");
  const char* const key = rope.find("rope_type") != nullptr ? "rope_type" : "type";
  const std::string type = rope.text_or(key, "default");
  if (type == "default") return;
  HfRopeScaling scaling;
  scaling.factor = rope.positive("factor");
  if (scaling.factor < 1) rope.refuse("factor", "a number from 1 is needed");
  if (type == "llama3") {
    read_llama3_rope(scaling, rope);
  } else if (type == "yarn") {
    read_yarn_rope(scaling, rope, keys, config.positions);
  } else if (type == "linear") {
    scaling.type = HfRopeType::Linear;
  } else {
    rope.refuse(key, "default, linear, llama3 and yarn are supported");
  }
  if (scaling.factor != 1) config.rope_scaling = scaling;
}

}  // namespace

void read_hf_rope(HfConfig& config, const HfKeys& keys, const std::string& what) {
  config.rope_theta =
      keys.positive_or("rope_theta", config.family == HfFamily::Mixtral ? 1e6 : 10000.0);
  if (keys.positive_or("partial_rotary_factor", 1.0) != 1.0)
    keys.refuse("partial_rotary_factor", "only 1, rotation of whole heads, is supported");
  const char* const name =
      keys.find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
  const json* set = keys.find(name);
  if (set == nullptr) return;
  if (!set->is_object()) keys.refuse(name, "an object is needed");
  for (const auto& [key, value] : set->items())
    if (value.is_object()) keys.refuse(name, "one set for all layers is supported");
  read_rope_set(config, HfKeys(*set, what + ": " + name + "."), keys);
}

}  // namespace sextant
