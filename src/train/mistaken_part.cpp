#include "train/mistaken_part.h"

#include <algorithm>

namespace sextant {

bool is_of_sequence(InjectionKind kind) {
  return kind == InjectionKind::LocalPositions || kind == InjectionKind::LocalTargets ||
         kind == InjectionKind::SwappedHalves || kind == InjectionKind::LostKey ||
         kind == InjectionKind::MixedDocuments;
}

void mistake_part(HostBatch& part, InjectionKind kind) {
  const int64_t seq = part.seq;
  for (int64_t row = 0; row < part.batch; ++row) {
    const auto of_row = [&](std::vector<int32_t>& values) { return values.begin() + row * seq; };
    if (kind == InjectionKind::LocalPositions)
      for (int64_t i = 0; i < seq; ++i) of_row(part.positions)[i] = static_cast<int32_t>(i);
    if (kind == InjectionKind::LocalTargets) {
      const auto tokens = of_row(part.tokens), targets = of_row(part.targets);
      for (const int64_t last : {seq / 2 - 1, seq - 1}) targets[last] = tokens[(last + 1) % seq];
    }
    if (kind == InjectionKind::SwappedHalves)
      for (auto* values : {&part.tokens, &part.targets, &part.positions})
        std::rotate(of_row(*values), of_row(*values) + seq / 2, of_row(*values) + seq);
  }
  for (size_t i = 0; i < part.key_end.size(); ++i) {
    const int32_t keys = part.key_end[i] - part.key_begin[i];
    if (kind == InjectionKind::LostKey && keys > 1) --part.key_end[i];
    if (kind == InjectionKind::MixedDocuments && keys > 0) part.key_begin[i] = 0;
  }
}

}  // namespace sextant
