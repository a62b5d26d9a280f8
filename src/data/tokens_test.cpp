#include "data/tokens.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/error.h"
#include "data/inspect.h"
#include "data/little_endian.h"
#include "data/token_writer.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

using Ids = std::vector<int32_t>;

class Tokens : public testing::Test {
 protected:
  // Documents of 1, 2, ... tokens in Sextant's format, in more than one chunk.
  std::string write_own(LossMask mask, int64_t least) {
    const std::string path = dir_ / "own.tokens";
    TokenWriter writer(storage_, path, Tokenizer::bytes(), mask);
    for (int32_t length = 1; writer.tokens() < least; ++length) {
      Ids ids(static_cast<size_t>(length));
      std::vector<uint8_t> bits(ids.size(), 1);
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i + ids.size()) % 256);
      for (size_t i = 0; i < ids.size() / 2; ++i) bits[i] = 0;
      writer.append(ids, mask == LossMask::PerToken ? bits : std::vector<uint8_t>());
    }
    writer.finish();
    return path;
  }
  void write_bytes(const std::string& name, const std::vector<std::byte>& bytes) {
    std::ofstream file(dir_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  void flip(const std::string& path, int64_t at) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
  }
  TokenSource open(const std::string& name, TokenFormat format = TokenFormat::Auto) {
    return TokenSource::open(storage_, dir_ / name, format);
  }
  static Ids read_all(const TokenSource& source, int64_t limit = 1 << 30) {
    Ids ids(static_cast<size_t>(source.tokens()));
    source.read(ids, 0, limit);
    return ids;
  }
  static std::vector<int64_t> starts_of(const TokenSource& source, int64_t begin, int64_t end) {
    std::vector<int64_t> starts;
    Ids scratch;
    source.document_starts(starts, scratch, begin, end);
    return starts;
  }

  TempDir dir_;
  DiskStorage storage_;
};

std::vector<std::byte> llmc(int32_t magic, int32_t version, const Ids& ids, int width) {
  std::vector<std::byte> out;
  store(out, magic);
  store(out, version);
  store(out, static_cast<int32_t>(ids.size()));
  out.resize(1024);
  for (const int32_t id : ids) {
    if (width == 2) {
      store(out, static_cast<uint16_t>(id));
    } else {
      store(out, static_cast<uint32_t>(id));
    }
  }
  return out;
}

std::vector<std::byte> megatron_index(uint8_t type, const std::vector<int32_t>& lengths,
                                      const std::vector<int64_t>& pointers,
                                      const std::vector<int64_t>& documents) {
  std::vector<std::byte> out;
  for (const char c : std::string("MMIDIDX\0\0", 9)) out.push_back(static_cast<std::byte>(c));
  store(out, uint64_t{1});
  store(out, type);
  store(out, static_cast<uint64_t>(lengths.size()));
  store(out, static_cast<uint64_t>(documents.size()));
  for (const int32_t length : lengths) store(out, length);
  for (const int64_t pointer : pointers) store(out, pointer);
  for (const int64_t document : documents) store(out, document);
  return out;
}

