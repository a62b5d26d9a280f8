#include "blueprint/rope_factor.h"

#include <cmath>

namespace sextant {
namespace {

double temperature(const RopeScaling& rope, double mscale) {
  return 0.1 * mscale * std::log(rope.factor) + 1;
}

bool is_yarn(const RopeScaling& rope) {
  return rope.factor != 1 && rope.type == RopeType::Yarn;
}

}  // namespace

double rope_attention_factor(const RopeScaling& rope) {
  if (!is_yarn(rope)) return 1;
  if (rope.attention_factor != 0) return rope.attention_factor;
  if (rope.mscale != 0 && rope.mscale_all_dim != 0)
    return temperature(rope, rope.mscale) / temperature(rope, rope.mscale_all_dim);
  return temperature(rope, 1);
}

double rope_query_scale(const RopeScaling& rope) {
  if (!is_yarn(rope) || rope.mscale_all_dim == 0) return 1;
  const double once = temperature(rope, rope.mscale_all_dim);
  return once * once;
}

}  // namespace sextant
