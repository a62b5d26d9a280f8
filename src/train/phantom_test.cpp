#include "train/phantom.h"

#include <mutex>

#include "support/counts.h"
#include "support/expect_error.h"
#include "support/layouts.h"
#include "support/needs_gpu.h"
#include "support/random_layout.h"
#include "trace/compare.h"
#include "trace/race.h"
#include "train/run_device.h"

namespace sextant {
namespace {

class PhantomTest : public LayoutTest {
 protected:
  PhantomTest() : LayoutTest({"train.eval_every=1", "train.eval_batches=1", "run.threads=1"}) {}

  // Calls f(rank, trainer) after the phantom's steps, recorded in `traces`.
  template <class F>
  void run_recorded(const Config& config, const Preflight& flight, DeviceKind device,
                    std::vector<Trace>& traces, F&& f) {
    traces.resize(static_cast<size_t>(world_size(config.parallel)));
    const Loader data = Loader::open(
        disk_, config.data, {config.model.seq, config.model.vocab, config.train.seed, 1, {}});
    run_world(config, clock_, nullptr, [&](Communicator& world) {
      TraceRecorder recorder;
      TrainerOptions options;
      options.device = Device{device};
      options.recorder = &recorder;
      Mesh mesh(world, mesh_shape(config.parallel));
      {
        Trainer trainer(config, flight, mesh, data, disk_, clock_, options);
        rehearse(trainer, config);
        f(world.rank(), trainer);
      }
      traces[static_cast<size_t>(world.rank())] = recorder.take();
    });
  }

  // Memory, operations and messages of every rank, on the phantom device and in a real run.
  void expect_same(const Config& config, const std::string& text) {
    const Preflight flight = preflight(config, 0);
    std::vector<Trace> traces;
    run_recorded(config, flight, run_device(config).kind, traces, [&](int rank, Trainer& trainer) {
      const MemoryEstimate& memory = flight.memory[static_cast<size_t>(rank)];
      const std::lock_guard lock(mutex_);
      EXPECT_EQ(trainer.arena().peaks(), memory.categories()) << "rank " << rank << " " << text;
      EXPECT_EQ(trainer.arena().peak(), memory.peak) << "rank " << rank << " " << text;
      EXPECT_EQ(trainer.arena().reserved(), memory.reserved) << "rank " << rank << " " << text;
      const HostArena* host = trainer.offload();
      ASSERT_EQ(host != nullptr, memory.host > 0) << "rank " << rank << " " << text;
      if (host == nullptr) return;
      EXPECT_EQ(host->peak(Category::Optimizer), memory.host_optimizer) << rank << " " << text;
      EXPECT_EQ(host->peak(Category::Activations), memory.host_activations) << rank << " " << text;
      EXPECT_EQ(host->reserved(), memory.host) << "rank " << rank << " " << text;
    });
    for (size_t rank = 0; rank < traces.size(); ++rank) {
      const Trace phantom =
          trace_phantom(config, flight, static_cast<int>(rank), flight.plans[rank]);
      EXPECT_EQ(first_difference(phantom, traces[rank]), "") << "rank " << rank << " " << text;
      const std::vector<Race> races = find_races(phantom, 1);
      EXPECT_TRUE(races.empty()) << "rank " << rank << " " << text << "\n"
                                 << to_string(phantom, races.front());
    }
  }

  void expect_same_of_random(uint64_t first, int count, int ranks,
                             RunDevice device = RunDevice::Cpu) {
    for (uint64_t seed = first; seed < first + static_cast<uint64_t>(count); ++seed) {
      const RandomLayout layout(seed, ranks);
      Config config = layout.config();
      config.run.device = device;
      if (device == RunDevice::Cuda && config.model.family == Family::DeepseekMoe) continue;
      if (device == RunDevice::Cuda && config.parallel.etp > 1) continue;
      if (device == RunDevice::Cuda && has_experts(config.model.family) &&
          config.precision.compute == ComputeType::Fp8)
        continue;  // refused there
      expect_same(config, concat("seed ", seed, ": ", layout.text()));
      if (HasFailure()) return;
    }
  }

