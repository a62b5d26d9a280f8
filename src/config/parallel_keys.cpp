// The settings of [parallel].
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/parse.h"
#include "config/key_makers.h"

namespace sextant {
namespace {

void add_context(std::vector<Key>& keys, IntRange degree) {
  const std::string shared = "parallel.cp above 1";
  const auto is_shared = [](const Config& config) { return config.parallel.cp > 1; };
  const auto named = [](ContextKind kind) { return Choice<ContextKind>{name_of(kind), kind}; };
  keys.push_back(int_key("parallel.cp", SXT_FIELD(parallel.cp), degree,
                         "context parallel ranks: each has some of the tokens of every sequence"));
  keys.push_back(
      only_when(shared, is_shared,
                choice_key<ContextKind>(
                    "parallel.cp_kind", SXT_FIELD(parallel.cp_kind),
                    {named(ContextKind::Ring), named(ContextKind::Ulysses),
                     named(ContextKind::AllGather), named(ContextKind::RingUlysses)},
                    "context parallel attention: ring sends keys and values around a ring, ulysses "
                    "exchanges heads for tokens by all-to-all, allgather gathers keys and values, "
                    "ring+ulysses is a ring of Ulysses groups")));
  keys.push_back(only_when(
      "parallel.cp_kind = ring+ulysses",
      [](const Config& config) {
        return config.parallel.cp > 1 && config.parallel.cp_kind == ContextKind::RingUlysses;
      },
      falls_back_to("the most that the heads allow, with a ring of 2 or more",
                    int_key("parallel.ulysses", SXT_FIELD(parallel.ulysses), degree,
                            "ranks of a Ulysses group"))));
}

// The name is checked without a pipeline, too: a misspelt one would come to light much later.
Key schedule_key() {
  Key key = text_key("parallel.schedule", SXT_FIELD(parallel.schedule),
                     "the name of a schedule or a .csv",
                     "pipeline schedule: gpipe, 1f1b, interleaved, looped-bfs, zb-h1, zb-h2, "
                     "interleaved-zb, zb-v, zb-auto, v-half, v-min, dualpipe, dualpipe-v, or a "
                     "file of actions; see sextant simulate");
  key.choices.assign(std::begin(kSchedules), std::end(kSchedules));
  key.set = [set = key.set, names = key.choices](Config& config, const Value& value) {
    const std::string* name = std::get_if<std::string>(&value);
    if (name == nullptr || name->ends_with(".csv") || std::ranges::count(names, *name) > 0)
      return set(config, value);
    const std::string near = did_you_mean(*name, names);
    return "takes the name of a schedule or a .csv" + (near.empty() ? ": " + any_of(names) : near);
  };
  return key;
}

}  // namespace

void add_parallel_keys(std::vector<Key>& keys) {
  constexpr IntRange degree{1, 4096};
  keys.push_back(int_key("parallel.dp", SXT_FIELD(parallel.dp), degree,
                         "data parallel replicas; each takes its own samples"));
  keys.push_back(int_key(
      "parallel.shard", SXT_FIELD(parallel.shard), degree,
      "ranks that shard the state of one replica (ZeRO, FSDP); each takes its own samples"));
  keys.push_back(only_when(
      "parallel.shard above 1", [](const Config& config) { return config.parallel.shard > 1; },
      falls_back_to("1 when shard is above 1, else 0",
                    int_key("parallel.zero", SXT_FIELD(parallel.zero), {0, 3},
                            "ZeRO stage, what the ranks of shard divide: 1 the optimizer state, 2 "
                            "also the gradients, 3 also the weights; 0 is for shard = 1"))));
  keys.push_back(
      int_key("parallel.tp", SXT_FIELD(parallel.tp), degree,
              "tensor parallel ranks: heads, ffn and vocabulary of each layer are divided"));
  keys.push_back(only_when(
      "parallel.tp above 1", [](const Config& config) { return config.parallel.tp > 1; },
      falls_back_to("true when tp is above 1",
                    bool_key("parallel.sequence", SXT_FIELD(parallel.sequence),
                             "sequence parallel: outside of the tensor parallel regions the ranks "
                             "of tp divide the tokens; a quarter more traffic, less memory"))));
  keys.push_back(bool_key("parallel.tp_overlap", SXT_FIELD(parallel.tp_overlap),
                          "overlap of tensor parallel communication and matrix products, in pieces "
                          "around a ring; needs parallel.sequence"));
  add_context(keys, degree);
  keys.push_back(int_key("parallel.pp", SXT_FIELD(parallel.pp), {1, 128},
                         "pipeline parallel ranks; each holds some of the layers"));
  const std::string piped = "parallel.pp above 1";
  const auto is_piped = [](const Config& config) { return config.parallel.pp > 1; };
  keys.push_back(only_when(piped, is_piped, schedule_key()));
  keys.push_back(only_when(piped, is_piped,
                           int_key("parallel.chunks", SXT_FIELD(parallel.chunks), degree,
                                   "virtual stages of a rank (interleaved, looped-bfs, "
                                   "interleaved-zb); 1 leaves it to the schedule")));
  keys.push_back(
      only_when(piped, is_piped,
                text_key("parallel.split", SXT_FIELD(parallel.split), "even, balanced or a list",
                         "layers of each stage: even gives all the same number, balanced equalises "
                         "the cost including embedding and head (always up to 1024 layers), "
                         "3,2,2,1 lists them")));
  const std::string spread = "a model.family with experts";
  const auto is_spread = [](const Config& config) { return has_experts(config.model.family); };
  keys.push_back(only_when(
      spread, is_spread,
      int_key("parallel.ep", SXT_FIELD(parallel.ep), degree,
              "expert parallel ranks, among those of dp, shard, cp and tp: each has some of the "
              "experts of every layer; tokens go to them and back by all-to-all")));
  keys.push_back(only_when(
      spread, is_spread,
      int_key("parallel.etp", SXT_FIELD(parallel.etp), degree,
              "expert tensor parallel ranks, among the same: they divide the ffn of each expert, "
              "gather their tokens before it and sum its outputs after it")));
  keys.push_back(only_when(
      "parallel.ep above 1", [](const Config& config) { return config.parallel.ep > 1; },
      int_key(
          "parallel.ep_node", SXT_FIELD(parallel.ep_node), degree,
          "consecutive ep ranks that form a node: a token crosses to a node once, and is copied "
          "there for the experts that it chose (hierarchical all-to-all); 1 sends it to the "
          "rank of each expert")));
}

}  // namespace sextant
