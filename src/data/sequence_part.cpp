#include "data/sequence_part.h"

#include <algorithm>

#include "base/error.h"

namespace sextant {
namespace {

// Number of tokens before `token` in the concatenated ranges.
int32_t tokens_before(const std::vector<Range>& runs, int64_t token) {
  int64_t before = 0;
  for (const Range& run : runs) before += std::clamp<int64_t>(token - run.begin, 0, run.size());
  return static_cast<int32_t>(before);
}

}  // namespace

SequencePart::SequencePart(const ContextPart& context, int64_t seq, int64_t window)
    : context_(context),
      seq_(seq),
      window_(window > 0 ? window : seq),
      own_(tokens_of(context, seq)),
      queries_(tokens_of_group(context, context.group(), seq)) {
  if (context.uses_all_gather) {
    keys_ = {{{0, seq}}};
    return;
  }
  const int ring = context.ring();
  for (int step = 0; step < ring; ++step)
    keys_.push_back(tokens_of_group(context, (context.group() - step + ring) % ring, seq));
}

void SequencePart::take(HostBatch& part, const HostBatch& whole) const {
  SXT_CHECK(whole.seq == seq_, Internal, "sequences of ", whole.seq, " tokens, cut as if of ",
            seq_);
  part.batch = whole.batch;
  part.seq = seq_ / context_.degree;
  part.is_numbered = whole.is_numbered;
  for (const auto field :
       {&HostBatch::tokens, &HostBatch::targets, &HostBatch::positions, &HostBatch::indices}) {
    const std::vector<int32_t>& from = whole.*field;
    std::vector<int32_t>& to = part.*field;
    to.clear();
    if (from.empty()) continue;  // no token indices
    for (int64_t row = 0; row < whole.batch; ++row)
      for (const Range& run : own_)
        to.insert(to.end(), from.begin() + row * seq_ + run.begin,
                  from.begin() + row * seq_ + run.end);
  }
  part.key_begin.clear();
  part.key_end.clear();
  for (const std::vector<Range>& keys : keys_) add_ranges(part, whole, keys);
}

void SequencePart::add_ranges(HostBatch& part, const HostBatch& whole,
                              const std::vector<Range>& keys) const {
  for (int64_t row = 0; row < whole.batch; ++row)
    for (const Range& run : queries_)
      for (int64_t token = run.begin; token < run.end; ++token) {
        const int64_t start = std::max<int64_t>(
            whole.starts[static_cast<size_t>(row * seq_ + token)], token + 1 - window_);
        part.key_begin.push_back(tokens_before(keys, start));
        part.key_end.push_back(tokens_before(keys, token + 1));
      }
}

}  // namespace sextant
