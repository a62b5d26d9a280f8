#include "ops/moe_capacity.h"

#include "ops/check.h"

namespace sextant {

SXT_BACKENDS(moe_limit)
SXT_BACKENDS(moe_count)
SXT_BACKENDS(moe_count_dropped)

void moe_limit(Stream& stream, Tensor& kept, const Tensor& choice, int64_t capacity,
               int64_t experts) {
  check_dims("moe_limit", "choice", choice, 2);
  check_tensor("moe_limit", "choice", choice, DType::I32, choice.shape());
  check_tensor("moe_limit", "kept", kept, DType::I32, choice.shape());
  SXT_CHECK(capacity >= 1 && experts >= 1, Usage, "moe_limit: a capacity of ", capacity, " for ",
            experts, " experts, both must be positive");
  SXT_DISPATCH(stream, Work("moe_limit").writes(kept).reads(choice),
               moe_limit(stream, kept, choice, capacity, experts));
}

void moe_count(Stream& stream, Tensor& counts, const Tensor& kept) {
  check_dims("moe_count", "kept", kept, 2);
  check_tensor("moe_count", "kept", kept, DType::I32, kept.shape());
  check_dims("moe_count", "counts", counts, 1);
  check_tensor("moe_count", "counts", counts, DType::I32, counts.shape());
  SXT_DISPATCH(stream, Work("moe_count").writes(counts).reads(kept),
               moe_count(stream, counts, kept));
}

void moe_count_dropped(Stream& stream, Tensor& dropped, const Tensor& places) {
  check_dims("moe_count_dropped", "places", places, 1);
  check_tensor("moe_count_dropped", "places", places, DType::I32, places.shape());
  check_tensor("moe_count_dropped", "dropped", dropped, DType::F64, {1});
  SXT_DISPATCH(stream, Work("moe_count_dropped").writes(dropped).reads(places, dropped),
               moe_count_dropped(stream, dropped, places));
}

}  // namespace sextant
