#include "data/inspect.h"

#include <algorithm>
#include <numeric>

#include "data/tokens.h"

namespace sextant {
namespace {

constexpr int64_t kTokensAtOnce = 1 << 18, kShown = 64;

}  // namespace

TokenFileReport inspect_tokens(Storage& storage, const std::string& path, TokenFormat format,
                               const Tokenizer* tokenizer) {
  const TokenSource source = TokenSource::open(storage, path, format);
  TokenFileReport report;
  report.format = source.format();
  report.tokens = source.tokens();
  report.width = source.width();
  report.has_checksums = source.has_checksums();
  report.has_loss_mask = source.has_loss_mask();
  report.tokenizer = source.tokenizer();
  const int64_t limit = source.vocab() > 0 ? source.vocab() : INT32_MAX;
  std::vector<int32_t> ids;
  std::vector<uint8_t> mask;
  for (int64_t at = 0; at < source.tokens(); at += kTokensAtOnce) {
    ids.resize(static_cast<size_t>(std::min(kTokensAtOnce, source.tokens() - at)));
    mask.resize(ids.size());
    source.read(ids, at, limit);
    source.read_mask(mask, at);
    report.max_id = std::max<int64_t>(report.max_id, *std::max_element(ids.begin(), ids.end()));
    report.loss_tokens += std::accumulate(mask.begin(), mask.end(), int64_t{0});
    if (at == 0)
      report.first_ids.assign(ids.begin(),
                              ids.begin() + std::min(kShown, static_cast<int64_t>(ids.size())));
  }
  report.vocab = source.vocab() > 0 ? source.vocab() : report.max_id + 1;
  report.documents = source.count_documents();
  if (tokenizer) report.first_text = tokenizer->decode(report.first_ids);
  return report;
}

}  // namespace sextant
