#include "train/injection_check.h"

#include <string>

#include "base/error.h"
#include "base/parse.h"
#include "fault/inject.h"
#include "program/groups.h"
#include "train/mistaken_part.h"
#include "train/preflight.h"

namespace sextant {
namespace {

// What is missing for a fault to strike, or "".
std::string missing(InjectionNeeds needs, const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  const ContextKind kind = parallel.cp_kind;
  const auto unless = [](bool is_there, const char* text) { return is_there ? "" : text; };
  switch (needs) {
    case InjectionNeeds::Nothing:
      return "";
    case InjectionNeeds::Gpu:
      return unless(config.run.device == RunDevice::Cuda, "needs run.device = cuda");
    case InjectionNeeds::Ranks:
      return unless(world_size(parallel) > 1, "one rank alone reduces nothing");
    case InjectionNeeds::DataRanks:
      return unless(data_ranks(parallel) > 1, "needs parallel.dp or shard above 1");
    case InjectionNeeds::Micros:
      return unless(config.batch.accumulation > 1, "needs batch.accumulation above 1");
    case InjectionNeeds::Shard:
      return unless(parallel.shard > 1, "without parallel.shard above 1 nothing is gathered");
    case InjectionNeeds::Zero12:
      return unless(parallel.shard > 1 && parallel.zero < 3,
                    "needs parallel.shard above 1 and zero 1 or 2");
    case InjectionNeeds::Zero23:
      return unless(parallel.shard > 1 && parallel.zero > 1,
                    "needs parallel.shard above 1 and zero 2 or 3");
    case InjectionNeeds::Replicas:
      return unless(parallel.dp * parallel.cp > 1, "needs parallel.dp or cp above 1");
    case InjectionNeeds::Tp:
      return unless(parallel.tp > 1, "without parallel.tp above 1 no layer is shared");
    case InjectionNeeds::Cp:
      return unless(parallel.cp > 1, "without parallel.cp above 1 no sequence is shared");
    case InjectionNeeds::KeyRanges:
      return unless(parallel.cp > 1 && kind != ContextKind::Ulysses,
                    "needs parallel.cp above 1 with a parallel.cp_kind other than ulysses, which "
                    "has no ranges of keys");
    case InjectionNeeds::Ring:
      return unless(
          parallel.cp > 1 && (kind == ContextKind::Ring || kind == ContextKind::RingUlysses),
          "needs parallel.cp above 1 with parallel.cp_kind = ring or ring+ulysses");
    case InjectionNeeds::GatheredKeys:
      return unless(parallel.cp > 1 && kind == ContextKind::AllGather,
                    "needs parallel.cp above 1 with parallel.cp_kind = allgather");
    case InjectionNeeds::Pp:
      return unless(parallel.pp > 1, "without parallel.pp above 1 no group has a duplicate");
    case InjectionNeeds::Experts:
      return unless(config.model.experts > 0, "needs a model.family with experts");
    case InjectionNeeds::Edp:
      return unless(mesh_shape(parallel).expert_size() > 1 && mesh_shape(parallel).edp() > 1,
                    "needs parallel.ep x etp above 1 and below the ranks of a pipeline stage");
    case InjectionNeeds::Etp:
      return unless(parallel.etp > 1, "without parallel.etp above 1 no expert is shared");
    case InjectionNeeds::RouterBias:
      return unless(
          (config.model.router == RouterKind::Sigmoid || config.model.router_load) &&
              world_size(parallel) > parallel.pp,
          "needs model.router = sigmoid or train.balance_scope = global, and ranks with other "
          "tokens");
    case InjectionNeeds::SharedCapacity:
      return unless(config.train.capacity_factor > 0 && parallel.tp * parallel.cp > 1,
                    "needs train.capacity_factor, and parallel.tp or cp above 1");
    case InjectionNeeds::Clip:
      return unless(config.optim.clip > 0, "needs optim.clip above 0");
    case InjectionNeeds::Masters:
      return unless(config.precision.compute != ComputeType::Fp32 &&
                        config.precision.master != MasterWeights::None,
                    "needs precision.compute bf16, fp16 or fp8 with master weights");
    case InjectionNeeds::LossScale:
      return unless(config.precision.compute == ComputeType::Fp16, "needs precision.compute fp16");
    case InjectionNeeds::Fp8:
      return unless(config.precision.compute == ComputeType::Fp8, "needs precision.compute fp8");
    case InjectionNeeds::DelayedRanks:
      return unless(config.precision.compute == ComputeType::Fp8 &&
                        config.precision.fp8_recipe == Fp8Recipe::Delayed &&
                        world_size(parallel) > parallel.pp,
                    "needs precision.fp8_recipe delayed and more than one rank in a stage");
    case InjectionNeeds::Dropout:
      return unless(config.model.dropout > 0, "without model.dropout above 0 nothing is dropped");
    case InjectionNeeds::FullRecompute:
      return unless(config.model.dropout > 0 && config.memory.recompute == Recompute::Full,
                    "needs model.dropout above 0 and memory.recompute = full");
    case InjectionNeeds::PostValidation:
      return unless(parallel.pp > 1 && config.optim.post_validation && config.optim.clip > 0,
                    "needs parallel.pp above 1, optim.post_validation and optim.clip above 0");
  }
  return "";
}

std::string places_text(const InjectionPlaces& places) {
  std::vector<std::string> names;
  for (const auto& [is_taken, name] : {std::pair{places.group, "group="},
                                       {places.rank, "rank="},
                                       {places.step, "step="},
                                       {places.micro, "micro="}})
    if (is_taken) names.push_back(name);
  return names.empty() ? "no place" : join(names, ", ");
}

}  // namespace

void check_injection(const Config& config, const Blueprint& blueprint) {
  const Injection inject = parse_injection(config.fault.inject);
  if (inject.kind == InjectionKind::None) return;
  const InjectionInfo& info = info_of(inject.kind);
  const InjectionPlaces& places = info.places;
  const std::string text = concat("fault.inject = ", config.fault.inject, ": ");
  const int ranks = world_size(config.parallel);
  const auto groups = static_cast<int>(make_groups(blueprint).groups.size());
  SXT_CHECK((inject.group < 0 || places.group) && (inject.rank < 0 || places.rank) &&
                (inject.step < 0 || places.step) && (inject.micro < 0 || places.micro),
            Config, text, info.name, " takes ", places_text(places));
  SXT_CHECK(inject.rank < ranks, Config, text, "the ranks are 0 to ", ranks - 1);
  SXT_CHECK(inject.group < groups, Config, text, "the groups are 0 to ", groups - 1);
  SXT_CHECK(inject.step != 0, Config, text, "steps count from 1");
  SXT_CHECK(inject.micro < config.batch.accumulation, Config, text, "the micro-batches are 0 to ",
            config.batch.accumulation - 1);
  const std::string problem = missing(info.needs, config);
  SXT_CHECK(problem.empty(), Config, text, problem);
  SXT_CHECK(!is_of_sequence(inject.kind) || config.model.seq > config.parallel.cp, Config, text,
            "a rank with one token of a sequence has nothing to confuse");
}

}  // namespace sextant
