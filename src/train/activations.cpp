#include "train/activations.h"

#include <string_view>

#include "base/error.h"
#include "base/parse.h"
#include "train/kept_tensors.h"
#include "train/phantom.h"
#include "train/rehearsal.h"

namespace sextant {
namespace {

constexpr int64_t kPublishedSize = 2;  // bytes of an element in the formula

// What shards a tensor: sequence parallelism (only with `sequence`) or tensor parallelism.
enum class ShardedBy { Sequence, Tensor };

// A tensor of the formula, of the program, or of both.
struct Spec {
  const char* tensor;
  int sbh, scores;  // published: multiples of s b h, and of a s^2 b
  ShardedBy sharded_by;
  int64_t kept;  // bytes in the run
  std::string why = "";
  int64_t element_size = 0;  // in the run; 0: that of the table
};

constexpr const char* kInput = "input";
constexpr const char* kTiled = "attention goes by tiles: no s x s matrix is ever stored";
constexpr const char* kDrawnAgain = "not stored: backward draws it again from a counter";
constexpr const char* kRecomputed = "recomputed in backward";
constexpr const char* kStatistics = "of each token, which the formula leaves out";

// What the formula counts of a tensor under a way of recomputing.
Spec published_spec(Spec spec, LayerKind layer, Recompute recompute) {
  const bool is_block_input =
      layer == LayerKind::Attention && std::string_view(spec.tensor) == kInput;
  if (recompute == Recompute::Selective) spec.scores = 0;
  if (recompute == Recompute::Full && !is_block_input) spec.sbh = spec.scores = 0;
  return spec;
}

// Why a tensor with `published` elements per token in the formula has `wide`.
std::string width_text(int64_t wide, int64_t published, const std::string& what) {
  return wide == published ? "" : concat(what, ": ", wide, " wide, not ", published);
}

std::string qkv_text(const Blueprint& blueprint) {
  const ModelConfig& model = blueprint.model;
  std::vector<std::string> reasons;
  if (blueprint.tensor.degree > model.kv_heads)
    reasons.push_back(concat("a copy of one of ", model.kv_heads, " key-value heads on each rank"));
  else if (model.kv_heads < model.heads)
    reasons.push_back(concat(model.kv_heads, " key-value heads for ", model.heads, " queries"));
  if (model.heads * model.head_dim != model.hidden)
    reasons.push_back(width_text(model.heads * model.head_dim, model.hidden, "queries"));
  return join(reasons, "; ");
}

// Bytes of one layer of a block.
class KeptBytes {
 public:
  KeptBytes(const std::vector<KeptTensor>& tensors, LayerKind layer)
      : tensors_(tensors), layer_(layer) {}
  int64_t operator[](Kept kind) const {
    int64_t bytes = 0;
    for (const KeptTensor& tensor : tensors_)
      if (tensor.layer == layer_ && tensor.kind == kind) bytes += tensor.bytes;
    return bytes;
  }

  // 1 for a tensor in fp8, else 0.
  int64_t fp8_size(Kept kind) const {
    for (const KeptTensor& tensor : tensors_)
      if (tensor.layer == layer_ && tensor.kind == kind && size_of(tensor.dtype) == 1) return 1;
    return 0;
  }

