#include "bench/kept_outside.h"

#include <gtest/gtest.h>

#include "support/needs_gpu.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

class KeptOutside : public testing::Test {
 protected:
  static GpuList gpu(const std::string& name) {
    GpuList list;
    list.gpus.push_back({name, 1000, 900, 9, 0, ""});
    list.driver = "13.0";
    return list;
  }
  std::string cache() const { return dir_ / "cache"; }

  const OutsideTable table_ = {1, 2, 3, 4, 6, 7, 8, 5, true};
  TempDir dir_;
  DiskStorage storage_;
};

TEST_F(KeptOutside, IsReadAgainForTheSameGpu) {
  EXPECT_FALSE(kept_outside(storage_, cache(), gpu("A")));
  keep_outside(storage_, cache(), gpu("A"), table_);
  const std::optional<OutsideTable> kept = kept_outside(storage_, cache(), gpu("A"));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->context, 1);
  EXPECT_EQ(kept->cublas, 2);
  EXPECT_EQ(kept->cudnn, 3);
  EXPECT_EQ(kept->nccl, 4);
  EXPECT_EQ(kept->nccl_group, 6);
  EXPECT_EQ(kept->nccl_peer, 7);
  EXPECT_EQ(kept->nccl_channel, 8);
  EXPECT_EQ(kept->kernels, 5);
  EXPECT_TRUE(kept->is_measured);
  EXPECT_FALSE(kept_outside(storage_, cache(), gpu("B")));
  EXPECT_FALSE(kept_outside(storage_, cache(), GpuList{}));
  EXPECT_FALSE(kept_outside(storage_, "", gpu("A")));
}

TEST_F(KeptOutside, IsNotTrustedWhenDamaged) {
  keep_outside(storage_, cache(), gpu("A"), table_);
  const std::vector<std::string> names = storage_.list(cache());
  ASSERT_EQ(names.size(), 1U);
  const std::string path = join_path(cache(), names[0]), whole = read_text(storage_, path);
  std::string changed = whole;
  changed.replace(changed.find("\"context\":1"), 11, "\"context\":9");
  for (const std::string& damaged :
       {changed, whole.substr(0, whole.size() / 2), std::string(), std::string("{}")}) {
    replace_file(storage_, path, damaged);
    EXPECT_FALSE(kept_outside(storage_, cache(), gpu("A"))) << damaged;
  }
}

TEST(CudaOutside, EachLibraryTakesSomeMemory) {
  SXT_NEEDS_GPU();
  DiskStorage storage;
  const SystemClock clock;
  const OutsideTable table = measure_outside(storage, clock);
  EXPECT_TRUE(table.is_measured);
  EXPECT_GT(table.context, int64_t{10} << 20);
  EXPECT_GE(table.cublas, 0);
  EXPECT_LT(table.cublas + table.cudnn + table.kernels, int64_t{4} << 30);
}

}  // namespace
}  // namespace sextant
