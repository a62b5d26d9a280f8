#include "data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "data/token_writer.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

using Ids = std::vector<int32_t>;

class LoaderTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::vector<Ids>& documents,
                    const std::vector<std::vector<uint8_t>>& masks = {}) {
    TokenWriter writer(storage_, dir_ / name, Tokenizer::bytes(),
                       masks.empty() ? LossMask::None : LossMask::PerToken);
    for (size_t i = 0; i < documents.size(); ++i)
      writer.append(documents[i], masks.empty() ? std::vector<uint8_t>() : masks[i]);
    writer.finish();
    return dir_ / name;
  }
  // `count` documents of `length` tokens; token i overall is i modulo 251.
  std::string write_run(const std::string& name, int count, int length) {
    std::vector<Ids> documents;
    int next = 0;
    for (int i = 0; i < count; ++i) {
      Ids ids;
      for (int j = 0; j < length; ++j) ids.push_back(next++ % 251);
      documents.push_back(ids);
    }
    return write(name, documents);
  }
  Loader open(const DataConfig& data, int64_t seq, int64_t vocab = 256, uint64_t seed = 1) {
    LoaderSettings settings;
    settings.seq = seq;
    settings.vocab = vocab;
    settings.seed = seed;
    settings.threads = 2;
    return Loader::open(storage_, data, settings);
  }
  static DataConfig tokens(const std::string& path, double eval_fraction) {
    DataConfig data;
    data.kind = DataKind::Tokens;
    data.path = path;
    data.eval_fraction = eval_fraction;
    return data;
  }

  TempDir dir_;
  DiskStorage storage_;
};

TEST_F(LoaderTest, DocumentsArePackedWithStartsPositionsAndTargets) {
  const std::string path = write("a", {{1, 2, 0}, {3, 0}, {4, 5, 6, 0}, {7, 8}});
  const Loader loader = open(tokens(path, 0), 5);
  ASSERT_EQ(loader.samples(Split::Train), 2);
  std::set<Ids> rows;
  HostBatch batch;
  for (int64_t i = 0; i < 2; ++i) {
    loader.fill(batch, Split::Train, i, 1);
    rows.insert(batch.tokens);
    if (batch.tokens[0] == 1) {
      EXPECT_EQ(batch.tokens, (Ids{1, 2, 0, 3, 0}));
      EXPECT_EQ(batch.targets, (Ids{2, 0, -1, 0, -1}));
      EXPECT_EQ(batch.starts, (Ids{0, 0, 0, 3, 3}));
      EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 0, 1}));
    } else {
      EXPECT_EQ(batch.tokens, (Ids{4, 5, 6, 0, 7}));
      EXPECT_EQ(batch.targets, (Ids{5, 6, 0, -1, 8}));
      EXPECT_EQ(batch.starts, (Ids{0, 0, 0, 0, 4}));
      EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 3, 0}));
    }
  }
  EXPECT_EQ(rows.size(), 2u);
}

TEST_F(LoaderTest, TokensAreNumberedThroughTheWholeBatchWhenAsked) {
  const Loader loader = open(tokens(write("a", {{1, 2, 0}, {3, 0}, {4, 5, 6, 0}}), 0), 2);
  HostBatch batch;
  loader.fill(batch, Split::Train, 0, 1);
  EXPECT_TRUE(batch.indices.empty());
  pad_rows(batch, 3);
  number_tokens(batch, 5);
  EXPECT_EQ(batch.indices, (Ids{10, 11, 12, 13, 14, 15}));
  loader.fill(batch, Split::Train, 0, 1);  // other samples, not numbered yet
  EXPECT_TRUE(batch.indices.empty());
}

TEST_F(LoaderTest, WithoutDocumentMaskTheRowIsOneText) {
  DataConfig data = tokens(write("a", {{1, 2, 0}, {3, 0}, {4}}), 0);
  data.document_mask = false;
  HostBatch batch;
  open(data, 5).fill(batch, Split::Train, 0, 1);
  EXPECT_EQ(batch.targets, (Ids{2, 0, 3, 0, 4}));
  EXPECT_EQ(batch.starts, (Ids{0, 0, 0, 0, 0}));
  EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 3, 4}));
}

