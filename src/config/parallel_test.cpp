#include <gtest/gtest.h>

#include "config/load.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

ResolvedConfig of(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), {"model.preset=tiny", "batch.micro=1"});
  return parse_config("", "run.toml", overrides);
}

TEST(Parallel, ShardsDivideTheOptimizerUnlessToldOtherwise) {
  EXPECT_EQ(of({}).config.parallel.zero, 0);
  EXPECT_EQ(of({"parallel.dp=4"}).config.parallel.zero, 0);
  const ResolvedConfig shard = of({"parallel.shard=4"});
  EXPECT_EQ(shard.config.parallel.zero, 1);
  EXPECT_EQ(shard.origins.at("parallel.zero"), "derived");
  EXPECT_EQ(of({"parallel.shard=4", "parallel.zero=3"}).config.parallel.zero, 3);
}

TEST(Parallel, AShardThatDividesNothingIsRefusedWithWhatWorks) {
  EXPECT_ERROR(of({"parallel.dp=2", "parallel.shard=4", "parallel.zero=0"}), Config,
               "take zero 1, 2 or 3, or parallel.dp = 8 with shard 1");
  EXPECT_ERROR(of({"parallel.shard=2", "parallel.zero=4"}), Config, "an integer from 0 to 3");
}

TEST(Parallel, AStageWithoutShardsHasNoEffectAndSaysSo) {
  const ResolvedConfig r = of({"parallel.dp=2", "parallel.zero=2"});
  EXPECT_EQ(r.config, of({"parallel.dp=2"}).config);
  bool noted = false;
  for (const std::string& note : r.notes)
    noted = noted || note.find("parallel.zero = 2 (command line) has no effect") == 0;
  EXPECT_TRUE(noted);
}

TEST(Parallel, CountsItsRanks) {
  const ParallelConfig hsdp = of({"parallel.dp=3", "parallel.shard=4"}).config.parallel;
  EXPECT_EQ(world_size(hsdp), 12);
  EXPECT_EQ(data_ranks(hsdp), 12);
  const ParallelConfig wide{.dp = 4, .shard = 1, .zero = 0, .tp = 2, .cp = 1, .pp = 2, .ep = 4};
  EXPECT_EQ(world_size(wide), 16);
  EXPECT_EQ(data_ranks(wide), 4);
}

TEST(Parallel, MoreRanksThanAnyMachineHasAreRefused) {
  EXPECT_ERROR(of({"parallel.dp=4097"}), Config, "an integer from 1 to 4096");
  EXPECT_ERROR(of({"parallel.dp=4096", "parallel.shard=512"}), Config,
               "is 2097152 ranks: at most 1048576");
  EXPECT_ERROR(of({"parallel.dp=4096", "parallel.shard=4", "parallel.pp=128"}), Config,
               "x parallel.pp = 128 is 2097152 ranks");
  EXPECT_ERROR(of({"parallel.pp=129"}), Config, "an integer from 1 to 128");
  EXPECT_EQ(world_size(of({"parallel.dp=4096", "parallel.shard=256"}).config.parallel), 1048576);
}

TEST(Parallel, ChunksThatChangeNothingAreNamed) {
  const auto noted = [](std::vector<std::string> overrides) {
    for (const std::string& note : of(std::move(overrides)).notes)
      if (note.starts_with("parallel.schedule = ")) return note;
    return std::string();
  };
  EXPECT_EQ(
      noted({"parallel.pp=2", "parallel.schedule=interleaved"}),
      "parallel.schedule = interleaved with one stage a rank waits as 1f1b does and holds more: "
      "parallel.chunks = 2 or more makes it what it is for");
  EXPECT_NE(noted({"parallel.pp=2", "parallel.schedule=looped-bfs"}).find("is gpipe"),
            std::string::npos);
  EXPECT_NE(noted({"parallel.pp=2", "parallel.schedule=interleaved-zb"}).find("is zb-h1"),
            std::string::npos);
  EXPECT_EQ(noted({"parallel.pp=2", "parallel.schedule=interleaved", "parallel.chunks=2"}), "");
  EXPECT_EQ(noted({"parallel.pp=2", "parallel.schedule=1f1b"}), "");
}

TEST(Parallel, AScheduleThatDoesNotExistIsRefusedWithoutAPipelineToo) {
  for (const char* pp : {"parallel.pp=1", "parallel.pp=2"}) {
    EXPECT_ERROR(
        of({pp, "parallel.schedule=foo"}), Config,
        "parallel.schedule = \"foo\": takes the name of a schedule or a .csv: gpipe, 1f1b");
    EXPECT_ERROR(of({pp, "parallel.schedule=1f1bb"}), Config, "1f1b");
  }
  EXPECT_EQ(of({"parallel.schedule=own.csv"}).config.parallel.pp, 1);
}

TEST(Parallel, ContextRanksThatFormNoRingOfGroupsAreRefusedForThat) {
  EXPECT_ERROR(of({"model.heads=60", "model.hidden=240", "model.seq=100", "parallel.cp=5",
                   "parallel.cp_kind=ring+ulysses"}),
               Config, "is no ring of 2 or more groups of 2 or more ranks");
}

TEST(Parallel, TheDegreeThatWorksAlsoWorksWithOverlap) {
  EXPECT_ERROR(of({"model.heads=1", "parallel.tp=2", "parallel.tp_overlap=true"}), Config,
               "parallel.tp = 1 without tp_overlap works");
}

TEST(Parallel, FlagsOfMpirunNeedMpi) {
  EXPECT_EQ(of({"run.transport=mpi", "run.mpirun=--map-by core"}).config.run.mpirun,
            "--map-by core");
  EXPECT_EQ(of({"run.mpirun=--map-by core"}).config.run.mpirun, "");
  EXPECT_ERROR(of({"run.transport=nccl"}), Config, "use threads or mpi");
  EXPECT_ERROR(of({"train.reductions=fast"}), Config, "use ordered");
  EXPECT_ERROR(of({"fault.deadline=0"}), Config, "a number from 0.001");
}

}  // namespace
}  // namespace sextant
