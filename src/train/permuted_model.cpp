#include "train/permuted_model.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace sextant {
namespace {

// Blocks of `size` elements in the given order, the elements of a block in theirs.
std::vector<int64_t> in_blocks(const std::vector<int64_t>& blocks, int64_t size) {
  std::vector<int64_t> order;
  for (const int64_t block : blocks)
    for (int64_t i = 0; i < size; ++i) order.push_back(block * size + i);
  return order;
}

// The order in each of `times` blocks.
std::vector<int64_t> repeated(const std::vector<int64_t>& order, int64_t times) {
  std::vector<int64_t> all;
  for (int64_t block = 0; block < times; ++block)
    for (const int64_t place : order)
      all.push_back(block * static_cast<int64_t>(order.size()) + place);
  return all;
}

}  // namespace

PermutedModel::PermutedModel(const Blueprint& blueprint, uint64_t seed)
    : random_(seed, "permuted model") {
  const ModelConfig& model = blueprint.model;
  for (const LayerSpec& layer : blueprint.layers) {
    for (const ParamSpec& spec : layer.params) specs_[spec.name] = spec;
    if (layer.kind == LayerKind::Attention) set_attention(layer, model);
    if (layer.kind == LayerKind::Mlp) set_mlp(layer, model);
    if (layer.kind == LayerKind::Experts) set_experts(layer, model);
  }
  if (model.dropout > 0) return;
  const Order hidden = draw(model.hidden, "hidden");
  for (const auto& [name, spec] : specs_) {
    Orders& orders = orders_[name];
    const bool writes_hidden = name.ends_with("out.weight") || name.ends_with(".down.weight");
    const bool is_hidden_vector = name.ends_with(".norm.weight") || name.ends_with(".norm.bias") ||
                                  name.ends_with("out.bias") || name.ends_with("down.bias");
    if (name.ends_with(".experts.down.weight"))
      orders.rows = repeated(hidden, model.experts);
    else if (writes_hidden || is_hidden_vector)
      orders.rows = hidden;
    else if (spec.whole.size() == 2 &&
             orders.columns.empty())  // projections from the hidden state, and embeddings
      orders.columns = hidden;
  }
}

PermutedModel::Order PermutedModel::draw(int64_t size, const std::string& name) const {
  Order order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  const auto purpose = static_cast<uint32_t>(stable_hash(name));
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random_.below(i, i, purpose)]);
  return order;
}

// Rows of qkv: for each key-value head its query heads, its key and its value. Columns of out: the
// query heads in this order.
void PermutedModel::set_attention(const LayerSpec& layer, const ModelConfig& model) {
  if (model.kv_lora_rank > 0) return set_latents(layer, model);
  const int64_t dim = model.head_dim, queries = model.heads / model.kv_heads;
  Order rows, columns;
  for (const int64_t group : draw(model.kv_heads, layer.name + " groups")) {
    const std::string name = concat(layer.name, " ", group);
    const Order heads = draw(queries, name + " heads"), channels = draw(dim, name + " channels");
    const int64_t first = group * (queries + 2) * dim;
    for (const int64_t row : in_blocks(heads, dim)) rows.push_back(first + row);
    for (int64_t i = 0; i < dim; ++i) rows.push_back(first + queries * dim + i);
    for (const int64_t channel : channels) rows.push_back(first + (queries + 1) * dim + channel);
    for (const int64_t head : heads)
      for (const int64_t channel : channels)
        columns.push_back((group * queries + head) * dim + channel);
  }
  orders_[layer.name + ".qkv.weight"].rows = orders_[layer.name + ".qkv.bias"].rows = rows;
  orders_[layer.name + ".out.weight"].columns = columns;
}

void PermutedModel::set_latents(const LayerSpec& layer, const ModelConfig& model) {
  const auto set = [&](const std::string& down, const std::string& up, int64_t rank) {
    const Order order = draw(rank, layer.name + down);
    orders_[layer.name + down + ".weight"].rows = order;
    orders_[layer.name + down + "_norm.weight"].rows = order;
    orders_[layer.name + up + ".weight"].columns = order;
  };
  if (model.q_lora_rank > 0) set(".q_a", ".q_b", model.q_lora_rank);
  set(".kv_a", ".kv_b", model.kv_lora_rank);
}

void PermutedModel::set_mlp(const LayerSpec& layer, const ModelConfig& model) {
  const Order units = draw(model.ffn, layer.name + " units");
  Order both = units;
  for (const int64_t unit : units) both.push_back(model.ffn + unit);
  orders_[layer.name + ".gate_up.weight"].rows = orders_[layer.name + ".gate_up.bias"].rows = both;
  orders_[layer.name + ".up.weight"].rows = orders_[layer.name + ".up.bias"].rows = units;
  orders_[layer.name + ".down.weight"].columns = units;
}

// The same order of units in all experts of a layer.
void PermutedModel::set_experts(const LayerSpec& layer, const ModelConfig& model) {
  const Order units = draw(model.expert_ffn, layer.name + " units");
  Order both = units;
  for (const int64_t unit : units) both.push_back(model.expert_ffn + unit);
  orders_[layer.name + ".experts.gate_up.weight"].rows = repeated(both, model.experts);
  orders_[layer.name + ".experts.down.weight"].columns = units;
  const int64_t width = model.shared_experts * model.expert_ffn;
  if (width == 0) return;
  const Order shared = draw(width, layer.name + " shared units");
  Order gate_up = shared;
  for (const int64_t unit : shared) gate_up.push_back(width + unit);
  orders_[layer.name + ".shared.gate_up.weight"].rows = gate_up;
  orders_[layer.name + ".shared.down.weight"].columns = shared;
}

// Optimizer state is named after its parameter, "optim.first_moment.<parameter>".
const ParamSpec& PermutedModel::spec_of(const std::string& name) const {
  const size_t kind = name.starts_with("optim.") ? name.find('.', name.find('.') + 1) + 1 : 0;
  return specs_.at(name.substr(kind));
}

template <class F>
void PermutedModel::for_each_element(const std::string& name, F&& f) const {
  const ParamSpec& spec = spec_of(name);
  const auto found = orders_.find(spec.name);
  const Orders orders = found == orders_.end() ? Orders{} : found->second;
  const int64_t columns = spec.valid_elements() / spec.valid_rows;
  for (int64_t row = 0; row < spec.valid_rows; ++row) {
    const int64_t from = orders.rows.empty() ? row : orders.rows[static_cast<size_t>(row)];
    for (int64_t column = 0; column < columns; ++column)
      f(static_cast<size_t>(row * columns + column),
        static_cast<size_t>(from * columns + (orders.columns.empty()
                                                  ? column
                                                  : orders.columns[static_cast<size_t>(column)])));
  }
}

GlobalTensors PermutedModel::permuted(const GlobalTensors& tensors) const {
  GlobalTensors out;
  for (const auto& [name, values] : tensors) {
    std::vector<float>& to = out[name];
    to.resize(values.size());
    for_each_element(name, [&](size_t place, size_t original) { to[place] = values[original]; });
  }
  return out;
}

GlobalTensors PermutedModel::restored(const GlobalTensors& tensors) const {
  GlobalTensors out;
  for (const auto& [name, values] : tensors) {
    std::vector<float>& to = out[name];
    to.resize(values.size());
    for_each_element(name, [&](size_t place, size_t original) { to[original] = values[place]; });
  }
  return out;
}

}  // namespace sextant
