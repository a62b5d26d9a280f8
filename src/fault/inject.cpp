#include "fault/inject.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/parse.h"

namespace sextant {
namespace {

using Kind = InjectionKind;
using Needs = InjectionNeeds;

constexpr InjectionPlaces kAll = {}, kRank = {.rank = true},
                          kRankStep = {.rank = true, .step = true},
                          kGroup = {.group = true, .rank = true, .step = true},
                          kProcess = {.rank = true, .step = true, .micro = true};

constexpr auto kInjections = std::to_array<InjectionInfo>({
    {"shifted_samples", Kind::ShiftedSamples, Needs::Nothing, kRankStep},
    {"same_samples", Kind::SameSamples, Needs::DataRanks, kRankStep},
    {"repeated_micro", Kind::RepeatedMicro, Needs::Micros, kRankStep},
    {"local_tokens", Kind::LocalTokens, Needs::DataRanks, kRankStep},
    {"mean_over_ranks", Kind::MeanOverRanks, Needs::DataRanks, kRankStep},
    {"mean_over_micros", Kind::MeanOverMicros, Needs::Micros, kRankStep},
    {"drop_bucket", Kind::DropBucket, Needs::Ranks, kGroup},
    {"drop_replicas", Kind::DropReplicas, Needs::Replicas, kGroup},
    {"reduce_twice", Kind::ReduceTwice, Needs::Replicas, kGroup},
    {"max_bucket", Kind::MaxBucket, Needs::Replicas, kGroup},
    {"without_cp", Kind::WithoutCp, Needs::Cp, kAll},
    {"scale_shard", Kind::ScaleShard, Needs::Nothing, kGroup},
    {"replaced_bucket", Kind::ReplacedBucket, Needs::Zero23, kGroup},
    {"kept_gradients", Kind::KeptGradients, Needs::Nothing, kAll},
    {"no_reduce_wait", Kind::NoReduceWait, Needs::DataRanks, kGroup},
    {"skip_gather", Kind::SkipGather, Needs::Shard, kGroup},
    {"stale_gather", Kind::StaleGather, Needs::Zero12, kRankStep},
    {"no_await", Kind::NoAwait, Needs::Zero12, kGroup},
    {"rank_init", Kind::RankInit, Needs::Ranks, kRank},
    {"local_init", Kind::LocalInit, Needs::Ranks, kRank},
    {"lost_decay", Kind::LostDecay, Needs::Shard, kAll},
    {"decayed_vectors", Kind::DecayedVectors, Needs::Nothing, kAll},
    {"skipped_update", Kind::SkippedUpdate, Needs::Shard, kRankStep},
    {"lost_moments", Kind::LostMoments, Needs::Shard, kRankStep},
    {"update_twice", Kind::UpdateTwice, Needs::Nothing, kRankStep},
    {"early_rate", Kind::EarlyRate, Needs::Nothing, kRankStep},
    {"late_correction", Kind::LateCorrection, Needs::Nothing, kRankStep},
    {"stale_masters", Kind::StaleMasters, Needs::Masters, kRankStep},
    {"kept_loss_scale", Kind::KeptLossScale, Needs::LossScale, kRankStep},
    {"norm_without_shard", Kind::NormWithoutShard, Needs::Shard, kAll},
    {"norm_without_tp", Kind::NormWithoutTp, Needs::Tp, kAll},
    {"norm_without_pp", Kind::NormWithoutPp, Needs::Pp, kAll},
    {"count_copies", Kind::CountCopies, Needs::Tp, kAll},
    {"count_duplicates", Kind::CountDuplicates, Needs::Pp, kAll},
    {"no_clip", Kind::NoClip, Needs::Clip, kRankStep},
    {"skip_copies", Kind::SkipCopies, Needs::Tp, kRankStep},
    {"sum_copies", Kind::SumCopies, Needs::Tp, kAll},
    {"bias_everywhere", Kind::BiasEverywhere, Needs::Tp, kRank},
    {"drop_row_sum", Kind::DropRowSum, Needs::Tp, kAll},
    {"local_softmax", Kind::LocalSoftmax, Needs::Tp, kAll},
    {"shifted_vocab", Kind::ShiftedVocab, Needs::Tp, kRank},
    {"z_loss_times_tp", Kind::ZLossTimesTp, Needs::Tp, kAll},
    {"local_positions", Kind::LocalPositions, Needs::Cp, kRankStep},
    {"local_targets", Kind::LocalTargets, Needs::Cp, kRankStep},
    {"swapped_halves", Kind::SwappedHalves, Needs::Cp, kRankStep},
    {"lost_key", Kind::LostKey, Needs::KeyRanges, kRankStep},
    {"mixed_documents", Kind::MixedDocuments, Needs::Cp, kRankStep},
    {"stuck_ring", Kind::StuckRing, Needs::Ring, kAll},
    {"skip_merge", Kind::SkipMerge, Needs::Ring, kRank},
    {"lost_ring_gradient", Kind::LostRingGradient, Needs::Ring, kRank},
    {"unreduced_keys", Kind::UnreducedKeys, Needs::GatheredKeys, kAll},
    {"same_mask", Kind::SameMask, Needs::Dropout, kRankStep},
    {"rank_mask", Kind::RankMask, Needs::Dropout, kRankStep},
    {"stale_mask", Kind::StaleMask, Needs::Dropout, kRankStep},
    {"backward_mask", Kind::BackwardMask, Needs::Dropout, kRankStep},
    {"local_numbers", Kind::LocalNumbers, Needs::Dropout, kRankStep},
    {"unreplayed_mask", Kind::UnreplayedMask, Needs::FullRecompute, kRankStep},
    {"same_sequence_mask", Kind::SameSequenceMask, Needs::Dropout, kRankStep},
    {"skip_duplicate", Kind::SkipDuplicate, Needs::Pp, kGroup},
    {"no_receive_wait", Kind::NoReceiveWait, Needs::Pp, kAll},
    {"doubled_message", Kind::DoubledMessage, Needs::Pp, kRank},
    {"lost_weight_gradient", Kind::LostWeightGradient, Needs::Nothing, kRank},
    {"no_redo", Kind::NoRedo, Needs::PostValidation, kAll},
    {"no_restore", Kind::NoRestore, Needs::PostValidation, kAll},
    {"mean_over_edp", Kind::MeanOverEdp, Needs::Edp, kRankStep},
    {"swapped_expert", Kind::SwappedExpert, Needs::Experts, kRank},
    {"lost_token", Kind::LostToken, Needs::Experts, kRank},
    {"drop_expert_sum", Kind::DropExpertSum, Needs::Etp, kAll},
    {"cut_router", Kind::CutRouter, Needs::Experts, kRank},
    {"local_capacity", Kind::LocalCapacity, Needs::SharedCapacity, kAll},
    {"local_load", Kind::LocalLoad, Needs::RouterBias, kRank},
    {"narrow_statistics", Kind::NarrowStatistics, Needs::Nothing, kRank},
    {"wrong_scale", Kind::WrongScale, Needs::Fp8, kRank},
    {"local_amax", Kind::LocalAmax, Needs::DelayedRanks, kRankStep},
    {"overflow", Kind::Overflow, Needs::Nothing, kRankStep},
    {"last_bits", Kind::LastBits, Needs::Nothing, kAll},
    {"stall", Kind::Stall, Needs::Nothing, kProcess},
    {"die", Kind::Die, Needs::Nothing, kProcess},
    {"gpu_error", Kind::GpuError, Needs::Gpu, kProcess},
});

InjectionKind parse_kind(std::string_view name) {
  std::string names;
  for (const InjectionInfo& info : kInjections) {
    if (info.name == name) return info.kind;
    names += concat(names.empty()                          ? ""
                    : info.name == kInjections.back().name ? " or "
                                                           : ", ",
                    info.name);
  }
  SXT_FAIL(Config, "fault.inject: no fault ", name, "; ", names, ", such as drop_bucket:group=1");
}

void set_place(Injection& injection, std::string_view place) {
  const size_t equal = place.find('=');
  const std::string_view name = place.substr(0, equal);
  const std::optional<int64_t> value =
      equal == std::string_view::npos ? std::nullopt : parse_int(place.substr(equal + 1));
  SXT_CHECK(value && *value >= 0 && *value <= 1'000'000'000, Config, "fault.inject: '", place,
            "': takes group=, rank=, step= or micro= with a number");
  if (name == "group")
    injection.group = static_cast<int>(*value);
  else if (name == "rank")
    injection.rank = static_cast<int>(*value);
  else if (name == "step")
    injection.step = *value;
  else if (name == "micro")
    injection.micro = static_cast<int>(*value);
  else
    SXT_FAIL(Config, "fault.inject: '", place,
             "': takes group=, rank=, step= or micro= with a number");
}

}  // namespace

std::span<const InjectionInfo> all_injections() {
  return kInjections;
}

const InjectionInfo& info_of(InjectionKind kind) {
  return *std::ranges::find(kInjections, kind, &InjectionInfo::kind);
}

Injection parse_injection(std::string_view text) {
  Injection injection;
  if (text.empty()) return injection;
  const size_t colon = text.find(':');
  injection.kind = parse_kind(text.substr(0, colon));
  if (colon == std::string_view::npos) return injection;
  for (std::string_view rest = text.substr(colon + 1);;) {
    const size_t comma = rest.find(',');
    set_place(injection, rest.substr(0, comma));
    if (comma == std::string_view::npos) return injection;
    rest = rest.substr(comma + 1);
  }
}

}  // namespace sextant
