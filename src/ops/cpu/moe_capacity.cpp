#include "ops/moe_capacity.h"

#include <algorithm>

#include "ops/fault_texts.h"

namespace sextant::cpu {

void moe_limit(Stream& stream, Tensor& kept, const Tensor& choice, int64_t capacity,
               int64_t experts) {
  const int32_t* from = choice.data<int32_t>();
  int32_t* to = kept.data<int32_t>();
  SXT_CHECK(experts * int64_t{sizeof(int32_t)} <= Stream::kSharedScratch, Usage,
            "moe_limit: ", experts, " experts do not fit into the scratch");
  auto* taken = reinterpret_cast<int32_t*>(stream.shared_scratch().data());
  std::fill_n(taken, experts, 0);
  for (int64_t i = 0; i < choice.elements(); ++i) {
    const int32_t expert = from[i];
    if (expert < 0 || expert >= experts) {
      stream.report({Fault::Internal, "moe_limit", kBadExpertOfPair, {expert, i, experts}});
      to[i] = kDropped;
      continue;
    }
    to[i] = taken[expert] < capacity ? expert : kDropped;
    taken[expert] += taken[expert] < capacity ? 1 : 0;
  }
}

void moe_count(Stream& stream, Tensor& counts, const Tensor& kept) {
  const int64_t experts = counts.dim(0);
  int32_t* count = counts.data<int32_t>();
  std::fill_n(count, experts, 0);
  const int32_t* expert = kept.data<int32_t>();
  for (int64_t i = 0; i < kept.elements(); ++i) {
    if (expert[i] >= 0 && expert[i] < experts)
      ++count[expert[i]];
    else if (expert[i] != kDropped)
      stream.report({Fault::Internal, "moe_count", kBadExpertOfPair, {expert[i], i, experts}});
  }
}

void moe_count_dropped(Stream&, Tensor& dropped, const Tensor& places) {
  const int32_t* place = places.data<int32_t>();
  const auto count = std::count(place, place + places.elements(), kDropped);
  *dropped.data<double>() += static_cast<double>(count);
}

}  // namespace sextant::cpu