TEST_F(LoaderTest, LossMaskHidesTargets) {
  const std::string path = write("a", {{1, 2, 3, 0}, {4}}, {{0, 0, 1, 1}, {1}});
  HostBatch batch;
  open(tokens(path, 0), 4).fill(batch, Split::Train, 0, 1);
  EXPECT_EQ(batch.targets, (Ids{-1, 3, 0, -1}));
}

TEST_F(LoaderTest, AnEpochMeetsEverySampleOnceAndTheNextInAnotherOrder) {
  const Loader loader = open(tokens(write_run("a", 100, 25), 0), 8);
  const int64_t samples = loader.samples(Split::Train);
  ASSERT_EQ(samples, (2500 - 1) / 8);
  HostBatch first, second;
  loader.fill(first, Split::Train, 0, samples);
  loader.fill(second, Split::Train, samples, samples);
  const auto rows = [](const HostBatch& batch) {
    std::vector<Ids> out;
    for (int64_t i = 0; i < batch.batch; ++i)
      out.emplace_back(batch.tokens.begin() + i * batch.seq,
                       batch.tokens.begin() + (i + 1) * batch.seq);
    return out;
  };
  std::vector<Ids> a = rows(first), b = rows(second);
  EXPECT_NE(a, b);
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  EXPECT_EQ(a, b);
}

TEST_F(LoaderTest, SampleIsAFunctionOfItsGlobalNumber) {
  const Loader loader = open(tokens(write_run("a", 60, 30), 0), 8);
  HostBatch whole, piece;
  loader.fill(whole, Split::Train, 100, 40);  // across the end of the first epoch
  for (int64_t i = 0; i < 40; i += 5) {
    loader.fill(piece, Split::Train, 100 + i, 5);
    EXPECT_TRUE(std::equal(piece.tokens.begin(), piece.tokens.end(), whole.tokens.begin() + i * 8));
    EXPECT_TRUE(
        std::equal(piece.targets.begin(), piece.targets.end(), whole.targets.begin() + i * 8));
  }
  const int64_t samples = loader.samples(Split::Train);
  EXPECT_EQ(loader.cursor(2 * samples + 7), (Cursor{2, 7}));
  EXPECT_EQ(loader.sample_at({2, 7}), 2 * samples + 7);
}

TEST_F(LoaderTest, HeldOutTailSharesNoTokenWithTraining) {
  // Every token encodes its position: pairs (high, low).
  std::vector<Ids> documents;
  for (int i = 0; i < 200; ++i) {
    Ids ids;
    for (int j = 0; j < 10; ++j) {
      const int place = i * 10 + j;
      ids.push_back(place / 200);
      ids.push_back(place % 200);
    }
    documents.push_back(ids);
  }
  const Loader loader = open(tokens(write("a", documents), 0.103), 16);
  const int64_t train = loader.tokens(Split::Train);
  EXPECT_EQ(train + loader.tokens(Split::Eval), 4000);
  EXPECT_EQ(train % 20, 0) << "no document may be cut";
  EXPECT_NEAR(static_cast<double>(loader.tokens(Split::Eval)), 412, 20);
  HostBatch batch;
  const auto places = [&](Split split) {
    loader.fill(batch, split, 0, loader.samples(split));
    std::set<int> out;
    for (size_t i = 0; i < batch.tokens.size(); i += 2)
      out.insert(batch.tokens[i] * 200 + batch.tokens[i + 1]);
    return out;
  };
  const std::set<int> trained = places(Split::Train), held = places(Split::Eval);
  EXPECT_LT(*trained.rbegin(), train / 2);
  EXPECT_GE(*held.begin(), train / 2);
}

TEST_F(LoaderTest, EvalPathIsReadInOrder) {
  DataConfig data = tokens(write_run("a", 10, 30), 0.5);
  data.eval_path = write("b", {{9, 8, 7, 6, 5, 4, 3, 2, 1}});
  const Loader loader = open(data, 4);
  EXPECT_EQ(loader.tokens(Split::Train), 300);
  ASSERT_EQ(loader.samples(Split::Eval), 2);
  HostBatch batch;
  loader.fill(batch, Split::Eval, 0, 3);
  EXPECT_EQ(batch.tokens, (Ids{9, 8, 7, 6, 5, 4, 3, 2, 9, 8, 7, 6}));
}

