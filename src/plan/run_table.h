#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/storage.h"
#include "config/config.h"
#include "plan/case.h"
#include "plan/constants.h"

namespace sextant {

// A published run: a line of a table such as docs/planner/runs.csv, whose columns are found by
// name. A number is absent where the text of the column is none.
struct PublishedRun {
  std::string id, source, model, gpu, recompute, precision, kernel, notes, kv_heads, vpp, mlp;
  std::string schedule, recompute_n, compute, mem_kind, release;
  std::optional<double> params_b, layers, hidden, heads, head_dim, ffn, vocab, seq;
  std::optional<double> experts, topk, expert_ffn, shared_ffn, dense_layers;
  std::optional<double> gpus, gpus_per_node, tp, sp, cp, pp, ep, dp, zero, mbs, gbs, flash;
  std::optional<double> step_s, mem_gib, oom;
  bool scored = false;
  // The repository or paper: the source up to ':' or a space, "arXiv:" included.
  std::string origin() const;
};

// Lines of a CSV file; quoted fields may hold commas, quotes and line ends.
std::vector<std::vector<std::string>> parse_csv(std::string_view text);
// Error(Data) only where the header has no column `id`.
std::vector<PublishedRun> read_runs(std::string_view text, const std::string& name);

// A run of this program.
struct MeasuredRun {
  Config config;
  std::string id, gpu;
  int64_t gpus_per_node = 1;
  double step_s = 0, mem_gib = 0;
};
// A table of this one run, which read_runs reads.
std::string run_table_text(const MeasuredRun& run);

// What a run says as a question to the planner, gaps filled by the practice of its time. Never
// throws; what was filled in is said in `assumed`.
struct InferredCase {
  Case asked;
  std::vector<std::string> assumed;
};
InferredCase infer_case(Storage& storage, const PublishedRun& run, const Constants& constants);

}  // namespace sextant
