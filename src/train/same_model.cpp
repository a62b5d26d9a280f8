#include "train/same_model.h"

#include "base/error.h"
#include "blueprint/blueprint.h"
#include "config/show.h"

namespace sextant {

void check_same_model(const ModelConfig& stored, const ModelConfig& wanted,
                      const std::string& what) {
  Config left, right;
  left.model = stored;
  right.model = wanted;
  for (const Difference& difference : diff_configs(left, right)) {
    const std::string& key = difference.key;
    if (key == "model.preset" || key == "model.hf") continue;
    if (key == "model.init_std" || key == "model.dropout") continue;  // do not affect weights
    if (key == "model.seq" && features_of(stored).rotary) continue;
    SXT_FAIL(Data, what, " was trained with ", key, " = ", difference.left, ", not ",
             difference.right);
  }
}

}  // namespace sextant