TEST_F(LoaderTest, TooFewTokensSaysHowManyAreNeeded) {
  EXPECT_ERROR(open(tokens(write_run("a", 1, 8), 0), 8), Data, "needs at least 9");
  EXPECT_EQ(open(tokens(write_run("a", 1, 9), 0), 8).samples(Split::Train), 1);
  EXPECT_ERROR(open(tokens(write_run("a", 1, 17), 0.1), 8), Data, "needs at least 18");
  EXPECT_EQ(open(tokens(write_run("a", 1, 18), 0.1), 8).samples(Split::Eval), 1);
  HostBatch batch;
  EXPECT_ERROR(open(tokens(write_run("a", 1, 9), 0), 8).fill(batch, Split::Eval, 0, 1), Usage,
               "held out");
}

TEST_F(LoaderTest, IdBeyondTheModelsVocabularyIsRefusedAtOnce) {
  EXPECT_ERROR(open(tokens(write("a", {{1, 2, 99, 3}}), 0), 2, 50), Data,
               "token 2 has id 99, the vocabulary has 50");
}

TEST_F(LoaderTest, BuiltinCorpusNeedsNothing) {
  DataConfig data;
  const Loader loader = open(data, 256);
  EXPECT_GT(loader.samples(Split::Train), 5000);
  EXPECT_GT(loader.samples(Split::Eval), 200);
  HostBatch batch;
  loader.fill(batch, Split::Train, 0, 8);
  EXPECT_TRUE(std::all_of(batch.tokens.begin(), batch.tokens.end(),
                          [](int32_t id) { return id >= 0 && id < 128; }));
  EXPECT_ERROR(open(data, 256, 100), Config, "has 256 ids");
}

TEST_F(LoaderTest, TextIsTokenizedAtTheStart) {
  storage_.make_directories(dir_ / "t");
  replace_file(storage_, dir_ / "t/b.txt", "defg");
  replace_file(storage_, dir_ / "t/a.txt", "abc");
  DataConfig data;
  data.kind = DataKind::Text;
  data.path = dir_ / "t";
  data.eval_fraction = 0;
  HostBatch batch;
  open(data, 8).fill(batch, Split::Train, 0, 1);
  EXPECT_EQ(batch.tokens, (Ids{'a', 'b', 'c', 0, 'd', 'e', 'f', 'g'}));
  EXPECT_EQ(batch.targets, (Ids{'b', 'c', 0, -1, 'e', 'f', 'g', 0}));
}

TEST_F(LoaderTest, SyntheticTokensAreKeyedByTheirNumber) {
  DataConfig data;
  data.kind = DataKind::Synthetic;
  const Loader loader = open(data, 16, 1000);
  HostBatch a, b;
  loader.fill(a, Split::Train, 40, 4);
  loader.fill(b, Split::Train, 42, 2);
  EXPECT_TRUE(std::equal(b.tokens.begin(), b.tokens.end(), a.tokens.begin() + 32));
  EXPECT_EQ(a.tokens[1], a.targets[0]);
  loader.fill(b, Split::Eval, 40, 4);
  EXPECT_NE(a.tokens, b.tokens);
  EXPECT_TRUE(std::all_of(a.tokens.begin(), a.tokens.end(),
                          [](int32_t id) { return id >= 0 && id < 1000; }));
  open(data, 16, 1000, 2).fill(b, Split::Train, 40, 4);
  EXPECT_NE(a.tokens, b.tokens);
}

TEST_F(LoaderTest, FillKeepsItsMemory) {
  const Loader loader = open(tokens(write_run("a", 500, 7), 0), 32);
  HostBatch batch;
  loader.fill(batch, Split::Train, 0, 4);
  const int32_t* where = batch.tokens.data();
  const int64_t* starts = batch.scratch.starts.data();
  for (int64_t i = 4; i < 200; i += 4) loader.fill(batch, Split::Train, i, 4);
  EXPECT_EQ(batch.tokens.data(), where);
  EXPECT_EQ(batch.scratch.starts.data(), starts);
}

}  // namespace
}  // namespace sextant
