#include "train/post_validation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "ops/update.h"
#include "optim/clip.h"
#include "tensor/copy.h"
#include "train/record.h"

namespace sextant {
namespace {

// Tensors that an update writes.
std::vector<Tensor> updated_tensors(ShardedParams& params, const Optimizer& optimizer) {
  std::vector<Tensor> tensors;
  for (const OwnedSlice& slice : params.owned()) {
    tensors.push_back(slice.value);
    if (slice.master) tensors.push_back(slice.master);
  }
  for (const NamedTensor& state : optimizer.state()) tensors.push_back(state.tensor);
  return tensors;
}

}  // namespace

PostValidation::PostValidation(Stream& stream, Mesh& mesh, ShardedParams& params,
                               Optimizer& optimizer, const OptimConfig& optim, int micros)
    : stream_(stream),
      mesh_(mesh),
      params_(params),
      optimizer_(optimizer),
      clip_(optim.clip),
      ranks_(duplicate(mesh.along(Axis::Pp), "validation")),
      sums_(stream.arena().allocate(Category::Workspace, DType::F64, {kLosses + micros})),
      verdict_(stream.arena().allocate(Category::Workspace, DType::F64, {kVerdict})) {
  if (needs_backup(optim)) backup_.emplace(stream, updated_tensors(params, optimizer));
}

void PostValidation::update(const Update& update) {
  SXT_CHECK(!pending_, Internal, "update ", update.step, " while one is pending");
  // These sends completed long ago: the next rank received before it continued, and all ranks
  // received in the step that this update ends, which all of them have finished.
  for (Pending& sent : sending_) sent.wait();
  sending_.clear();
  const std::vector<double> sums = add_to_sums(update);
  const double norm = norm_of(sums[kSquares]);
  pending_ = {update.step, update.lr, std::isfinite(norm) && clip_scale(norm, clip_) == 1};
  const bool is_last = ranks_->rank() == ranks_->size() - 1;
  if (is_last) tell(judge(sums, update.loss_scale));
  if (!pending_->has_stepped) return;
  if (backup_) backup_->save(stream_);
  apply(1);
}

// Adds this rank's terms to the sums of the previous ranks, and sends them on.
std::vector<double> PostValidation::add_to_sums(const Update& update) {
  std::vector<double> sums(static_cast<size_t>(sums_.elements()));
  const int rank = ranks_->rank();
  if (rank > 0) {
    mesh_.world().ledger().activity.set(
        concat("the gradient norm of step ", update.step + 1, ", which waits for the sum of rank ",
               ranks_->world_rank(rank - 1)),
        ranks_->world_rank(rank - 1));
    ranks_->receive(stream_, sums_, rank - 1);
    copy_to_host<double>(stream_, sums, sums_);
    mesh_.world().ledger().activity.set("");
  }
  sums[kSquares] += update.squares;
  if (update.stop) sums[kStop] = 1;
  for (size_t i = 0; i < update.losses.size(); ++i) sums[kLosses + i] += update.losses[i];
  if (rank + 1 < ranks_->size()) {
    copy_from_host<double>(stream_, sums_, sums);
    sending_.push_back(ranks_->send(stream_, sums_, rank + 1, When::Later));
  }
  return sums;
}

std::vector<double> PostValidation::judge(const std::vector<double>& sums, double loss_scale) {
  double loss = std::accumulate(sums.begin() + kLosses, sums.end(), 0.0);
  mesh_.data().control().all_reduce(std::span(&loss, 1), ReduceOp::Sum);
  std::vector<double> verdict(kVerdict);
  verdict[kNorm] = norm_of(sums[kSquares]);
  verdict[kLoss] = loss * loss_scale;
  verdict[kStopped] = sums[kStop];
  return verdict;
}

void PostValidation::tell(const std::vector<double>& verdict) {
  known_ = verdict;
  copy_from_host<double>(stream_, verdict_, known_);
  for (int rank = 0; rank + 1 < ranks_->size(); ++rank)
    sending_.push_back(ranks_->send(stream_, verdict_, rank, When::Later));
}

std::vector<double> PostValidation::take_verdict() {
  const int last = ranks_->size() - 1;
  if (ranks_->rank() == last) return known_;
  mesh_.world().ledger().activity.set(
      concat("the gradient norm of step ", pending_->step + 1, ", which rank ",
             ranks_->world_rank(last), " has not told"),
      ranks_->world_rank(last));
  const SpanTimer timer(&mesh_.world().ledger(), "verdict", "");
  std::vector<double> verdict(kVerdict);
  ranks_->receive(stream_, verdict_, last);
  copy_to_host<double>(stream_, verdict, verdict_);
  mesh_.world().ledger().activity.set("");
  return verdict;
}

PostValidation::Outcome PostValidation::decide() {
  SXT_CHECK(pending_, Internal, "no update to decide");
  const std::vector<double> verdict = take_verdict();
  Outcome outcome{verdict[kLoss], verdict[kNorm], verdict[kStopped] != 0, false};
  check_loss(pending_->step + 1, outcome.loss);
  check_norm(pending_->step + 1, outcome.norm);
  const double scale =
      std::exchange(assumes_clipped_, false) ? 0.5 : clip_scale(outcome.norm, clip_);
  outcome.has_changed = scale != 1;
  // A sum of squares only grows: if the total is within the limit, so was every rank's partial sum.
  SXT_CHECK(outcome.has_changed || pending_->has_stepped, Internal, "step ", pending_->step + 1,
            ": not updated, though its gradient norm ", outcome.norm, " is within ", clip_);
  if (outcome.has_changed) {
    params_.discard_forward();  // nothing reads or writes weights now
    if (pending_->has_stepped && inject.kind != InjectionKind::NoRestore) backup_->restore(stream_);
    apply(scale);
  }
  pending_.reset();
  return outcome;
}

void PostValidation::apply(double gradient_scale) {
  {
    const SpanTimer timer(&mesh_.world().ledger(), "optimizer", "");
    optimizer_.set_scalars(stream_, pending_->step, pending_->lr, gradient_scale);
    apply_unless_bad_data(stream_, optimizer_.scalars());
    optimizer_.step(stream_);
  }
  params_.publish_weights(stream_);
}

}  // namespace sextant