  std::mutex mutex_;
};

TEST_F(PhantomTest, OneRankDoesWhatThePhantomDid) {
  for (const Settings& family : {kGpt, kGrouped, kNormed}) expect_same(config_of(family), "");
}

// Sizes that move the peak: to the head, a wide MLP, long rows, attention with many heads.
TEST_F(PhantomTest, SizesThatMoveThePeakDoWhatThePhantomDid) {
  const auto sizes = [](int layers, int ffn, int vocab, int micro, int seq) {
    return Settings{concat("model.layers=", layers),
                    concat("model.ffn=", ffn),
                    concat("model.vocab=", vocab),
                    concat("batch.micro=", micro),
                    concat("model.seq=", seq),
                    "model.hidden=8",
                    "model.heads=4",
                    "batch.accumulation=1",
                    "train.eval_batches=1"};
  };
  const Settings dropout = {"model.dropout=0.1"};
  for (const Settings& family :
       {Settings{"model.family=gpt2"}, Settings{"model.family=llama", "model.kv_heads=2"},
        Settings{"model.family=qwen3", "model.kv_heads=2"}})
    for (const char* logits : {"memory.logits=keep", "memory.logits=chunked"})
      for (const Settings& one :
           {sizes(2, 12, 256, 3, 6), sizes(1, 12, 9000, 1, 6), sizes(3, 500, 256, 2, 6),
            sizes(5, 16, 256, 1, 64),
            sizes(1, 4, 256, 2, 6) + Settings{"model.hidden=128", "model.heads=64"},
            sizes(2, 12, 256, 3, 6) + dropout, sizes(1, 4, 256, 9, 6) + dropout,
            sizes(3, 500, 256, 2, 6) + dropout}) {
        const Settings all = family + one + Settings{logits, "model.tied=false"};
        expect_same(config_of(all), join(all, " "));
      }
}

TEST_F(PhantomTest, RandomLayoutsDoWhatThePhantomDid) {
  expect_same_of_random(0, 60, 8);
}

TEST_F(PhantomTest, SlowRandomLayoutsDoWhatThePhantomDid) {
  expect_same_of_random(1000, random_cases(60, 240, 2940), 16);
}

// Enough micro-batches that the pre-flight leaves out some of the steady state, while the run and
// the trace have them all.
TEST_F(PhantomTest, ManyMicroBatchesDoWhatThePhantomDid) {
  int left_out = 0;
  for (uint64_t seed = 3000; seed < 3000 + static_cast<uint64_t>(random_cases(30, 300)); ++seed) {
    const RandomLayout layout(seed, 8);
    Config config = layout.config();
    config.batch.accumulation = 24 + static_cast<int>(seed % 3) * 8;
    config.batch.global =
        config.batch.micro * config.batch.accumulation * data_ranks(config.parallel);
    try {
      const Preflight flight = preflight(config, 0);
      if ((*flight.plans[0])[Program::Step].cycle.left_out > 0) ++left_out;
    } catch (const Error& error) {  // not every number of micro-batches fits every schedule
      EXPECT_EQ(error.fault(), Fault::Config) << error.what();
      continue;
    }
    expect_same(config, concat("seed ", seed, ": ", layout.text()));
    if (HasFailure()) return;
  }
  EXPECT_GT(left_out, 10);
}

TEST_F(PhantomTest, OnCudaRandomLayoutsDoWhatThePhantomDid) {
  SXT_NEEDS_GPU();
  for (const Settings& family : {kGpt, kGrouped, kNormed})
    expect_same(config_of(family + Settings{"run.device=cuda"}), "");
  expect_same_of_random(0, 30, 8, RunDevice::Cuda);
}

TEST_F(PhantomTest, ALimitIsKeptToTheByte) {
  const Settings layout = kGrouped + shared_by(2) + Settings{"parallel.shard=2", "parallel.zero=3"};
  const int64_t needed = preflight(config_of(layout), 0).memory[0].reserved;
  const auto with = [&](int64_t limit) {
    return config_of(layout + Settings{"run.memory_limit=" + std::to_string(limit)});
  };
  on_ranks(with(needed), [&](Trainer& trainer, const MemoryEstimate&) {
    trainer.train_step();
    EXPECT_EQ(trainer.arena().region().bytes(), needed);
  });
  EXPECT_ERROR(preflight(with(needed - 1), 0), Memory, "needs");
}

// Removes the waits of compute for what a lane did; returns how many these were.
int remove_waits(Trace& trace, int lane) {
  int removed = 0;
  for (TraceOp& op : trace.ops) {
    if (op.lane != Trace::kCompute) continue;
    for (uint32_t i = op.waits; i < op.waits_end; ++i)
      if (trace.ops[trace.wait_list[i]].lane == lane) {
        trace.wait_list[i] = trace.wait_list[--op.waits_end];
        ++removed;
        --i;
      }
  }
  return removed;
}

// Whether the operations share bytes that one of them writes.
bool conflict(const Trace& trace, const TraceOp& one, const TraceOp& other) {
  for (const TraceOperand& a : trace.operands_of(one))
    for (const TraceOperand& b : trace.operands_of(other))
      if (a.begin < b.end && b.begin < a.end && (a.is_written || b.is_written)) return true;
  return false;
}

// Whether all that comes later and touches the bytes of operation `op` is ordered behind it.
bool is_ordered_before_its_bytes_are_used(const Trace& trace, uint32_t op) {
  for (uint32_t later = op + 1; later < trace.ops.size(); ++later)
    if (conflict(trace, trace.ops[op], trace.ops[later]) && !is_ordered(trace, op, later))
      return false;
  return true;
}

class RemovedWait : public PhantomTest {
 protected:
  std::vector<Settings> layouts() const;
};

std::vector<Settings> RemovedWait::layouts() const {
  const Settings experts = {"model.family=deepseek-moe",
                            "model.head_dim=6",
                            "model.qk_rope_head_dim=2",
                            "model.kv_lora_rank=8",
                            "model.experts=4",
                            "model.shared_experts=1",
                            "parallel.dp=2",
                            "parallel.ep=2"};
  return {kGrouped + Settings{"parallel.shard=2", "parallel.zero=3", "parallel.dp=2"},
          kGrouped + Settings{"parallel.shard=2", "parallel.zero=1"},
          kGrouped + Settings{"parallel.pp=2", "parallel.schedule=zb-v", "model.layers=4"},
          kGrouped + Settings{"parallel.pp=2", "parallel.schedule=dualpipe", "model.layers=4",
                              "batch.accumulation=4"},
          kGrouped + shared_by(2) + Settings{"parallel.tp_overlap=true"},
          kGrouped + context(2, "ring"),
          experts,
          experts + Settings{"parallel.dp=4", "parallel.etp=2"}};
}

TEST_F(RemovedWait, OfAWholeGroupIsARace) {
  for (const Settings& layout : layouts()) {
    SCOPED_TRACE(join(layout, " "));
    const Config config = config_of(layout);
    const Preflight flight = preflight(config, 0);
    const Trace trace = trace_phantom(config, flight, 0, flight.plans[0]);
    ASSERT_TRUE(find_races(trace).empty());
    // Of each process group in turn.
    int removed = 0;
    for (int lane = 1; lane < static_cast<int>(trace.lanes.size()); ++lane) {
      Trace hasty = trace;
      const int waits = remove_waits(hasty, lane);
      removed += waits;
      if (waits == 0) continue;
      EXPECT_FALSE(find_races(hasty, 1).empty()) << trace.lanes[static_cast<size_t>(lane)].name;
    }
    EXPECT_GT(removed, 3);
  }
}

// Each wait of the compute lane alone. It may be left out only where other waits order all later
// uses of the awaited operation's bytes.
TEST_F(RemovedWait, IsARaceUnlessOtherWaitsImplyIt) {
  for (const Settings& layout : layouts()) {
    SCOPED_TRACE(join(layout, " "));
    const Config config = config_of(layout);
    const Preflight flight = preflight(config, 0);
    const Trace trace = trace_phantom(config, flight, 0, flight.plans[0]);
    int races = 0;
    for (uint32_t op = 0; op < trace.ops.size(); ++op) {
      if (trace.ops[op].lane != Trace::kCompute) continue;
      for (uint32_t i = trace.ops[op].waits; i < trace.ops[op].waits_end; ++i) {
        Trace hasty = trace;
        const uint32_t awaited = hasty.wait_list[i];
        std::swap(hasty.wait_list[i], hasty.wait_list[--hasty.ops[op].waits_end]);
        if (!find_races(hasty, 1).empty()) {
          ++races;
          continue;
        }
        EXPECT_TRUE(is_ordered_before_its_bytes_are_used(hasty, awaited))
            << to_string(trace, trace.ops[op]) << " waits for "
            << to_string(trace, trace.ops[awaited]);
      }
    }
    EXPECT_GT(races, 3);
  }
}

TEST_F(PhantomTest, TrainsOverEveryAxisWhereMemoryIsGuarded) {
  for (const Settings& layout :
       {Settings{"parallel.dp=2"}, Settings{"parallel.shard=2", "parallel.zero=3"}, shared_by(2),
        shared_by(2) + Settings{"parallel.tp_overlap=true"}, context(2, "ring"),
        context(2, "ulysses"), context(2, "allgather"),
        Settings{"parallel.pp=2", "parallel.schedule=zb-v", "model.layers=4"},
        Settings{"model.family=mixtral", "model.experts=4", "parallel.dp=4", "parallel.ep=2"},
        Settings{"model.family=mixtral", "model.experts=4", "parallel.dp=4", "parallel.ep=2",
                 "parallel.etp=2"},
        shared_by(2) + context(2, "ring") +
            Settings{"parallel.pp=2", "parallel.shard=2", "parallel.zero=2"}}) {
    const Config config = config_of(kGrouped + layout);
    const Preflight flight = preflight(config, 0);
    std::array<double, 2> losses{};
    for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Guarded}) {
      std::vector<Trace> traces;
      run_recorded(config, flight, device, traces, [&](int rank, Trainer& trainer) {
        const double loss = trainer.train_step().loss;
        if (rank == 0) losses[device == DeviceKind::Cpu ? 0 : 1] = loss;
      });
    }
    EXPECT_EQ(losses[0], losses[1]) << join(layout, " ");
    EXPECT_GT(losses[0], 0);
  }
}

}  // namespace
}  // namespace sextant
