#include "bench/context.h"

#include <cmath>
#include <memory>
#include <span>

#include "base/error.h"
#include "bench/context_messages.h"
#include "bench/tiled_attention.h"
#include "bench/together.h"
#include "comm/run_ranks.h"
#include "data/sequence_part.h"
#include "executor/micro_batch.h"
#include "model/attention_core.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

constexpr double kRounding = 1e-5;  // relative, of f32 sums in another order

int64_t bytes_of_whole(const Heads& heads) {
  return size_of(DType::F32) * heads.tokens() * (heads.qkv_width() + heads.out_width());
}

void keep_best(AttentionSeconds& best, const AttentionSeconds& one) {
  if (best.total() == 0 || one.total() < best.total()) best = one;
}

// One rank with whole sequences and one thread. Memory is touched before timing.
struct Alone : TiledAttention {
  explicit Alone(const Heads& h) : TiledAttention(h, 1) {
    for (Tensor* tensor : {&dqkv, &out, &lse}) fill_zero(stream, *tensor);
  }

  AttentionSeconds run(const Clock& clock) {
    const double begin = clock.now();
    forward();
    const double middle = clock.now();
    backward();
    return {middle - begin, clock.now() - middle};
  }
  // The same, while other ranks run theirs.
  AttentionSeconds run(Together& together, int rank) {
    const double seconds = together.time(rank, [&] { forward(); });
    return {seconds, together.time(rank, [&] { backward(); })};
  }
};

// One rank's side of one layout.
class RankSide {
 public:
  RankSide(Stream& stream, Communicator& world, const ParallelConfig& layout, const Alone& alone)
      : stream_(stream),
        part_(context_part(layout, world.rank())),
        heads_(alone.heads),
        ranks_(world, part_, alone.heads.seq),
        core_(ranks_, DType::F32) {
    heads_.seq /= part_.degree;
    messages_ = std::make_unique<ContextMessages>(stream, world, ranks_, heads_);
    int64_t before = 0;
    for (const Range& run : tokens_of(part_, alone.heads.seq)) {
      chunks_.push_back({before, run.begin, run.size()});
      before += run.size();
    }
    qkv_ = rows_of(alone.qkv);
    dout_ = rows_of(alone.dout);
    load_ranges(alone.heads);
  }

  AttentionSeconds time_messages(Together& together) {
    const double forward = together.time(part_.rank, [&] { messages_->forward(stream_); });
    return {forward, together.time(part_.rank, [&] { messages_->backward(stream_); })};
  }
  AttentionSeconds time_core(Together& together) {
    const double seconds = together.time(part_.rank, [&] { forward(); });
    return {seconds, together.time(part_.rank, [&] { backward(); })};
  }

  // Relative difference of output and gradient from one rank's; NaN if there is any.
  double difference(const Alone& alone) {
    forward();
    const double of_out = relative_difference(attended_, rows_of(alone.out));
    backward();
    return of_out + relative_difference(dqkv_, rows_of(alone.dqkv));
  }

  // Traffic of the messages alone.
  Traffic count_messages(Ledger& ledger) {
    ledger.reset();
    messages_->forward(stream_);
    messages_->backward(stream_);
    return ledger.traffic.total();
  }

  int64_t pairs() const {
    int64_t pairs = 0;
    for (const int64_t step : causal_pairs(part_, heads_.seq * part_.degree)) pairs += step;
    return pairs * heads_.batch * heads_.heads / part_.ulysses;
  }

 private:
  // This rank's tokens of a tensor of whole sequences.
  Tensor rows_of(const Tensor& whole) {
    Tensor own = stream_.arena().allocate(Category::Activations, DType::F32,
                                          {heads_.tokens(), whole.dim(1)});
    scatter_chunks(stream_, own, whole, heads_.batch, TokenChunks(chunks_));
    return own;
  }

  void load_ranges(const Heads& whole) {
    HostBatch host;
    host.batch = whole.batch;
    host.seq = whole.seq;
    for (const auto field :
         {&HostBatch::tokens, &HostBatch::targets, &HostBatch::starts, &HostBatch::positions})
      (host.*field).resize(static_cast<size_t>(whole.tokens()), 0);
    HostBatch own;
    SequencePart(part_, whole.seq, 0).take(own, host);
    micro_ = std::make_unique<MicroBatch>(stream_, whole.batch, heads_.seq, part_);
    micro_->load(stream_, own);
  }

  // Frees the previous pass first, so that each uses the same memory.
  void forward() {
    attended_ = dqkv_ = Tensor();
    saved_qkv_ = qkv_;
    attended_ =
        core_.forward(stream_, micro_->micro(), heads_, {saved_qkv_, saved_lse_, saved_out_});
  }
  void backward() {
    attended_ = Tensor();
    dqkv_ = core_.backward(stream_, micro_->micro(), heads_, dout_,
                           {saved_qkv_, saved_lse_, saved_out_});
  }

