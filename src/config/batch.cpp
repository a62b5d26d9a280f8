#include <algorithm>

#include "base/error.h"
#include "base/range.h"
#include "config/check.h"
#include "config/key_makers.h"

namespace sextant {
namespace {

constexpr int64_t kDefaultMicro = 8;
constexpr int kMostListed = 16;  // ranks whose shares a note lists one by one

int64_t divide_up(int64_t total, int64_t part) {
  return (total + part - 1) / part;
}

int64_t largest_divisor(int64_t number, int64_t limit) {
  for (int64_t divisor = std::min(number, limit); divisor > 1; --divisor)
    if (number % divisor == 0) return divisor;
  return 1;
}

// Micro-batches that a step should have, where there are samples enough: a pipeline of p ranks is
// idle for about p - 1 of them, and schedules without gaps need up to 2 p.
int64_t wanted_micros(const ParallelConfig& parallel) {
  return parallel.pp > 1 ? 2 * int64_t{parallel.pp} : 1;
}

// A share that differs between ranks is not worth a tiny micro-batch that divides the largest one.
int64_t default_micro(int64_t global, const ParallelConfig& parallel) {
  const int64_t ranks = data_ranks(parallel), share = divide_up(global, ranks);
  const int64_t most = std::clamp<int64_t>(share / wanted_micros(parallel), 1, kDefaultMicro);
  if (global % ranks == 0) return largest_divisor(share, most);
  return divide_up(share, divide_up(share, most));
}

void complete_from_global(BatchConfig& batch, const ParallelConfig& parallel,
                          const Settings& settings) {
  const int64_t ranks = data_ranks(parallel);
  const std::string where = settings.where("batch.global");
  SXT_CHECK(batch.global >= ranks, Config, where, "batch.global = ", batch.global,
            " leaves some of ", ranks, " data ranks without a sample: at least ", ranks);
  const int64_t share = divide_up(batch.global, ranks);
  if (batch.micro == 0 && batch.accumulation == 0)
    batch.micro = default_micro(batch.global, parallel);
  if (batch.accumulation == 0) batch.accumulation = divide_up(share, batch.micro);
  SXT_CHECK(batch.accumulation <= share, Config, settings.where("batch.accumulation"),
            "batch.accumulation = ", batch.accumulation, " micro-batches for ", share,
            " samples of a data rank (batch.global ", batch.global, ", data ranks ", ranks,
            "): at most ", share);
  const int64_t micro = divide_up(share, batch.accumulation);
  if (batch.micro == 0) batch.micro = micro;
  SXT_CHECK(batch.micro == micro, Config, settings.where("batch.micro"),
            "batch.micro = ", batch.micro, ": ", share, " samples of a data rank (batch.global ",
            batch.global, ", data ranks ", ranks, ") in ", batch.accumulation,
            " micro-batches: set batch.micro = ", micro, " or leave it out");
}

void complete_from_micro(BatchConfig& batch, const ParallelConfig& parallel) {
  const int64_t ranks = data_ranks(parallel), wanted = wanted_micros(parallel);
  if (batch.accumulation == 0 && batch.micro == 0) {
    // The samples that a single rank would take, cut smaller; one for each when that is too few.
    batch.micro = std::max<int64_t>(kDefaultMicro / wanted, 1);
    batch.accumulation = std::max(kDefaultMicro / batch.micro, wanted);
  }
  if (batch.micro == 0) batch.micro = kDefaultMicro;
  if (batch.accumulation == 0) batch.accumulation = wanted;
  SXT_CHECK(batch.micro <= kMaxSize / batch.accumulation / ranks, Config, "batch.micro ",
            batch.micro, " x batch.accumulation ", batch.accumulation, " x data ranks ", ranks,
            " is too many sequences: at most ", kMaxSize);
  batch.global = batch.micro * batch.accumulation * ranks;
}

// "3 3 2"; of many "100 take 4, 200 take 3" or "each takes 4".
std::string shares_in_words(int64_t global, int ranks) {
  const int64_t least = global / ranks, larger = global % ranks;
  if (ranks > kMostListed && larger == 0) return concat("each takes ", least);
  if (ranks > kMostListed)
    return concat(larger, " take ", least + 1, ", ", ranks - larger, " take ", least);
  std::string out;
  for (int rank = 0; rank < ranks; ++rank)
    out += concat(rank == 0 ? "" : " ", even_part(global, ranks, rank).size());
  return out;
}

std::string note_of(const BatchConfig& batch, int ranks) {
  if (batch.global == batch.micro * batch.accumulation * ranks)
    return concat("batch: global ", batch.global, " = micro ", batch.micro, " × accumulation ",
                  batch.accumulation, " × data ranks ", ranks);
  return concat("batch: global ", batch.global, " over ", ranks, " data rank",
                ranks == 1 ? "" : "s", ": ", shares_in_words(batch.global, ranks), ", micro ",
                batch.micro, ", accumulation ", batch.accumulation);
}

}  // namespace

void resolve_batch(ResolvedConfig& out, const Settings& settings) {
  BatchConfig& batch = out.config.batch;
  const int ranks = data_ranks(out.config.parallel);
  if (batch.global != 0)
    complete_from_global(batch, out.config.parallel, settings);
  else
    complete_from_micro(batch, out.config.parallel);
  for (const char* key : {"batch.global", "batch.micro", "batch.accumulation"})
    if (!settings.has(key)) out.origins[key] = "derived";
  out.notes.push_back(note_of(batch, ranks));
}

}  // namespace sextant
