// Each sum is written down as the expression that a layout computes, such as "((0 1) (2 3))" for
// micro-batches that are added on two ranks and then over the ranks. Equal expressions have equal
// bits.
#include "train/equal_bits.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/parse.h"
#include "program/pipeline.h"
#include "train/preflight.h"

namespace sextant {
namespace {

// A sum in this order. A sum of one term is that term; a sum of two has no order.
std::string sum_of(std::vector<std::string> terms) {
  if (terms.size() == 1) return terms[0];
  if (terms.size() == 2) std::ranges::sort(terms);
  return "(" + join(terms, " ") + ")";
}

// How the values of a token are computed. Sequence parallelism and pipelines do not change it.
// In fp8 with one scale per matrix an expert's depends on the ranks whose tokens it computes.
std::string forward_text(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  std::string text;
  if (config.precision.compute == ComputeType::Fp8 && config.model.experts > 0 &&
      config.precision.fp8_recipe != Fp8Recipe::Block)
    text += concat("ep", parallel.ep, " ");
  if (parallel.tp > 1) text += concat("tp", parallel.tp, parallel.tp_overlap ? " in pieces" : "");
  if (parallel.cp > 1) {
    const ContextPart part = context_part(parallel, 0);
    text += concat(" cp", parallel.cp, " ", part.ulysses, " ", part.uses_all_gather);
  }
  if (parallel.etp > 1) text += concat(" etp", parallel.etp);
  // The outputs of a token's experts are summed in each node, then over nodes.
  if (parallel.ep_node > 1 && parallel.ep > parallel.ep_node)
    text += concat(" in ", parallel.ep / parallel.ep_node, " nodes");
  return text;
}

// The micro-batches that a copy of a stage adds to its gradients, in order, and those of the other
// copy if there are two (DualPipe). Empty if stages differ, or input and weight gradients.
using MicroOrders = std::vector<std::vector<int>>;

MicroOrders orders_of(const Schedule& schedule) {
  // By rank, stage, and whether the action computes weight gradients.
  std::map<std::tuple<int, int, bool>, std::vector<int>> by_action;
  std::map<int, MicroOrders> by_stage;
  for (int rank = 0; rank < schedule.size(); ++rank)
    for (const Action& action : schedule.ranks[static_cast<size_t>(rank)]) {
      if (action.kind == Kind::B || action.kind == Kind::I)
        by_action[{rank, action.stage, false}].push_back(action.micro);
      if (action.kind == Kind::B || action.kind == Kind::W)
        by_action[{rank, action.stage, true}].push_back(action.micro);
    }
  for (const auto& [key, order] : by_action) {
    const auto [rank, stage, is_weight] = key;
    if (by_action.at({rank, stage, !is_weight}) != order) return {};
    if (is_weight) by_stage[stage].push_back(order);
  }
  for (auto& [stage, orders] : by_stage) {
    std::ranges::sort(orders);
    if (orders != by_stage.begin()->second) return {};
  }
  return by_stage.begin()->second;
}

bool splits_backward(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [](const std::vector<Action>& actions) {
    return std::ranges::any_of(actions, [](const Action& a) { return a.kind == Kind::I; });
  });
}

// The expressions of one layout.
class Sums {
 public:
  explicit Sums(const Config& config)
      : parallel_(config.parallel), micros_(static_cast<int>(config.batch.accumulation)) {}

  // Micro-batches in order, then ranks.
  std::string loss() const {
    std::vector<std::string> ranks;
    std::vector<int> all(static_cast<size_t>(micros_));
    for (int i = 0; i < micros_; ++i) all[static_cast<size_t>(i)] = i;
    for (int data = 0; data < data_ranks(parallel_); ++data)
      for (int cp = 0; cp < parallel_.cp; ++cp) ranks.push_back(micros(data, cp, all));
    return sum_of(ranks);
  }

  // "" if it is not known.
  std::string gradient(const Schedule& schedule) const {
    if (parallel_.zero >= 2 && parallel_.shard > 1 && micros_ > 1 && splits_backward(schedule))
      return "";  // buckets of several micro-batches
    std::vector<std::string> copies;
    for (const std::vector<int>& order : orders_of(schedule))
      copies.push_back(over_replicas(order));
    return copies.empty() ? "" : sum_of(copies);
  }

 private:
  static std::string term(int micro, int cp) { return concat(micro, ".", cp); }

  // Micro-batches of a rank, as it adds them.
  std::string micros(int data, int cp, const std::vector<int>& order) const {
    std::vector<std::string> terms;
    for (const int micro : order) terms.push_back(term(data * micros_ + micro, cp));
    return sum_of(terms);
  }

