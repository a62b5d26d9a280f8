#pragma once
#include <gtest/gtest.h>

#include <atomic>

#include "support/temp_dir.h"
#include "train/run.h"
#include "train/trainer.h"
#include "train/world.h"

namespace sextant {

// Runs, and ranks one step at a time, in a directory of their own.
class TrainingTest : public testing::Test {
 protected:
  // f(trainer, what was predicted for it) on every rank.
  template <class F>
  void on_ranks(const Config& config, F&& f) {
    const Preflight flight = preflight(config, 0);
    const Loader data = Loader::open(
        disk_, config.data, {config.model.seq, config.model.vocab, config.train.seed, 1, {}});
    run_world(config, clock_, nullptr, [&](Communicator& world) {
      Mesh mesh(world, mesh_shape(config.parallel));
      Trainer trainer(config, flight, mesh, data, disk_, clock_);
      f(trainer, flight.memory[static_cast<size_t>(world.rank())]);
    });
  }
  RunResult run(const ResolvedConfig& resolved, const RunOptions& options = {}) {
    return run_training(resolved, options, {disk_, clock_, log_, stop_});
  }

  TempDir dir_;
  DiskStorage disk_;
  SystemClock clock_;
  Log log_{LogLevel::Quiet, Color::Never};
  std::atomic<bool> stop_{false};
};

}  // namespace sextant