 private:
  const std::vector<KeptTensor>& tensors_;
  LayerKind layer_;
};

void add_scales(std::vector<Spec>& specs, const KeptBytes& kept) {
  if (kept[Kept::Scales] > 0)
    specs.push_back({"fp8 scales", 0, 0, ShardedBy::Tensor, kept[Kept::Scales],
                     "the largest value of each quantised tensor"});
}

std::vector<Spec> attention_specs(const Blueprint& blueprint,
                                  const std::vector<KeptTensor>& tensors) {
  const ModelConfig& model = blueprint.model;
  const KeptBytes kept(tensors, LayerKind::Attention);
  std::vector<Spec> specs = {
      {kInput, 2, 0, ShardedBy::Sequence, kept[Kept::Input]},
      {"norm's statistics", 0, 0, ShardedBy::Sequence, kept[Kept::Statistics], kStatistics},
      {"normed input", 2, 0, ShardedBy::Sequence, kept[Kept::Normed], "",
       kept.fp8_size(Kept::Normed)},
      {"queries, keys, values", 6, 0, ShardedBy::Tensor, kept[Kept::Qkv], qkv_text(blueprint)}};
  if (kept[Kept::RawQkv] > 0)
    specs.insert(specs.end(), {{"the same before head norm", 0, 0, ShardedBy::Tensor,
                                kept[Kept::RawQkv], "a norm keeps its input"},
                               {"head norms' statistics", 0, 0, ShardedBy::Tensor,
                                kept[Kept::HeadStatistics], "of each token and head"}});
  specs.insert(specs.end(),
               {{"softmax of scores", 0, 2, ShardedBy::Tensor, 0, kTiled},
                {"dropout mask of scores", 0, 1, ShardedBy::Tensor, 0, kTiled},
                {"scores after dropout", 0, 2, ShardedBy::Tensor, 0, kTiled},
                {"log-sum-exp of scores", 0, 0, ShardedBy::Tensor, kept[Kept::LogSumExp],
                 "of each token and head: backward makes tiles of scores again from it"},
                {"attended values", 2, 0, ShardedBy::Tensor, kept[Kept::Attended],
                 width_text(model.heads * model.head_dim, model.hidden, "heads"),
                 kept.fp8_size(Kept::Attended)},
                {"dropout mask", 1, 0, ShardedBy::Sequence, 0, kDrawnAgain}});
  add_scales(specs, kept);
  return specs;
}

std::vector<Spec> mlp_specs(const Blueprint& blueprint, const std::vector<KeptTensor>& tensors) {
  const ModelConfig& model = blueprint.model;
  const KeptBytes kept(tensors, LayerKind::Mlp);
  const bool is_gated = blueprint.features.gated;
  std::vector<Spec> specs = {
      {kInput, 2, 0, ShardedBy::Sequence, kept[Kept::Input]},
      {"norm's statistics", 0, 0, ShardedBy::Sequence, kept[Kept::Statistics], kStatistics},
      {"normed input", 2, 0, ShardedBy::Sequence, kept[Kept::Normed], "",
       kept.fp8_size(Kept::Normed)},
      {is_gated ? "gate and up" : "before the activation", 8, 0, ShardedBy::Tensor,
       kept[Kept::Wide],
       width_text((is_gated ? 2 : 1) * model.ffn, 4 * model.hidden,
                  is_gated ? "both halves" : "ffn")},
      {is_gated ? "product of gate and up" : "after the activation", 8, 0, ShardedBy::Tensor,
       kept[Kept::Active], width_text(model.ffn, 4 * model.hidden, "ffn"),
       kept.fp8_size(Kept::Active)},
      {"dropout mask", 1, 0, ShardedBy::Sequence, 0, kDrawnAgain}};
  add_scales(specs, kept);
  return specs;
}

// s b h and a s^2 b.
struct Units {
  int64_t sbh, scores;
};

Units units_of(const ModelConfig& model, int64_t micro, int64_t seq) {
  const double scores = static_cast<double>(model.heads) * static_cast<double>(seq) *
                        static_cast<double>(seq) * static_cast<double>(micro);
  SXT_CHECK(scores < 1e18, Config, "a matrix of scores of model.seq = ", seq,
            " and batch.micro = ", micro, " has ", scores,
            " elements: at most 1e18 can be counted");
  return {seq * micro * model.hidden, model.heads * seq * seq * micro};
}

std::string formula_text(const Spec& spec, bool is_sharded, int degree) {
  if (spec.sbh + spec.scores == 0) return "";
  const int times = spec.scores > 0 ? spec.scores : spec.sbh;
  return concat(times > 1 ? std::to_string(times) : "", spec.scores > 0 ? "as²b" : "sbh",
                is_sharded ? concat("/", degree) : "");
}

void add_terms(ActivationTable& table, LayerKind layer, const std::vector<Spec>& specs,
               const Units& units) {
  const int degree = table.tensor.degree;
  for (const Spec& all : specs) {
    const Spec spec = published_spec(all, layer, table.recompute);
    const bool is_sharded =
        degree > 1 && (spec.sharded_by == ShardedBy::Tensor || table.tensor.sequence);
    const int64_t published =
        (spec.sbh * units.sbh + spec.scores * units.scores) / (is_sharded ? degree : 1);
    const int64_t size = spec.element_size > 0 ? spec.element_size : table.element_size;
    const int64_t in_two = spec.kept * kPublishedSize / size;
    const int64_t by_structure = in_two - published;
    table.terms.push_back({layer, spec.tensor, formula_text(spec, is_sharded, degree), published,
                           by_structure, spec.kept - in_two, spec.kept,
                           by_structure == 0                    ? "as published"
                           : spec.kept == 0 && spec.why.empty() ? kRecomputed
                                                                : spec.why});
    const ActivationTerm& term = table.terms.back();
    table.published += term.published;
    table.by_structure += term.by_structure;
    table.by_type += term.by_type;
    table.kept += term.kept;
  }
}

std::string formula_of(const TensorPart& tensor, Recompute recompute) {
  const std::string each = tensor.degree > 1 ? concat("/", tensor.degree) : std::string();
  if (recompute == Recompute::Full) return concat("2sbh", tensor.sequence ? each : "");
  if (recompute == Recompute::Selective)
    return tensor.degree == 1 || tensor.sequence ? concat("34sbh", each)
                                                 : concat("sbh(10 + 24", each, ")");
  if (tensor.degree == 1) return "sbh(34 + 5as/h)";
  return concat(tensor.sequence ? "sbh(34/" : "sbh(10 + 24/", tensor.degree, " + 5as/",
                tensor.degree, "h)");
}

// One layer and one micro-batch, on tensor parallel ranks only: a layer keeps the same in every
// stage and on every shard.
Config with_one_layer(Config config) {
  config.model.layers = 1;
  config.batch.accumulation = 1;
  config.batch.global = config.batch.micro;
  config.train.eval_every = 0;
  ParallelConfig& parallel = config.parallel;
  parallel.pp = parallel.cp = parallel.shard = parallel.dp = 1;
  return config;
}

constexpr size_t kFirstAttention = 1;  // after the embedding

struct TracedLayer {
  Blueprint blueprint;
  Trace trace;
};

TracedLayer trace_layer(const Config& config) {
  const Config one = with_one_layer(config);
  Preflight flight;
  flight.blueprint = make_blueprint(one.model, tensor_part(one.parallel, 0));
  flight.pipeline = serial_pipeline(flight.blueprint, 1);
  flight.pipeline.keeps = keeps_of(flight.blueprint, one.memory.recompute);
  Budget budget = trace_budget(one, 1);
  return {flight.blueprint, trace_phantom(one, flight, 0, nullptr, &budget)};
}

// FLOPs of the layer's recomputation relative to its forward and backward.
double extra_flops(const Trace& trace) {
  double once = 0, again = 0;
  for (const TraceOp& op : trace.ops) {
    const bool is_of_layer = op.scope.layer == static_cast<int32_t>(kFirstAttention) ||
                             op.scope.layer == static_cast<int32_t>(kFirstAttention) + 1;
    if (is_of_layer) (std::string_view(op.scope.pass) == "recompute" ? again : once) += op.flops;
  }
  return again / once;
}

}  // namespace

ActivationTable activation_table(const Config& config) {
  SXT_CHECK(config.model.experts == 0, Usage,
            "the table is of a layer without experts, model.family = ",
            name_of(config.model.family), " has them; train --dry-run has the bytes");
  const Blueprint blueprint = make_blueprint(config.model, tensor_part(config.parallel, 0));
  const Units units = units_of(config.model, config.batch.micro, config.model.seq);
  const TracedLayer traced = trace_layer(config);
  const std::vector<KeptTensor> tensors =
      kept_tensors(traced.trace, traced.blueprint, kFirstAttention);
  const Recompute recompute = config.memory.recompute;
  ActivationTable table{blueprint.tensor, recompute, formula_of(blueprint.tensor, recompute), {}};
  table.extra_flops = extra_flops(traced.trace);
  table.element_size = size_of(number_types(config.precision).compute);
  add_terms(table, LayerKind::Attention, attention_specs(blueprint, tensors), units);
  add_terms(table, LayerKind::Mlp, mlp_specs(blueprint, tensors), units);
  int64_t alive = 0;
  for (const KeptTensor& tensor : tensors) alive += tensor.bytes;
  SXT_CHECK(table.kept == alive, Internal, "tensors of a layer are ", table.kept,
            " bytes, the trace keeps ", alive);
  return table;
}

std::vector<std::string> formula_notes(const ModelConfig& model) {
  std::vector<std::string> notes;
  if (features_of(model).gated)
    notes.push_back(
        "the formula is that of a gpt2 layer: LayerNorm, as many key-value heads as queries, one "
        "matrix up to 4h and one down");
  else if (model.ffn != 4 * model.hidden)
    notes.push_back(
        concat("the formula has ffn = 4h = ", 4 * model.hidden, ", the model ", model.ffn));
  return notes;
}

}  // namespace sextant