  std::string over_replicas(const std::vector<int>& order) const {
    std::vector<std::string> terms;
    for (int dp = 0; dp < parallel_.dp; ++dp)
      for (int cp = 0; cp < parallel_.cp; ++cp) terms.push_back(over_shards(dp, cp, order));
    return sum_of(terms);
  }

  std::string over_shards(int dp, int cp, const std::vector<int>& order) const {
    const int first = dp * parallel_.shard;
    std::vector<std::string> terms;
    if (parallel_.zero < 2 || parallel_.shard == 1) {
      for (int i = 0; i < parallel_.shard; ++i) terms.push_back(micros(first + i, cp, order));
      return sum_of(terms);
    }
    for (const int micro : order) {  // each is reduced at once
      std::vector<std::string> shards;
      for (int i = 0; i < parallel_.shard; ++i)
        shards.push_back(term((first + i) * micros_ + micro, cp));
      terms.push_back(sum_of(shards));
    }
    return sum_of(terms);
  }

  const ParallelConfig& parallel_;
  int micros_;
};

// A tied weight is added up from its two layers, whose order depends on the whole schedule.
bool adds_ties_otherwise(const Config& a, const Config& b) {
  return a.model.tied && (a.parallel.pp > 1 || b.parallel.pp > 1) && a.parallel != b.parallel;
}

// The gradient of an expert sums the tokens of the ranks of ep and etp in one product, where one
// rank adds a product per micro-batch. Without replicas (edp = 1) that is the whole sum: then it is
// all the same which of the other ranks shard their state.
bool adds_experts_otherwise(const ParallelConfig& a, const ParallelConfig& b) {
  if (a.ep * a.etp == 1 && b.ep * b.etp == 1) return false;
  if (a.ep != b.ep || a.etp != b.etp || a.cp != b.cp || a.tp != b.tp) return true;
  const auto has_replicas = [](const ParallelConfig& layout) {
    return layout.tp * layout.cp * layout.shard * layout.dp > layout.ep * layout.etp;
  };
  if (!has_replicas(a) && !has_replicas(b)) return false;
  return a.dp != b.dp || a.shard != b.shard || a.zero != b.zero;
}

// NCCL's own sums over ranks have no promised order.
bool sums_in_any_order(const Config& config) {
  return config.train.reductions == Reductions::Fast && world_size(config.parallel) > 1;
}

}  // namespace

EqualBits equal_bits(const Config& a, const Config& b) {
  EqualBits out;
  if (sums_in_any_order(a) || sums_in_any_order(b)) return out;
  if (forward_text(a) != forward_text(b)) return out;
  const Sums sums_a(a), sums_b(b);
  out.loss = sums_a.loss() == sums_b.loss();
  const Blueprint blueprint_a =
      make_blueprint(a.model, tensor_part(a.parallel, 0), expert_part(a.parallel, 0));
  const Blueprint blueprint_b =
      make_blueprint(b.model, tensor_part(b.parallel, 0), expert_part(b.parallel, 0));
  const auto pipeline_of = [](const Config& config, const Blueprint& blueprint) {
    return make_pipeline(blueprint, config.parallel, static_cast<int>(config.batch.accumulation));
  };
  const std::string gradient_a = sums_a.gradient(pipeline_of(a, blueprint_a).schedule);
  const std::string gradient_b = sums_b.gradient(pipeline_of(b, blueprint_b).schedule);
  if (gradient_a.empty() || gradient_a != gradient_b) return out;
  // Narrow gradients are rounded once per sum, and sums over ranks and micro-batches differ in
  // that.
  if (a.precision.grads != ComputeType::Fp32 && a.parallel != b.parallel) return out;
  out.steps = true;
  for (size_t layer = 0; layer < blueprint_a.layers.size(); ++layer)
    for (size_t i = 0; i < blueprint_a.layers[layer].params.size(); ++i) {
      const ParamSpec& one = blueprint_a.layers[layer].params[i];
      const ParamSpec& other = blueprint_b.layers[layer].params[i];
      const bool is_expert = one.name.find(".experts.") != std::string::npos;
      const bool is_table = one.name.ends_with("tokens.weight");
      if (one.is_partial == other.is_partial && !(is_table && adds_ties_otherwise(a, b)) &&
          !(is_expert && adds_experts_otherwise(a.parallel, b.parallel)))
        out.gradients.insert(one.name);
      else
        out.steps = false;
    }
  return out;
}

}  // namespace sextant
