#include <algorithm>

#include "base/error.h"
#include "config/check.h"
#include "config/key_makers.h"

namespace sextant {
namespace {

constexpr int64_t kDefaultMicro = 8;

int64_t largest_divisor(int64_t number, int64_t limit) {
  for (int64_t divisor = std::min(number, limit); divisor > 1; --divisor)
    if (number % divisor == 0) return divisor;
  return 1;
}

int64_t divide(int64_t global, int64_t known, const char* name, int64_t value, int64_t ranks,
               const std::string& where) {
  SXT_CHECK(global % known == 0, Config, where, "batch.global = ", global,
            " is no multiple of batch.", name, " = ", value, " x data ranks ", ranks);
  return global / known;
}

}  // namespace

void resolve_batch(ResolvedConfig& out, const Settings& settings) {
  BatchConfig& batch = out.config.batch;
  const ParallelConfig& parallel = out.config.parallel;
  const int64_t ranks = int64_t{parallel.dp} * parallel.shard;
  const bool global = batch.global != 0, micro = batch.micro != 0,
             accumulation = batch.accumulation != 0;
  const std::string where = settings.where("batch.global");
  if (global && !micro && !accumulation)
    batch.micro =
        largest_divisor(divide(batch.global, ranks, "micro", 1, ranks, where), kDefaultMicro);
  if (global && !micro && accumulation)
    batch.micro = divide(batch.global, batch.accumulation * ranks, "accumulation",
                         batch.accumulation, ranks, where);
  if (!global && !micro) batch.micro = kDefaultMicro;
  if (global && !accumulation)
    batch.accumulation =
        divide(batch.global, batch.micro * ranks, "micro", batch.micro, ranks, where);
  if (!global && !accumulation) batch.accumulation = 1;
  const int64_t product = batch.micro * batch.accumulation * ranks;
  SXT_CHECK(!global || batch.global == product, Config, where, "batch.global = ", batch.global,
            " is not batch.micro ", batch.micro, " x batch.accumulation ", batch.accumulation,
            " x data ranks ", ranks, " = ", product, ": leave one of the three out");
  SXT_CHECK(product <= kMaxSize, Config, "batch.micro ", batch.micro, " x batch.accumulation ",
            batch.accumulation, " x data ranks ", ranks, " = ", product, " sequences, at most ",
            kMaxSize);
  batch.global = product;
  for (const char* key : {"batch.global", "batch.micro", "batch.accumulation"})
    if (!settings.has(key)) out.origins[key] = "derived";
  out.notes.push_back(concat("batch: global ", batch.global, " = micro ", batch.micro,
                             " × accumulation ", batch.accumulation, " × data ranks ", ranks));
}

}  // namespace sextant
