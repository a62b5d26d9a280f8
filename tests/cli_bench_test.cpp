// What `sextant bench collectives`, `bench scaling`, `bench context` and `doctor` promise to
// scripts.
#include "support/cli.h"

namespace sextant {
namespace {

class CliBench : public CliTest {
 protected:
  static Arguments collectives(const Arguments& more) {
    return Arguments{"bench", "collectives", "--repeats", "1", "--rounds", "1", "--turn-ms", "0"} +
           more;
  }
};

TEST_F(CliBench, CollectivesStandBesideTheirLimitAndMpi) {
  const nlohmann::json report =
      json(collectives({"--ops", "all_reduce,all_to_all", "--ranks", "2,3", "--sizes", "4KiB"}));
  ASSERT_EQ(report["rows"].size(), 4u);
  for (const nlohmann::json& row : report["rows"]) {
    for (const char* key : {"name", "value", "unit", "limit", "ratio", "op", "ranks", "bytes",
                            "seconds", "mpi_value", "mpi_ratio"})
      EXPECT_TRUE(row.contains(key)) << key;
    EXPECT_NEAR(row["ratio"].get<double>(), row["value"].get<double>() / row["limit"].get<double>(),
                1e-9);
    // Either MPI's own numbers, or a reason for none.
    EXPECT_EQ(row["mpi_value"].is_null(), report["mpi"].get<std::string>().starts_with("not run: "))
        << report["mpi"];
  }
  ASSERT_EQ(report["fits"].size(), 4u);  // one size: all of it is alpha
  EXPECT_EQ(report["fits"][3]["op"], "all_to_all");
  EXPECT_NEAR(report["fits"][3]["alpha_s"].get<double>(),
              report["rows"][3]["seconds"].get<double>(), 1e-12);
  EXPECT_EQ(report["fits"][3]["beta_s"], 0.0);
  EXPECT_EQ(report["rows"][0]["bytes"], 4096);
  EXPECT_EQ(report["rows"][2]["ranks"], 3);
  EXPECT_EQ(report["rows"][2]["bytes"], 4092);  // as many elements as divide by three
}

TEST_F(CliBench, CollectivesGoWithoutAPeer) {
  const nlohmann::json report = json(
      collectives({"--ops", "broadcast", "--ranks", "2", "--sizes", "1KiB", "--peer", "none"}));
  EXPECT_EQ(report["mpi"], "not run: --peer none");
  EXPECT_TRUE(report["rows"][0]["mpi_seconds"].is_null());
}

TEST_F(CliBench, CollectivesRefuseWhatTheyDoNotKnow) {
  refused(collectives({"--ops", "all_reduse"}), 2, {"did you mean 'all_reduce'?"});
  refused(collectives({"--ranks", "1"}), 2, {"one rank moves nothing"});
  refused(collectives({"--ranks", "2,x"}), 2, {"'x'", "from 1 to 64"});
  refused(collectives({"--sizes", "huge"}), 2, {"'huge'", "1KiB,16MiB"});
  refused(collectives({"--largest", "100"}), 2, {"--largest 100", "1KiB"});
  refused(collectives({"--algorithm", "rings"}), 2, {"did you mean 'ring'?"});
  refused(collectives({"--peer", "nccl"}), 2, {"mpi, none"});
  refused({"bench", "collectives", "--repeats", "0"}, 2, {"--repeats 0"});
}

TEST_F(CliBench, TheRingSendsLessThanTheNaiveWay) {
  const nlohmann::json rows =
      json(collectives({"--algorithm", "naive,ring", "--ranks", "8", "--sizes", "4KiB"}))["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["busiest_elements"], 7 * 1024);
  EXPECT_EQ(rows[1]["busiest_elements"], 2 * 7 * 1024 / 8);
  EXPECT_EQ(rows[1]["busiest_over_naive"], 0.25);
  EXPECT_EQ(rows[1]["total_elements"], rows[0]["total_elements"]);
}

TEST_F(CliBench, PicturesAreDrawnIntoADirectory) {
  const nlohmann::json report = json({"bench", "collectives", "--pictures", "a/b"});
  ASSERT_EQ(report["files"].size(), 9u);
  for (const nlohmann::json& file : report["files"])
    EXPECT_TRUE(read(file.get<std::string>()).ends_with("</svg>\n")) << file;
}

TEST_F(CliBench, ScalingHasARowForEachKindAndNumberOfRanks) {
  const nlohmann::json rows = json({"bench", "scaling", "--preset", "tiny", "--ranks", "1,2",
                                    "--steps", "1", "--seq", "16", "--zero", "3"})["rows"];
  ASSERT_EQ(rows.size(), 4u);
  for (const nlohmann::json& row : rows)
    for (const char* key : {"scaling", "ranks", "tokens_per_s", "efficiency", "comm_exposed"})
      EXPECT_TRUE(row.contains(key)) << key;
  EXPECT_EQ(rows[0]["scaling"], "weak");
  EXPECT_EQ(rows[0]["efficiency"], 1.0);
  EXPECT_EQ(rows[3]["scaling"], "strong");
  EXPECT_EQ(rows[3]["ranks"], 2);
  refused({"bench", "scaling", "--zero", "4"}, 2, {"--zero", "from 0 to 3"});
}

TEST_F(CliBench, ContextHasARowForEachKindBesideOneRankAndItsMessages) {
  const nlohmann::json rows =
      json({"bench", "context", "--ranks", "4", "--seq", "64", "--heads", "4", "--kv-heads", "2",
            "--head-dim", "8", "--batch", "2", "--rounds", "1"})["rows"];
  ASSERT_EQ(rows.size(), 4u);
  const int ulysses[] = {1, 4, 1, 2};
  for (size_t i = 0; i < rows.size(); ++i) {
    const nlohmann::json& row = rows[i];
    EXPECT_EQ(row["ulysses"], ulysses[i]);
    EXPECT_EQ(row["pairs"], (std::vector<int>{2 * 4 * 65 * 64 / 2 / 4, 2 * 4 * 65 * 64 / 2 / 4}));
    EXPECT_NEAR(row["limit"].get<double>(),
                row["alone_ms"].get<double>() / 4 + row["messages_ms"].get<double>(), 1e-9);
    EXPECT_NEAR(row["ratio"].get<double>(), row["value"].get<double>() / row["limit"].get<double>(),
                1e-9);
    EXPECT_GT(row["sent_bytes"], 0);
  }
  // Two ranks are no ring of Ulysses groups; the other kinds are measured.
  const nlohmann::json two = json({"bench", "context", "--ranks", "2", "--seq", "64", "--heads",
                                   "4", "--kv-heads", "2", "--head-dim", "8", "--rounds", "1"});
  EXPECT_EQ(two["rows"].size(), 3U);
  ASSERT_EQ(two["skipped"].size(), 1U);
  EXPECT_TRUE(two["skipped"][0].get<std::string>().starts_with("ring+ulysses: "));
  refused({"bench", "context", "--kinds", "rings"}, 2, {"did you mean 'ring'?"});
  refused({"bench", "context", "--ranks", "1"}, 2, {"at least 2 ranks"});
  refused({"bench", "context", "--seq", "1001", "--ranks", "2"}, 2, {"model.seq = 1001"});
}

TEST_F(CliBench, ASteadyStepAllocatesNothing) {
  const Arguments step = {"bench", "step", "--preset", "tiny", "--seq", "16", "--steps", "3"};
  const Ran ran = Running(Arguments{sextant_bench_program(), "--json"} + step, settings()).finish();
  ASSERT_EQ(ran.code, 0) << ran.err;
  const nlohmann::json rows = nlohmann::json::parse(ran.out)["rows"];
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["allocations"], 0);
}

TEST_F(CliBench, TheProgramItselfDoesNotCountAllocations) {
  const nlohmann::json rows =
      json({"bench", "step", "--preset", "tiny", "--seq", "16", "--steps", "1"})["rows"];
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].contains("page_faults"));
  EXPECT_FALSE(rows[0].contains("allocations"));
}

TEST_F(CliBench, DoctorAddsOverTwoRanks) {
  const nlohmann::json report = json({"doctor"});
  std::string ranks, mpi;
  for (const nlohmann::json& check : report["checks"]) {
    if (check["name"] == "ranks") ranks = check["detail"];
    if (check["name"] == "mpi") mpi = check["detail"];
  }
  EXPECT_NE(ranks.find("a sum over 2 ranks (threads) is right"), std::string::npos) << ranks;
  EXPECT_NE(mpi, "");
}

}  // namespace
}  // namespace sextant
