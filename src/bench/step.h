#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/storage.h"
#include "bench/gpu_ceilings.h"
#include "config/config.h"
#include "sim/machine.h"
#include "trace/op_times.h"

namespace sextant {

struct StepBench {
  double step_s = 0;  // median
  double tokens_per_s = 0, tflops = 0, mfu = 0;
  double peak_flops = 0;  // of the machine, measured in the same run; see machine_peak
  int64_t mem_peak = 0;
  double comm_exposed_s = 0;  // per step, on the first rank
  int64_t parameters = 0;
  int64_t page_faults = 0;                       // in all measured steps together
  std::optional<int64_t> heap_allocations = {};  // likewise, if they are counted
  int steps = 0;
  std::optional<OpTable> operations = {};  // of one more step, on the first rank
  GpuUse use = {};                         // in all measured steps together
  double predicted_s = 0;  // of a step, from the phantom trace; 0: there was no machine
  std::vector<std::string> assumed = {};     // what the machine's costs lack
  std::optional<GpuCeilings> ceilings = {};  // with `operations`, measured after the steps
};

// Whether the operations of one more step are timed and compared with the GPU's ceilings, which
// needs a GPU.
enum class TimeOperations : uint8_t { No, Yes };

// Whole training steps (forward, backward, clipping, AdamW) of the configured model on random
// tokens: a few warm-up steps, then `steps` measured ones. `heap_allocations`: calls of operator
// new in this process so far; empty if they are not counted. `machine`: whose costs predict the
// step and, where they are timed, its operations; null: none.
StepBench bench_step(const Config& config, int steps, Storage& storage, const Clock& clock,
                     Log& log, const std::function<int64_t()>& heap_allocations = {},
                     TimeOperations time_operations = TimeOperations::No,
                     const Machine* machine = nullptr);

// Another program on the same work: runs `command` with the sizes as arguments (layers heads hidden
// ffn vocab batch seq steps threads) and parses {"tokens_per_s": ...} from its last line of output.
// Error(Failure) when it fails or prints something else.
struct PeerStep {
  std::string name;
  double tokens_per_s = 0;
};
PeerStep run_peer(const std::string& command, const Config& config, int steps, int threads);

}  // namespace sextant
