#include <utility>

#include "base/error.h"
#include "config/check.h"

namespace sextant {
namespace {

// The largest degree up to `asked` that works.
template <class F>
int nearest(int asked, F&& works) {
  int degree = asked;
  while (degree > 1 && !works(degree)) --degree;
  return degree;
}

// Schedules that go over several stages of a rank, and what they are with one.
constexpr std::pair<const char*, const char*> kWithOneChunk[] = {
    {"interleaved", "waits as 1f1b does and holds more"},
    {"interleaved-zb", "is zb-h1"},
    {"looped-bfs", "is gpipe"}};

void note_one_chunk(ResolvedConfig& out) {
  const ParallelConfig& parallel = out.config.parallel;
  if (parallel.pp == 1 || parallel.chunks > 1) return;
  for (const auto& [name, what] : kWithOneChunk)
    if (parallel.schedule == name)
      out.notes.push_back(concat("parallel.schedule = ", name, " with one stage a rank ", what,
                                 ": parallel.chunks = 2 or more makes it what it is for"));
}

// Names a degree that could.
void check_tensor_parallel(const Config& config, const Settings& settings) {
  const ModelConfig& model = config.model;
  const ParallelConfig& parallel = config.parallel;
  const auto heads = [&](int t) {
    return model.heads % t == 0 && (model.kv_heads % t == 0 || t % model.kv_heads == 0);
  };
  // What is wrong with cp alone is said later.
  const auto tokens = [&](int t) {
    return !parallel.sequence || model.seq % parallel.cp != 0 || model.seq / parallel.cp % t == 0;
  };
  const int64_t shared = model.shared_experts * model.expert_ffn;
  const auto works = [&](int t) {
    return heads(t) && model.ffn % t == 0 && shared % t == 0 && tokens(t);
  };
  SXT_CHECK(!parallel.tp_overlap || parallel.tp > 1, Config, settings.where("parallel.tp_overlap"),
            "parallel.tp_overlap = true needs tensor parallel: parallel.tp = 2 or more, ",
            "or tp_overlap = false");
  SXT_CHECK(!parallel.tp_overlap || parallel.sequence, Config,
            settings.where("parallel.tp_overlap"),
            "parallel.tp_overlap = true moves what parallel.sequence cuts: sequence = true, or ",
            "tp_overlap = false");
  SXT_CHECK(!has_experts(model.family) || parallel.tp == 1 || parallel.sequence, Config,
            settings.where("parallel.sequence"),
            "parallel.sequence = false with parallel.tp = ", parallel.tp,
            " and model.family = ", name_of(model.family),
            ": ranks of tp have whole experts and their own tokens, sequence = true works");
  if (works(parallel.tp)) return;
  const std::string where = settings.where("parallel.tp");
  const int other = nearest(parallel.tp, [&](int t) {
    Config asked = config;
    asked.parallel.tp = t;
    return works(t) && context_works(asked);
  });
  const std::string works_with =
      concat("parallel.tp = ", other,
             other == 1 && parallel.tp_overlap ? " without tp_overlap" : "", " works");
  SXT_CHECK(heads(parallel.tp), Config, where, "parallel.tp = ", parallel.tp,
            " does not cut model.heads = ", model.heads, " and kv_heads = ", model.kv_heads,
            " into whole heads: ", works_with);
  SXT_CHECK(model.ffn % parallel.tp == 0, Config, where, "parallel.tp = ", parallel.tp,
            " does not divide model.ffn = ", model.ffn, ": ", works_with);
  SXT_CHECK(shared % parallel.tp == 0, Config, where, "parallel.tp = ", parallel.tp,
            " does not divide model.shared_experts x expert_ffn = ", shared, ": ", works_with);
  SXT_FAIL(Config, where, "parallel.tp = ", parallel.tp, " with parallel.sequence does not divide ",
           "model.seq = ", model.seq,
           parallel.cp > 1 ? concat(" / parallel.cp = ", parallel.cp) : std::string(), ": ",
           works_with, parallel.tp_overlap ? "" : ", or sequence = false");
}

// Names a degree that could; that of ep is right.
void check_expert_tensor_parallel(const Config& config, const Settings& settings, int stage) {
  const ModelConfig& model = config.model;
  const ParallelConfig& parallel = config.parallel;
  if (parallel.etp == 1) return;
  const std::string where = settings.where("parallel.etp");
  const int etp = parallel.etp, free = stage / parallel.ep;
  const int other = nearest(etp, [&](int t) { return free % t == 0 && model.expert_ffn % t == 0; });
  SXT_CHECK(free % etp == 0, Config, where, "parallel.ep = ", parallel.ep, " x etp = ", etp,
            " does not divide the ", stage,
            " ranks of a pipeline stage (dp x shard x cp x tp): parallel.etp = ", other, " works");
  SXT_CHECK(model.expert_ffn % etp == 0, Config, where, "parallel.etp = ", etp,
            " does not divide model.expert_ffn = ", model.expert_ffn, ": parallel.etp = ", other,
            " works");
}

// Names degrees that could.
void check_expert_parallel(const Config& config, const Settings& settings) {
  const ModelConfig& model = config.model;
  const ParallelConfig& parallel = config.parallel;
  const int stage = world_size(parallel) / parallel.pp;
  for (const auto& [name, degree] : {std::pair{"ep", parallel.ep}, {"etp", parallel.etp}})
    SXT_CHECK(degree == 1 || has_experts(model.family), Config,
              settings.where(concat("parallel.", name)), "parallel.", name, " = ", degree,
              " with model.family = ", name_of(model.family), ", which has no experts: parallel.",
              name, " = 1, or a family with experts works");
  const std::string where = settings.where("parallel.ep");
  const int other =
      nearest(parallel.ep, [&](int ep) { return stage % ep == 0 && model.experts % ep == 0; });
  SXT_CHECK(stage % parallel.ep == 0, Config, where, "parallel.ep = ", parallel.ep,
            " does not divide the ", stage,
            " ranks of a pipeline stage (dp x shard x cp x tp): ", "parallel.ep = ", other,
            " works");
  SXT_CHECK(model.experts % parallel.ep == 0, Config, where, "parallel.ep = ", parallel.ep,
            " does not divide model.experts = ", model.experts, ": parallel.ep = ", other,
            " works");
  check_expert_tensor_parallel(config, settings, stage);
  if (parallel.ep == 1 || parallel.ep_node == 1) return;
  const std::string at = settings.where("parallel.ep_node");
  SXT_CHECK(parallel.ep % parallel.ep_node == 0 && parallel.ep_node < parallel.ep, Config, at,
            "parallel.ep_node = ", parallel.ep_node, " of parallel.ep = ", parallel.ep,
            ": it must divide ep into two nodes or more; 1 has no nodes");
  SXT_CHECK(parallel.etp == 1, Config, at, "parallel.ep_node = ", parallel.ep_node,
            " with parallel.etp = ", parallel.etp, ": one of them must be 1");
}

}  // namespace

void resolve_parallel(ResolvedConfig& out, const Settings& settings) {
  ParallelConfig& parallel = out.config.parallel;
  const int64_t ranks =
      int64_t{parallel.dp} * parallel.shard * parallel.tp * parallel.cp * parallel.pp;
  SXT_CHECK(ranks <= kMaxRanks, Config, settings.where("parallel.dp"),
            "parallel.dp = ", parallel.dp, " x parallel.shard = ", parallel.shard,
            parallel.tp > 1 ? concat(" x parallel.tp = ", parallel.tp) : "",
            parallel.cp > 1 ? concat(" x parallel.cp = ", parallel.cp) : "",
            parallel.pp > 1 ? concat(" x parallel.pp = ", parallel.pp) : "", " is ", ranks,
            " ranks: at most ", kMaxRanks);
  if (!settings.has("parallel.zero")) {
    parallel.zero = parallel.shard > 1 ? 1 : 0;
    if (parallel.shard > 1) out.origins["parallel.zero"] = "derived";
  }
  if (parallel.tp > 1 && !settings.has("parallel.sequence")) {
    parallel.sequence = true;
    out.origins["parallel.sequence"] = "derived";
  }
  check_tensor_parallel(out.config, settings);
  resolve_context(out, settings);
  check_expert_parallel(out.config, settings);
  SXT_CHECK(parallel.shard == 1 || parallel.zero > 0, Config, settings.where("parallel.zero"),
            "parallel.zero = 0 divides nothing over parallel.shard = ", parallel.shard,
            ": take zero 1, 2 or 3, or parallel.dp = ", int64_t{parallel.dp} * parallel.shard,
            " with shard 1");
  note_one_chunk(out);
}

}  // namespace sextant
