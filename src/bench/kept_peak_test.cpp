#include "bench/kept_peak.h"

#include <gtest/gtest.h>

#include "base/parse.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

class KeptPeak : public testing::Test {
 protected:
  double peak() { return kept_fma_peak(storage_, cache(), 1, DType::F32, log_); }
  std::string cache() const { return dir_ / "cache"; }
  std::string file() {
    const std::vector<std::string> names = storage_.list(cache());
    EXPECT_EQ(names.size(), 1U);
    return join_path(cache(), names.at(0));
  }
  // Replaces text of the file, which must be there.
  void change(const std::string& from, const std::string& to) {
    std::string text = read_text(storage_, file());
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << text;
    replace_file(storage_, file(), text.replace(at, from.size(), to));
  }

  TempDir dir_;
  DiskStorage storage_;
  Log log_{LogLevel::Quiet, Color::Never};
};

TEST_F(KeptPeak, IsMeasuredOnce) {
  const double first = peak();
  EXPECT_GT(first, 0);
  const std::string kept = read_text(storage_, file());
  EXPECT_EQ(peak(), first);  // two measurements never have the same bits
  EXPECT_EQ(peak(), first);
  EXPECT_EQ(read_text(storage_, file()), kept);
}

TEST_F(KeptPeak, IsNotTrustedWhenDamaged) {
  peak();
  const std::string whole = read_text(storage_, file());
  // A plausible number, another processor, a cut, nothing, no JSON at all.
  change("\"flops\":", "\"flops\":1");
  EXPECT_EQ(peak(), kept_fma_peak(storage_, cache(), 1, DType::F32, log_));
  EXPECT_NE(read_text(storage_, file()).find("\"xxh3_128\""), std::string::npos);
  for (const std::string& damaged :
       {whole.substr(0, whole.size() / 2), std::string(), std::string("null"), std::string("{}"),
        std::string("{\"flops\":1e99}"), whole + whole}) {
    replace_file(storage_, file(), damaged);
    const double again = peak();
    EXPECT_GT(again, 0);
    EXPECT_LT(again, 1e15);
    EXPECT_NE(read_text(storage_, file()), damaged);
    EXPECT_EQ(peak(), again);
  }
}

TEST_F(KeptPeak, OfOtherThreadsAndTypesAreApart) {
  peak();
  kept_fma_peak(storage_, cache(), 2, DType::F32, log_);
  kept_fma_peak(storage_, cache(), 1, DType::BF16, log_);
  EXPECT_EQ(storage_.list(cache()).size(), 3U);
}

TEST_F(KeptPeak, WorksWithoutADirectory) {
  EXPECT_GT(kept_fma_peak(storage_, "", 1, DType::F32, log_), 0);
  replace_file(storage_, dir_ / "file", "in the way");
  EXPECT_GT(kept_fma_peak(storage_, dir_ / "file", 1, DType::F32, log_), 0);
}

}  // namespace
}  // namespace sextant
