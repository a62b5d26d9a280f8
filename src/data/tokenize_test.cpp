#include "data/tokenize.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "data/corpus.h"
#include "data/tokens.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

class Tokenize : public testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view text) {
    replace_file(storage_, dir_ / name, text);
    return dir_ / name;
  }
  TokenizeSummary run(std::vector<std::string> inputs, TextSplit split = TextSplit::File,
                      int threads = 2) {
    TokenizeOptions options;
    options.inputs = std::move(inputs);
    options.split = split;
    options.threads = threads;
    return tokenize_to_file(storage_, tokenizer_, options, out());
  }
  std::string out() { return dir_ / "sub/out.tokens"; }
  // All tokens as text, with '|' per end of document; `mask` has '-' under tokens without loss.
  std::string text(std::string* mask = nullptr) {
    const TokenSource source = TokenSource::open(storage_, out(), TokenFormat::Sextant);
    std::vector<int32_t> ids(static_cast<size_t>(source.tokens()));
    std::vector<uint8_t> bits(ids.size());
    source.read(ids, 0, 256);
    source.read_mask(bits, 0);
    std::string decoded = tokenizer_.decode(ids);
    for (char& c : decoded) c = c == '\0' ? '|' : c;
    if (mask) {
      mask->clear();
      for (const uint8_t bit : bits) mask->push_back(bit ? '+' : '-');
    }
    return decoded;
  }

  TempDir dir_;
  DiskStorage storage_;
  Tokenizer tokenizer_ = Tokenizer::bytes();
};

TEST_F(Tokenize, FilesAndLinesAndRecordsBecomeDocuments) {
  const std::string a = write("a.txt", "one\ntwo\n"), b = write("b.txt", "three\r\n\n  \nfour");
  const std::string c =
      write("c.jsonl", "{\"text\": \"five\"}\n\n{\"id\": 1, \"text\": \"\\u0041\"}\n");
  TokenizeSummary summary = run({a, c});
  EXPECT_EQ(summary.documents, 3);
  EXPECT_EQ(summary.tokens, 9 + 5 + 2);
  EXPECT_EQ(summary.vocab, 256);
  EXPECT_EQ(text(), "one\ntwo\n|five|A|");
  run({a, b}, TextSplit::Lines);
  EXPECT_EQ(text(), "one|two|three|four|");
}

TEST_F(Tokenize, PromptsDoNotCountInTheLoss) {
  run({write("p.jsonl", R"({"prompt": "ab", "completion": "c"})"), write("t.txt", "de")});
  std::string mask;
  EXPECT_EQ(text(&mask), "abc|de|");
  EXPECT_EQ(mask, "--+++++");
}

TEST_F(Tokenize, ResultDoesNotDependOnTheNumberOfThreads) {
  std::string lines;
  for (const std::string& document : builtin_documents(5, 200'000)) lines += document;
  const std::string input = write("lines.txt", lines);
  run({input}, TextSplit::Lines, 1);
  const std::string one = read_text(storage_, out());
  run({input}, TextSplit::Lines, 4);
  EXPECT_EQ(read_text(storage_, out()), one);
}

TEST_F(Tokenize, ProgressCountsTheBytesOfTheFilesAsTheyAreStored) {
  std::string lines;
  for (int i = 0; i < 40'000; ++i) lines += "line\n";  // more documents than are read at once
  TokenizeOptions options;
  options.inputs = {write("a.txt", lines), write("b.txt", "end")};
  options.split = TextSplit::Lines;
  std::vector<int64_t> taken;
  options.on_progress = [&](const TokenizeProgress& progress) {
    EXPECT_EQ(progress.stored, 200'003);
    taken.push_back(progress.taken);
  };
  tokenize_documents(storage_, tokenizer_, options, [](auto, auto) {});
  ASSERT_GT(taken.size(), 1u);
  EXPECT_TRUE(std::ranges::is_sorted(taken));
  EXPECT_GT(taken.front(), 0);
  EXPECT_EQ(taken.back(), 200'003);
}

TEST_F(Tokenize, BadRecordsAreNamedByFileAndLine) {
  EXPECT_ERROR(run({write("a.jsonl", "{\"text\": \"x\"}\n{\"text\": 5}\n")}), Data, "a.jsonl:2");
  EXPECT_ERROR(run({write("b.jsonl", "{\"text\": \"x\"}\n\n[1\n")}), Data, "b.jsonl:3");
  EXPECT_ERROR(run({write("c.jsonl", "[]")}), Data, "must be an object");
  EXPECT_ERROR(run({write("d.jsonl", R"({"prompt": "x"})")}), Data, "no string \"completion\"");
  EXPECT_ERROR(
      run({write("e.jsonl", "{\"text\": \"x\"}\n{\"prompt\": \"x\", \"completion\": \"\"}")}), Data,
      "files of their own");
  EXPECT_ERROR(run({dir_ / "absent.txt"}), Data, "absent.txt");
  EXPECT_ERROR(run({write("empty.txt", "")}), Data, "no text");
  EXPECT_ERROR(run({write("binary.txt", std::string_view("a\0b", 3))}), Data,
               "binary.txt holds a zero");
  EXPECT_ERROR(run({}), Usage, "no input");
  EXPECT_ERROR(run({write("t.txt", "x")}, TextSplit::File, 1025), Usage, "1025 threads: at most");
  EXPECT_FALSE(storage_.exists(out()));
  EXPECT_FALSE(storage_.exists(out() + ".tmp"));
}

TEST_F(Tokenize, LongLinesAndLineEndsAtTheEdgeOfAPieceAreKeptWhole) {
  const size_t piece = 1 << 20;
  std::string lines = std::string(piece - 1, 'a') + "\n" + std::string(3 * piece, 'b') + "\nc";
  run({write("long.txt", lines)}, TextSplit::Lines);
  for (char& c : lines) c = c == '\n' ? '|' : c;
  EXPECT_EQ(text(), lines + "|");
}

TEST_F(Tokenize, ReadsZstdFramesAndRefusesCutOnes) {
  if (!has_zstd()) GTEST_SKIP() << "this build has no zstd";
  // "hello zstd\n" as one frame, from the zstd tool.
  const unsigned char frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x0b, 0x59, 0x00,
                                 0x00, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x20, 0x7a,
                                 0x73, 0x74, 0x64, 0x0a, 0x6c, 0x57, 0xf9, 0x51};
  const std::string bytes(reinterpret_cast<const char*>(frame), sizeof frame);
  const std::string two = write("a.txt.zst", bytes + bytes);
  run({two});
  EXPECT_EQ(text(), "hello zstd\nhello zstd\n|");
  DocumentReader reader(storage_, two, TextSplit::File);
  EXPECT_TRUE(reader.next());
  EXPECT_EQ(reader.taken(), stored_bytes(storage_, std::vector{two}));
  EXPECT_ERROR(run({write("cut.txt.zst", bytes.substr(0, 15))}), Data,
               "cut.txt.zst: zstd file is cut");
  EXPECT_ERROR(run({write("bad.txt.zst", "not compressed")}), Data, "bad.txt.zst: not zstd");
}

}  // namespace
}  // namespace sextant
