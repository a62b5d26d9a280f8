#include "base/error.h"
#include "config/check.h"

namespace sextant {

void resolve_parallel(ResolvedConfig& out, const Settings& settings) {
  ParallelConfig& parallel = out.config.parallel;
  const int64_t ranks =
      int64_t{parallel.dp} * parallel.shard * parallel.tp * parallel.cp * parallel.pp;
  SXT_CHECK(ranks <= kMaxRanks, Config, settings.where("parallel.dp"),
            "parallel.dp = ", parallel.dp, " x parallel.shard = ", parallel.shard, " is ", ranks,
            " ranks: at most ", kMaxRanks);
  if (!settings.has("parallel.zero")) {
    parallel.zero = parallel.shard > 1 ? 1 : 0;
    if (parallel.shard > 1) out.origins["parallel.zero"] = "derived";
  }
  SXT_CHECK(parallel.shard == 1 || parallel.zero > 0, Config, settings.where("parallel.zero"),
            "parallel.zero = 0 divides nothing over parallel.shard = ", parallel.shard,
            ": take zero 1, 2 or 3, or parallel.dp = ", int64_t{parallel.dp} * parallel.shard,
            " with shard 1");
}

}  // namespace sextant
