// Training over processes has the losses of training over threads.
#include "support/cli.h"

namespace sextant {
namespace {

class MpiTrain : public CliTest {
 protected:
  void expect_those_of_threads(const Arguments& layout) {
    const Arguments common = Arguments{"train", "-q"} + tiny("threads", 3) +
                             Arguments{"--model.layers=4", "--batch.global=8", "--batch.micro=1",
                                       "--train.eval_every=3"} +
                             layout;
    const Ran threads = run(common);
    EXPECT_EQ(threads.code, 0) << threads.err;
    const Ran processes = run(common + Arguments{"--run.transport=mpi", "--run.out=processes"});
    EXPECT_EQ(processes.code, 0) << processes.err;
    EXPECT_EQ(results("threads").size(), 3u);
    EXPECT_EQ(results("processes"), results("threads")) << join(layout, " ");
    EXPECT_EQ(evaluation("processes"), evaluation("threads")) << join(layout, " ");
  }
  nlohmann::json evaluation(const std::string& out) const {
    const std::vector<std::string> all = lines(out + "/metrics.jsonl");
    return all.empty() ? nlohmann::json() : nlohmann::json::parse(all.back())["eval_loss"];
  }
};

TEST_F(MpiTrain, PipelinesHaveTheLossesOfThreads) {
  expect_those_of_threads({"--parallel.pp=2"});
  expect_those_of_threads({"--parallel.pp=2", "--parallel.schedule=zb-v"});
  expect_those_of_threads({"--parallel.pp=2", "--parallel.schedule=dualpipe"});
}

TEST_F(MpiTrain, PipelinesOfShardsHaveTheLossesOfThreads) {
  expect_those_of_threads({"--parallel.pp=2", "--parallel.shard=2", "--parallel.zero=3"});
}

TEST_F(MpiTrain, SharedSequencesHaveTheLossesOfThreads) {
  expect_those_of_threads({"--parallel.cp=4"});
  expect_those_of_threads({"--parallel.cp=2", "--parallel.cp_kind=ulysses", "--parallel.dp=2"});
  expect_those_of_threads({"--parallel.cp=2", "--parallel.cp_kind=allgather", "--parallel.tp=2"});
}

TEST_F(MpiTrain, SharedLayersThatOverlapAndDropHaveTheLossesOfThreads) {
  expect_those_of_threads({"--parallel.tp=2", "--parallel.tp_overlap=true", "--model.dropout=0.1"});
}

// Ranks that outlive their launcher do not save any more once the next run has the directory.
TEST_F(MpiTrain, AKilledLauncherCanBeFollowedByAResumeAtOnce) {
  const auto train = [](const std::string& out, const std::string& transport) {
    return Arguments{"train"} + tiny(out, 60) +
           Arguments{"--parallel.dp=2", "--batch.micro=1", "--checkpoint.every=1",
                     "--run.transport=" + transport};
  };
  ASSERT_EQ(run(train("whole", "threads") + Arguments{"-q"}).code, 0);
  Running running(command(train("broken", "mpi")), settings());
  ASSERT_TRUE(running.read_until("step  7/60"));
  running.kill(SIGKILL);
  const Ran rest = run(train("broken", "mpi") + Arguments{"-q", "--resume"});
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(results("broken"), results("whole"));
}

TEST_F(MpiTrain, ExpertsHaveTheLossesOfThreads) {
  const Arguments experts = {"--model.family=mixtral",  "--model.kv_heads=2",
                             "--model.experts=8",       "--model.experts_per_token=2",
                             "--model.expert_ffn=12",   "--model.layers=2",
                             "--train.balance_loss=0.1"};
  for (const Arguments& layout :
       {Arguments{"--parallel.dp=4", "--parallel.ep=4"},
        Arguments{"--parallel.dp=4", "--parallel.ep=2", "--parallel.etp=2"},
        Arguments{"--parallel.dp=4", "--parallel.ep=4", "--parallel.ep_node=2"}})
    expect_those_of_threads(experts + layout);
}

// Three ranks, the middle one of which stops before its first action of micro-batch 2.
class MpiPipelineFailure : public MpiTrain {
 protected:
  Ran fail(const std::string& transport, const std::string& kind, const Arguments& more) {
    return run(Arguments{"train", "-q"} + tiny("out", 3) +
               Arguments{"--parallel.pp=3", "--model.layers=3", "--batch.global=6",
                         "--batch.micro=1", "--run.transport=" + transport,
                         "--fault.inject=" + kind + ":rank=1,step=2,micro=2"} +
               more);
  }
  // One of the ranks beside it tells what it waits for; what they heard of each other is not told.
  static void expect_report(const Ran& ran) {
    EXPECT_EQ(ran.code, 5) << ran.err;
    const bool above = has(ran,
                           "rank 0 is at B of stage 0, micro 1, which waits for B of stage 1, "
                           "micro 1 of rank 1"),
               below = has(ran,
                           "rank 2 is at F of stage 2, micro 2, which waits for F of stage 1, "
                           "micro 2 of rank 1");
    EXPECT_TRUE(above || below) << ran.err;
    EXPECT_FALSE(has(ran, "as fault.inject asked")) << ran.err;
  }
  static bool has(const Ran& ran, const std::string& text) {
    return ran.err.find(text) != std::string::npos;
  }
};

TEST_F(MpiPipelineFailure, OfARankThatStallsNamesTheActionThatNeverCame) {
  for (const char* transport : {"threads", "mpi"}) {
    const Ran ran = fail(transport, "stall", {"--fault.deadline=1"});
    expect_report(ran);
    EXPECT_TRUE(has(ran, "rank 1 did not call receive of ")) << ran.err;
    EXPECT_TRUE(has(ran, std::string(transport) == "mpi"
                             ? "; rank 1 does not answer"
                             : "; rank 1 is at F of stage 1, micro 2, last: "))
        << ran.err;
  }
}

// Long before the deadline: mpirun notices.
TEST_F(MpiPipelineFailure, OfARankThatDiesNamesTheActionThatNeverCame) {
  const Ran ran = fail("mpi", "die", {"--fault.deadline=250"});
  expect_report(ran);
  EXPECT_TRUE(has(ran, "error: rank 1 on ")) << ran.err;
  EXPECT_TRUE(has(ran, " was killed by signal 9")) << ran.err;
}

}  // namespace
}  // namespace sextant
