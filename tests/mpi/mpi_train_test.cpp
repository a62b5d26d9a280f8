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

}  // namespace
}  // namespace sextant
