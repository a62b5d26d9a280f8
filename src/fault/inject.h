#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sextant {

// An injected fault, to test that it is detected. Most are bugs that parallel training programs
// have had; scripts/mutants.py runs `verify` on each of them.
enum class InjectionKind : uint8_t {
  None,
  // Samples
  ShiftedSamples,  // a rank's data cursor is off by one sample
  SameSamples,     // a rank reads the samples of the first data parallel rank
  RepeatedMicro,   // a rank reads its first micro-batch for all of them
  // Gradients of data parallel ranks
  LocalTokens,     // the loss is divided by the rank's own number of tokens
  MeanOverRanks,   // gradients are divided by the number of data parallel ranks again
  MeanOverMicros,  // gradients are divided by the number of micro-batches again
  DropBucket,      // the gradients of a bucket are not reduced
  DropReplicas,    // reduced shards are not summed over the replicas
  ReduceTwice,     // they are summed over them twice
  MaxBucket,       // the maximum over the replicas, in place of the sum
  WithoutCp,       // replicas are summed over dp without cp
  ScaleShard,      // a rank's reduced gradients are doubled
  ReplacedBucket,  // ZeRO-2, 3: each micro-batch replaces the gradient of those before it
  KeptGradients,   // gradients of the last step are not reset
  NoReduceWait,    // the update does not wait for the reductions
  // Weights of data parallel ranks
  SkipGather,   // the weights of a group are not gathered
  StaleGather,  // weights are gathered before the update
  NoAwait,      // ZeRO-1, 2: layers do not wait for the all-gather of updated weights
  RankInit,     // initial weights are drawn from a random seed of the rank
  LocalInit,    // initial weights are drawn by element of the shard, not of the parameter
  // Optimizer
  LostDecay,       // no weight decay of slices that begin inside a tensor
  DecayedVectors,  // weight decay of norms and biases too
  SkippedUpdate,   // slices that begin inside a tensor keep their weights
  LostMoments,     // moments of slices that begin inside a tensor are not kept
  UpdateTwice,     // a rank's optimizer makes two updates
  EarlyRate,       // the learning rate of the next step
  LateCorrection,  // the bias correction of the next step
  StaleMasters,    // a rank rounds its weights from masters that it does not update
  KeptLossScale,   // a rank does not divide its gradients by the loss scale
  // Gradient norm and clipping
  NormWithoutShard,  // not summed over the axis
  NormWithoutTp,
  NormWithoutPp,
  CountCopies,      // every replica of elements that tensor parallel ranks share counts in it
  CountDuplicates,  // both pipeline ranks that hold a group count it
  NoClip,           // a rank does not clip
  // Tensor parallel
  SkipCopies,      // partial gradients of elements replicated over ranks are not summed
  SumCopies,       // gradients of such elements that are whole are summed too
  BiasEverywhere,  // the bias of a row parallel layer is added on every rank
  DropRowSum,      // partial outputs of row parallel layers are not summed
  LocalSoftmax,    // the softmax of the loss is over a rank's part of the vocabulary
  ShiftedVocab,    // a rank's part of the output vocabulary begins one id too late
  ZLossTimesTp,    // the z-loss counts on every rank
  // Context parallel
  LocalPositions,    // positions count from the rank's first token
  LocalTargets,      // the target of the last token of a chunk is the rank's next token
  SwappedHalves,     // the rank's two chunks of tokens are swapped, their attention ranges are not
  LostKey,           // a query does not see the last of its keys
  MixedDocuments,    // a query sees keys of earlier documents
  StuckRing,         // keys and values do not move around the ring
  SkipMerge,         // the attention to the last keys of the ring is left out
  LostRingGradient,  // partial gradients of keys that go around the ring are not added
  UnreducedKeys,     // gradients of gathered keys are not summed over the ranks
  // Dropout
  SameMask,          // one mask is used at all places of the model
  RankMask,          // the mask depends on the rank
  StaleMask,         // every step uses the mask of the first
  BackwardMask,      // backward draws another mask than forward
  LocalNumbers,      // tokens are numbered from the rank's first sample
  UnreplayedMask,    // recomputation draws another mask than forward
  SameSequenceMask,  // sequence parallel ranks use the mask of the first one's tokens
  // Pipeline parallel
  SkipDuplicate,       // gradients of a group that two pipeline ranks hold are not summed
  NoReceiveWait,       // a stage does not wait for its input
  DoubledMessage,      // the gradient from the next stage counts twice
  LostWeightGradient,  // the weight gradients of the first micro-batch are left out
  NoRedo,              // forwards with weights that were rolled back are not redone
  NoRestore,           // a speculative update is not rolled back before the right one
  // Experts
  MeanOverEdp,    // gradients of experts are the mean over their replicas, not the sum
  SwappedExpert,  // tokens of two experts are swapped
  LostToken,      // the output of an expert for one token does not come back
  DropExpertSum,  // outputs of the parts of an expert are not summed
  CutRouter,      // the router gets no gradient
  LocalCapacity,  // a rank counts its own tokens only against the capacity of experts
  LocalLoad,      // the bias of a router is updated from the load of one rank's tokens
  // Precision
  NarrowStatistics,  // statistics of norms and log-sum-exps are rounded to bf16
  WrongScale,        // fp8: a weight is multiplied with the scale of the other operand
  LocalAmax,         // fp8: a rank keeps the largest values that it found itself
  Overflow,          // the gradients of a rank that computes the loss are not finite, as in fp16
  // Not a bug: attention outputs with other last bits, for the runs of `verify` that measure
  // rounding
  LastBits,
  // Processes
  Stall,    // a rank stops taking part
  Die,      // a rank's process ends at once, as by kill -9
  GpuError  // a call of CUDA fails on a rank
};

