#include "ops/heads.h"

#include "base/error.h"

namespace sextant {

void check_heads(std::string_view op, const Heads& heads) {
  SXT_CHECK(heads.batch > 0 && heads.seq > 0, Usage, op, ": batch=", heads.batch,
            " seq=", heads.seq, ", both must be positive");
  SXT_CHECK(heads.kv_heads > 0 && heads.heads > 0 && heads.heads % heads.kv_heads == 0, Usage, op,
            ": heads=", heads.heads, " kv_heads=", heads.kv_heads,
            ", heads must be a positive multiple of kv_heads");
  SXT_CHECK(heads.head_dim > 0 && heads.head_dim % 2 == 0 && heads.head_dim <= kMaxHeadDim, Usage,
            op, ": head_dim=", heads.head_dim, ", must be even and at most ", kMaxHeadDim);
  SXT_CHECK(heads.window >= 0, Usage, op, ": window=", heads.window, ", must not be negative");
}

}  // namespace sextant