TEST_F(Tokens, OwnFormatGivesBackWhatWasWritten) {
  for (const LossMask mask : {LossMask::None, LossMask::PerToken}) {
    const TokenSource source =
        TokenSource::open(storage_, write_own(mask, 600'000), TokenFormat::Auto);
    EXPECT_EQ(source.format(), TokenFormat::Sextant);
    EXPECT_EQ(source.vocab(), 256);
    EXPECT_EQ(source.width(), 2);
    EXPECT_EQ(source.tokenizer(), "bytes");
    EXPECT_EQ(source.has_loss_mask(), mask == LossMask::PerToken);
    const Ids ids = read_all(source);
    std::vector<uint8_t> bits(ids.size());
    source.read_mask(bits, 0);
    size_t at = 0;
    for (size_t length = 1; at < ids.size(); ++length) {
      for (size_t i = 0; i < length; ++i, ++at) {
        ASSERT_EQ(ids[at], static_cast<int32_t>((i + length) % 256));
        ASSERT_EQ(bits[at], mask == LossMask::None || i >= length / 2);
      }
    }
    EXPECT_EQ(starts_of(source, 0, 7), (std::vector<int64_t>{0, 1, 3, 6}));
    EXPECT_EQ(starts_of(source, 2, 6), (std::vector<int64_t>{3}));
    Ids middle(10);  // across a chunk boundary
    source.read(middle, (1 << 18) - 5, 256);
    EXPECT_TRUE(std::equal(middle.begin(), middle.end(), ids.begin() + (1 << 18) - 5));
  }
}

TEST_F(Tokens, DamageIsFoundWhereverItIs) {
  const std::string path = write_own(LossMask::PerToken, 600'000);
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  for (const int64_t at :
       {int64_t{3}, int64_t{30}, int64_t{100}, size - 5000, size - 60, size - 3}) {
    flip(path, at);
    EXPECT_ERROR(open("own.tokens"), Data, "own.tokens");
    flip(path, at);
  }
  flip(path, 128 + 600'000);  // in the second chunk, found when it is read
  const TokenSource source = open("own.tokens");
  Ids ids(100);
  source.read(ids, 0, 256);
  EXPECT_ERROR(source.read(ids, 300'000, 256), Data, "checksum of chunk 1");
  EXPECT_ERROR(inspect_tokens(storage_, path, TokenFormat::Auto, nullptr), Data, "checksum");
}

TEST_F(Tokens, EveryCutIsRefused) {
  const std::string path = write_own(LossMask::None, 2000);
  const auto size = std::filesystem::file_size(path);
  for (const uintmax_t left : {size - 1, size - 64, size / 2, uintmax_t{128}, uintmax_t{12}}) {
    std::filesystem::resize_file(path, left);
    EXPECT_ERROR(open("own.tokens"), Data, "cut");
  }
  std::filesystem::resize_file(path, 0);
  EXPECT_ERROR(open("own.tokens"), Data, "recognised");
}

TEST_F(Tokens, WriterLeavesNothingWithoutFinishAndRefusesForeignIds) {
  {
    TokenWriter writer(storage_, dir_ / "x.tokens", Tokenizer::bytes(), LossMask::None);
    writer.append(Ids{1, 2}, {});
    EXPECT_ERROR(writer.append(Ids{256}, {}), Data, "has id 256, the vocabulary has 256");
  }
  EXPECT_TRUE(storage_.list(dir_.path()).empty());
}

TEST_F(Tokens, TokenBeyondTheVocabularyIsNamedByItsPlace) {
  write_bytes("a.bin", llmc(20240520, 1, {1, 2, 300, 4}, 2));
  EXPECT_ERROR(read_all(open("a.bin"), 256), Data, "token 2 has id 300, the vocabulary has 256");
}

TEST_F(Tokens, LlmcFilesOfBothKinds) {
  write_bytes("gpt2.bin", llmc(20240520, 1, {50256, 1, 2, 50256, 3}, 2));
  const TokenSource gpt2 = open("gpt2.bin");
  EXPECT_EQ(gpt2.format(), TokenFormat::LlmC);
  EXPECT_EQ(read_all(gpt2), (Ids{50256, 1, 2, 50256, 3}));
  EXPECT_EQ(starts_of(gpt2, 0, 5), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(gpt2.count_documents(), 2);
  write_bytes("llama.bin", llmc(20240801, 7, {128000, 70000, 128000}, 4));
  EXPECT_EQ(read_all(open("llama.bin")), (Ids{128000, 70000, 128000}));
  EXPECT_EQ(open("llama.bin").count_documents(), 2);

  write_bytes("version.bin", llmc(20240520, 2, {1}, 2));
  EXPECT_ERROR(open("version.bin"), Data, "version 2, must be 1");
  std::vector<std::byte> cut = llmc(20240520, 1, {1, 2, 3}, 2);
  cut.pop_back();
  write_bytes("cut.bin", cut);
  EXPECT_ERROR(open("cut.bin"), Data, "5 bytes follow");
  cut.resize(100);
  write_bytes("cut.bin", cut);
  EXPECT_ERROR(open("cut.bin"), Data, "is cut");
}

TEST_F(Tokens, NanoGptFilesOnlyWhenNamed) {
  std::vector<std::byte> bytes;
  for (const int id : {5, 50256, 6, 7}) store(bytes, static_cast<uint16_t>(id));
  write_bytes("train.bin", bytes);
  EXPECT_ERROR(open("train.bin"), Data, "nanogpt");
  const TokenSource source = open("train.bin", TokenFormat::NanoGpt);
  EXPECT_EQ(read_all(source), (Ids{5, 50256, 6, 7}));
  EXPECT_EQ(starts_of(source, 0, 4), (std::vector<int64_t>{0, 2}));
  bytes.pop_back();
  write_bytes("train.bin", bytes);
  EXPECT_ERROR(open("train.bin", TokenFormat::NanoGpt), Data, "two for each token");
}

TEST_F(Tokens, MegatronPairsByAnyOfTheirNames) {
  std::vector<std::byte> bytes;
  for (const int id : {1, 2, 3, 4, 5, 6}) store(bytes, static_cast<uint16_t>(id));
  write_bytes("m.bin", bytes);
  write_bytes("m.idx", megatron_index(8, {2, 1, 3}, {0, 4, 6}, {0, 2, 3}));
  for (const char* name : {"m", "m.bin", "m.idx"}) {
    const TokenSource source = open(name);
    EXPECT_EQ(source.format(), TokenFormat::Megatron);
    EXPECT_EQ(read_all(source), (Ids{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(starts_of(source, 0, 6), (std::vector<int64_t>{0, 3}));
  }
  write_bytes("m.idx", megatron_index(8, {2, 1, 3}, {0, 6, 8}, {0, 2, 3}));
  EXPECT_ERROR(open("m"), Data, "sequence 1");
  write_bytes("m.idx", megatron_index(8, {2, 1, 4}, {0, 4, 6}, {0, 2, 3}));
  EXPECT_ERROR(open("m"), Data, "the .bin has 12 bytes");
  write_bytes("m.idx", megatron_index(7, {2, 1, 3}, {0, 4, 6}, {0, 2, 3}));
  EXPECT_ERROR(open("m"), Data, "type code 7");
  write_bytes("m.idx", megatron_index(8, {2, 1, 3}, {0, 4, 6}, {0, 9}));
  EXPECT_ERROR(open("m"), Data, "sequence 9");
  write_bytes("m.idx", megatron_index(8, {2, 1, 3}, {0, 4, 6}, {0, 2, 1, 3}));
  EXPECT_ERROR(open("m"), Data, "document 2 begins at token 2");
  std::vector<std::byte> cut = megatron_index(8, {2, 1, 3}, {0, 4, 6}, {0, 2, 3});
  cut.resize(cut.size() - 8);
  write_bytes("m.idx", cut);
  EXPECT_ERROR(open("m"), Data, "index is cut");
}

TEST_F(Tokens, MissingFileNamesItself) {
  EXPECT_ERROR(open("absent.bin"), Data, "absent.bin");
}

TEST_F(Tokens, InspectReadsEverything) {
  const std::string path = write_own(LossMask::PerToken, 3000);
  const Tokenizer tokenizer = Tokenizer::bytes();
  const TokenFileReport report = inspect_tokens(storage_, path, TokenFormat::Auto, &tokenizer);
  EXPECT_EQ(report.documents, 77);
  EXPECT_EQ(report.tokens, 77 * 78 / 2);
  EXPECT_EQ(report.vocab, 256);
  EXPECT_EQ(report.max_id, 2 * 77 - 1);
  EXPECT_EQ(report.loss_tokens, 77 * 78 / 2 - 38 * 39);
  EXPECT_EQ(report.first_text.substr(0, 3), "\x01\x02\x03");
  write_bytes("a.bin", llmc(20240520, 1, {50256, 9}, 2));
  EXPECT_EQ(inspect_tokens(storage_, dir_ / "a.bin", TokenFormat::Auto, nullptr).vocab, 50257);
}

}  // namespace
}  // namespace sextant