  double relative_difference(const Tensor& found, const Tensor& wanted) {
    std::vector<float> a(static_cast<size_t>(found.elements())), b(a.size());
    copy_to_host<float>(stream_, a, found);
    copy_to_host<float>(stream_, b, wanted);
    double squares = 0, of_difference = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const double x = a[i], y = b[i];
      squares += y * y;
      of_difference += (x - y) * (x - y);
    }
    return std::sqrt(of_difference / squares);
  }

  Stream& stream_;
  ContextPart part_;
  Heads heads_;  // of this rank's tokens
  ContextRanks ranks_;
  AttentionCore core_;
  std::unique_ptr<ContextMessages> messages_;
  std::vector<TokenChunk> chunks_;  // positions of this rank's tokens in a sequence
  std::unique_ptr<MicroBatch> micro_;
  Tensor qkv_, dout_, attended_, dqkv_;
  Tensor saved_qkv_, saved_lse_, saved_out_;
};

// A rank with its memory, for all layouts.
struct Rank {
  Rank(Communicator& world, const std::vector<ParallelConfig>& layouts, const Alone& alone)
      // Reserves address space for all layouts and whole keys; only used pages take memory.
      : arena(Device{}, 16 * bytes_of_whole(alone.heads) + Stream::scratch_bytes(1)),
        stream(arena, 1),
        whole(alone.heads) {
    for (const ParallelConfig& layout : layouts)
      sides.push_back(std::make_unique<RankSide>(stream, world, layout, alone));
  }
  Arena arena;
  Stream stream;
  Alone whole;
  std::vector<std::unique_ptr<RankSide>> sides;
};

// Checks every rank's output, traffic and work before timing. Also touches all memory once.
void examine(ContextRow& row, RankSide& side, Communicator& world, const Alone& alone) {
  world.ledger().reset();
  double difference[] = {side.difference(alone)};
  const Traffic sent = world.ledger().traffic.total(),
                messages = side.count_messages(world.ledger());
  world.control().all_reduce(std::span<double>(difference), ReduceOp::Max);
  SXT_CHECK(difference[0] <= kRounding, Failure, "bench context: results of ",
            name_of(row.layout.cp_kind), " differ from those of one rank by ", difference[0],
            ", rounding is at most ", kRounding);
  SXT_CHECK(messages.calls == sent.calls && messages.bytes == sent.bytes, Failure,
            "bench context: the messages of ", name_of(row.layout.cp_kind), " alone are ",
            messages.calls, " calls of ", messages.bytes, " bytes, in attention ", sent.calls,
            " of ", sent.bytes);
  int64_t most[] = {sent.bytes, side.pairs()}, least[] = {side.pairs()};
  world.control().all_reduce(std::span<int64_t>(most), ReduceOp::Max);
  world.control().all_reduce(std::span<int64_t>(least), ReduceOp::Min);
  if (world.rank() != 0) return;
  row.difference = difference[0];
  row.sent_bytes = most[0];
  row.most_pairs = most[1];
  row.least_pairs = least[0];
}

}  // namespace

std::vector<ContextRow> bench_context(const ContextOptions& options, const Clock& clock, Log& log) {
  SXT_CHECK(options.rounds > 0 && !options.layouts.empty(), Usage,
            "bench context: ", options.rounds, " rounds of ", options.layouts.size(),
            " kinds, both must be at least 1");
  const int ranks = options.layouts.front().cp;
  std::vector<ContextRow> rows;
  for (const ParallelConfig& layout : options.layouts) {
    SXT_CHECK(layout.cp == ranks && ranks > 1, Usage, "bench context: ", name_of(layout.cp_kind),
              " over ", layout.cp, " ranks, must be as many as of the others, and 2 or more");
    ContextRow& row = rows.emplace_back();
    row.layout = layout;
    row.heads = options.heads;
  }
  Alone alone(options.heads);
  Together together(ranks, clock, options.timeout_s);
  ThreadWorld world(ranks, clock, {.timeout_s = options.timeout_s});
  std::vector<std::unique_ptr<Rank>> all(static_cast<size_t>(ranks));
  for (int round = 0; round < options.rounds; ++round) {
    log.progress(concat("round ", round + 1, " of ", options.rounds, ": one rank alone"));
    const AttentionSeconds seconds = alone.run(clock);
    log.progress(concat("round ", round + 1, " of ", options.rounds, ": ", ranks, " ranks"));
    world.run([&](Communicator& own) {
      std::unique_ptr<Rank>& rank = all[static_cast<size_t>(own.rank())];
      const bool is_new = !rank;
      if (is_new) rank = std::make_unique<Rank>(own, options.layouts, alone);
      const AttentionSeconds busy = rank->whole.run(together, own.rank());
      for (size_t i = 0; i < rows.size(); ++i) {
        if (is_new) examine(rows[i], *rank->sides[i], own, alone);
        const AttentionSeconds messages = rank->sides[i]->time_messages(together);
        const AttentionSeconds shared = rank->sides[i]->time_core(together);
        if (own.rank() != 0) continue;
        keep_best(rows[i].messages, messages);
        keep_best(rows[i].shared, shared);
        keep_best(rows[i].alone, seconds);
        keep_best(rows[i].busy, busy);
      }
    });
  }
  return rows;
}

}  // namespace sextant
