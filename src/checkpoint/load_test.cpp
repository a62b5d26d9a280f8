#include "checkpoint/load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "checkpoint/digest.h"
#include "support/checkpoints.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "tensor/convert.h"

namespace sextant {
namespace {

class LoadTest : public testing::Test {
 protected:
  LoadTest() : saved_(bench_, "saved"), fresh_(bench_, "fresh") {
    path_ = save_alone(disk_, dir_.path(), state_at(10), saved_.tensors(), bench_.stream()).path;
  }

  LoadReport load(LoadWhat what = LoadWhat::All) {
    return load_tensors(disk_, path_, read_manifest(disk_, path_), fresh_.tensors(),
                        bench_.stream(), what);
  }
  std::string weights() const { return path_ + "/weights-00000.safetensors"; }
  void flip_byte(const std::string& file, int64_t at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(at);
    const char byte = static_cast<char>(stream.get() ^ 4);
    stream.seekp(at);
    stream.put(byte);
  }

  TempDir dir_;
  DiskStorage disk_;
  Workbench bench_{2, DeviceKind::Guarded};
  SampleState saved_, fresh_;
  std::string path_;
};

TEST_F(LoadTest, BringsBackEveryBitAndZerosThePadding) {
  const LoadReport report = load();
  EXPECT_EQ(report.tensors, 5);
  EXPECT_EQ(report.bytes, 60 + 16 + 8 + 24 + 60);
  for (size_t i = 0; i < saved_.tensors().size(); ++i) {
    const NamedTensor& saved = saved_.tensors()[i];
    std::vector<std::byte> wanted = bench_.bytes(saved.tensor);
    if (saved.tensor.shape() == Shape{8, 3})
      std::fill(wanted.begin() + 5 * 3 * 4, wanted.end(), std::byte{0});
    EXPECT_EQ(bench_.bytes(fresh_.tensors()[i].tensor), wanted) << saved.name;
  }
  EXPECT_EQ(read_manifest(disk_, path_).state, state_at(10));
}

TEST_F(LoadTest, TheTokenizerIsKeptAndVerified) {
  const TokenizerFiles files{{{"tokenizer.json", "{}"}, {"merges.txt", "a b"}}};
  const std::string run = dir_ / "run";
  const std::string path = save_alone(disk_, run + "/checkpoints", state_at(3), saved_.tensors(),
                                      bench_.stream(), {.tokenizer = files})
                               .path;
  const Manifest manifest = read_manifest(disk_, path);
  EXPECT_EQ(read_tokenizer(disk_, path, manifest), files);
  EXPECT_EQ(resolve_checkpoint(disk_, run), path);  // run.out stands for its checkpoints
  flip_byte(path + "/tokenizer.json", 0);
  EXPECT_ERROR(verify_checkpoint(disk_, path), Data, "tokenizer.json: damaged");
}

TEST_F(LoadTest, WeightsAloneLeaveTheOptimizerAsItIs) {
  const std::vector<std::byte> before = bench_.bytes(fresh_.tensors()[4].tensor);
  EXPECT_EQ(load(LoadWhat::Weights).tensors, 4);
  EXPECT_EQ(bench_.bytes(fresh_.tensors()[4].tensor), before);
  // Nor does it read the files that only the optimizer needs.
  flip_byte(path_ + "/optim-00000.safetensors", 100);
  EXPECT_EQ(load(LoadWhat::Weights).tensors, 4);
  EXPECT_ERROR(load(LoadWhat::All), Data, "optim-00000.safetensors: damaged");
}

TEST_F(LoadTest, TakesThePathOfTheCheckpointOrOfItsDirectory) {
  EXPECT_EQ(resolve_checkpoint(disk_, dir_.path()), path_);
  EXPECT_EQ(resolve_checkpoint(disk_, path_), path_);
  EXPECT_ERROR(resolve_checkpoint(disk_, dir_ / "absent"), Data, "no such checkpoint");
  EXPECT_ERROR(resolve_checkpoint(disk_, weights()), Data, "a checkpoint is a directory");
}

TEST_F(LoadTest, EveryDamagedByteOfAShardIsFound) {
  const auto size = static_cast<int64_t>(std::filesystem::file_size(weights()));
  const std::vector<std::byte> before = bench_.bytes(fresh_.table());
  for (int64_t at = 0; at < size; at += 7) {
    flip_byte(weights(), at);
    EXPECT_ERROR(load(), Data, "weights-00000.safetensors: damaged");
    EXPECT_ERROR(verify_checkpoint(disk_, path_), Data, "weights-00000.safetensors: damaged");
    flip_byte(weights(), at);
  }
  EXPECT_EQ(bench_.bytes(fresh_.table()), before);
  EXPECT_EQ(verify_checkpoint(disk_, path_).tensors, 5);
}

TEST_F(LoadTest, ACutOrMissingShardIsNamed) {
  disk_.truncate(weights(), 100);
  EXPECT_ERROR(load(), Data, "weights-00000.safetensors: 100 bytes, the manifest says");
  EXPECT_FALSE(list_checkpoints(disk_, dir_.path(), Check::Sizes).at(0).ok);
  disk_.remove_all(weights());
  EXPECT_ERROR(verify_checkpoint(disk_, path_), Data, "weights-00000.safetensors");
}

TEST_F(LoadTest, NamesTensorsThatAreMissingOrLeftOver) {
  fresh_.tensors()[1].name = "head.other";
  EXPECT_ERROR(load(), Data, "lacks head.other, which this run needs; it has head.norm.weight");
  fresh_.tensors().erase(fresh_.tensors().begin() + 1);
  EXPECT_ERROR(load(), Data, "has head.norm.weight, which this run does not know");
}

TEST_F(LoadTest, RefusesAnotherShapeTypeOrPadding) {
  NamedTensor& table = fresh_.tensors()[0];
  const NamedTensor right = table;
  table.valid_rows = 6;
  EXPECT_ERROR(load(), Data, "is f32 [5, 3], this run needs f32 [6, 3]");
  table.valid_rows = 0;
  EXPECT_ERROR(load(), Usage, "has valid_rows 0; 1 to 8 is right");
  table = right;
  table.tensor = bench_.empty<int32_t>({8, 3});
  EXPECT_ERROR(load(), Data, "is f32 [5, 3], this run needs i32 [5, 3]");
}

TEST_F(LoadTest, AnotherFloatingTypeGetsTheNearestValues) {
  NamedTensor& table = fresh_.tensors()[0];
  table.tensor = bench_.empty<bf16>({8, 3});
  load();
  std::vector<float> wanted = bench_.read<float>(saved_.table()), got(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i)
    wanted[i] = i < 15 ? widen(round_nearest<bf16>(wanted[i])) : 0;  // 5 rows are stored
  copy_floats_to_host(bench_.stream(), got, table.tensor);
  EXPECT_EQ(got, wanted);
}

TEST_F(LoadTest, FillsAnyPartOfATensor) {
  std::vector<std::byte> whole = bench_.bytes(saved_.table());
  std::fill(whole.begin() + 5 * 3 * 4, whole.end(), std::byte{0});
  for (int64_t first = 0; first <= 24; ++first)
    for (int64_t end = first; end <= 24; ++end) {
      const NamedTensor kept = fresh_.tensors()[0];
      fresh_.tensors()[0] = {kept.name, kept.tensor.view(Shape{24}).slice(first, end), 5,
                             Shape{8, 3}, first};
      const LoadReport report = load();
      EXPECT_EQ(report.tensors, end > first ? 5 : 4);
      EXPECT_EQ(report.bytes,
                16 + 8 + 24 + 60 + 4 * std::max<int64_t>(0, std::min<int64_t>(15, end) - first));
      EXPECT_EQ(bench_.bytes(fresh_.tensors()[0].tensor),
                std::vector<std::byte>(whole.begin() + first * 4, whole.begin() + end * 4))
          << first << " " << end;
      fresh_.tensors()[0] = kept;
    }
}

TEST_F(LoadTest, ChecksTheWholeTensorOfAPart) {
  NamedTensor& table = fresh_.tensors()[0];
  const Tensor part = bench_.empty<float>({4});
  table = {table.name, part, 5, Shape{8, 4}, 2};
  EXPECT_ERROR(load(), Data, "is f32 [5, 3], this run needs f32 [5, 4]");
  table = {table.name, part, 5, Shape{8, 3}, 21};
  EXPECT_ERROR(load(), Usage, "has 24 elements, rank 0 says that it has elements 21 ... 24");
  // Without elements there is no type to compare, but a shape.
  table = {table.name, Tensor(), 5, Shape{8, 3}, 0};
  table.tensor = bench_.empty<bf16>({0});
  EXPECT_EQ(load().tensors, 4);
  table = {table.name, Tensor(), 5, Shape{8, 3}, 0};
  EXPECT_EQ(load().tensors, 4);
  table.shape = Shape{8, 4};
  EXPECT_ERROR(load(), Data, "is f32 [5, 3], this run needs f32 [5, 4]");
}

TEST_F(LoadTest, ReadsOnlyTheFilesThatHaveItsPart) {
  NamedTensor& moment = fresh_.tensors()[4];
  moment = {moment.name, moment.tensor.view(Shape{24}).slice(15, 24), 5, Shape{8, 3}, 15};
  flip_byte(path_ + "/optim-00000.safetensors", 100);
  load();  // only padding
  EXPECT_EQ(bench_.read<float>(moment.tensor), std::vector<float>(9, 0));
  moment.tensor = bench_.empty<float>({1});
  moment.first = 14;
  EXPECT_ERROR(load(), Data, "optim-00000.safetensors: damaged");
}

TEST_F(LoadTest, PutsATensorTogetherFromSlicesInSeveralFiles) {
  // Two ranks that each hold some columns, the way a sharded save would.
  const std::string dir = dir_ / "sharded";
  disk_.make_directories(dir);
  Manifest manifest{state_at(3), {}, {{"t", {2, 3}, DType::F32, {}}}};
  const std::vector<std::vector<float>> columns = {{1, 4}, {2, 3, 5, 6}};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t width = i == 0 ? 1 : 2;
    const std::string name = "rank-" + std::to_string(i) + ".safetensors";
    auto file = disk_.create(dir + "/" + name, OpenMode::Truncate);
    DigestingWriter digesting(*file);
    SafetensorsWriter writer(digesting, {{"part", StoredType::F32, {2, width}}});
    writer.write("part", std::as_bytes(std::span(columns[i])));
    manifest.files.push_back({name, file->offset(), digesting.hex()});
    manifest.tensors[0].slices.push_back(
        {{{0, static_cast<int64_t>(i)}, {2, width}}, name, "part"});
  }
  replace_file(disk_, dir + "/manifest.json", to_json(manifest));
  EXPECT_EQ(verify_checkpoint(disk_, dir).files, 2);
  std::vector<NamedTensor> tensors{{"t", bench_.empty<float>({4, 3}), 2}};
  load_tensors(disk_, dir, read_manifest(disk_, dir), tensors, bench_.stream(), LoadWhat::All);
  EXPECT_EQ(bench_.read<float>(tensors[0].tensor),
            (std::vector<float>{1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0}));
}

TEST_F(LoadTest, ABrokenLatestIsReportedAndNotReplacedByAnother) {
  replace_file(disk_, dir_ / "latest", "step-00000099\n");
  EXPECT_ERROR(find_latest(disk_, dir_.path()), Data,
               "names step-00000099, which is not there; whole there, to be named instead: "
               "step-00000010");
  replace_file(disk_, dir_ / "latest", "../etc");
  EXPECT_ERROR(find_latest(disk_, dir_.path()), Data, "\"../etc\" is not the name of a checkpoint");
  disk_.remove_all(dir_ / "latest");
  EXPECT_ERROR(find_latest(disk_, dir_.path()), Data, "step-00000010");
  disk_.remove_all(path_ + "/manifest.json");
  EXPECT_ERROR(find_latest(disk_, dir_.path()), Data, "no whole checkpoint is there");
  EXPECT_ERROR(resolve_checkpoint(disk_, path_), Data, "it has no manifest.json");
  EXPECT_ERROR(find_latest(disk_, dir_ / "absent"), Data, "no such checkpoint directory");
}

}  // namespace
}  // namespace sextant