// What a fault needs, without which it could never strike.
enum class InjectionNeeds : uint8_t {
  Nothing,
  Gpu,
  Ranks,
  DataRanks,
  Micros,
  Shard,
  Zero12,  // shard with ZeRO-1 or 2
  Zero23,
  Replicas,  // dp or cp
  Tp,
  Cp,
  KeyRanges,     // cp, not Ulysses alone: attention over ranges of keys
  Ring,          // cp, ring or ring+ulysses
  GatheredKeys,  // cp, allgather
  Pp,
  Experts,
  Edp,  // expert or expert tensor parallel, with replicas
  Etp,
  RouterBias,
  SharedCapacity,
  Clip,
  Masters,    // fp32 weights beside narrow ones
  LossScale,  // fp16
  Fp8,
  DelayedRanks,  // fp8 with delayed scaling, more than one rank in a pipeline stage
  Dropout,
  FullRecompute,  // with dropout
  PostValidation,
};

// Where a fault can be placed.
struct InjectionPlaces {
  bool group = false, rank = false, step = false, micro = false;
};

struct InjectionInfo {
  std::string_view name;
  InjectionKind kind;
  InjectionNeeds needs;
  InjectionPlaces places;
};
std::span<const InjectionInfo> all_injections();
const InjectionInfo& info_of(InjectionKind kind);  // not of None

struct Injection {
  InjectionKind kind = InjectionKind::None;
  // Where it strikes; -1 means anywhere.
  int group = -1;
  int rank = -1;
  int64_t step = -1;  // counted from 1
  int micro = -1;     // failures of a rank: before its first action of it; -1: before the step

  bool hits(InjectionKind what, int in_group, int on_rank, int64_t at_step) const {
    return what == kind && kind != InjectionKind::None && (group < 0 || group == in_group) &&
           (rank < 0 || rank == on_rank) && (step < 0 || step == at_step);
  }
  // A failure of a rank; the others are bugs in what it computes.
  bool ends_rank() const {
    return kind == InjectionKind::Stall || kind == InjectionKind::Die ||
           kind == InjectionKind::GpuError;
  }
  bool hits(InjectionKind what, int on_rank) const { return hits(what, -1, on_rank, -1); }
};

// Reads "drop_bucket:group=2,step=1"; "" is none. Throws Error(Config) that names the bad part and
// what would be right.
Injection parse_injection(std::string_view text);

}  // namespace sextant
