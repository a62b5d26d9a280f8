#include "formats/tensorboard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "formats/crc32c.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

using namespace std::string_literals;

uint32_t masked(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

template <class T>
T load(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// The payloads of a TFRecord file, its checksums checked.
std::vector<std::string> records(const std::string& file) {
  std::vector<std::string> out;
  for (size_t at = 0; at < file.size();) {
    const auto size = load<uint64_t>(file, at);
    EXPECT_EQ(load<uint32_t>(file, at + 8), masked(file.substr(at, 8)));
    out.push_back(file.substr(at + 12, size));
    EXPECT_EQ(load<uint32_t>(file, at + 12 + size), masked(out.back()));
    at += 16 + size;
  }
  return out;
}

class TensorBoard : public ::testing::Test {
 protected:
  TempDir dir_;
  DiskStorage storage_;
  ManualClock clock_;
};

TEST_F(TensorBoard, FileBeginsWithTheVersionAndIsNamedAfterTheTime) {
  clock_.advance(1234567890.5);
  const EventWriter writer(storage_, dir_ / "a/b", clock_);
  EXPECT_EQ(writer.path().rfind(dir_ / "a/b/events.out.tfevents.1234567890.", 0), 0u);
  const auto all = records(read_text(storage_, writer.path()));
  ASSERT_EQ(all.size(), 1u);
  // wall_time = 1234567890.5, file_version.
  EXPECT_EQ(all[0], "\x09\x00\x00\xa0\xb4\x80\x65\xd2\x41"s + "\x1a\x0d" + "brain.Event:2");
}

TEST_F(TensorBoard, ScalarsOfAStepAreOneEventWithTheBytesOfTheSchema) {
  EventWriter writer(storage_, dir_.path(), clock_);
  clock_.advance(2.0);
  const std::vector<ScalarValue> values = {{"loss", 1.5f}, {"lr", -0.25f}};
  writer.write_scalars(300, values);
  const auto all = records(read_text(storage_, writer.path()));
  ASSERT_EQ(all.size(), 2u);
  const std::string loss = "\x0a\x04loss\x15\x00\x00\xc0\x3f"s;
  const std::string rate = "\x0a\x02lr\x15\x00\x00\x80\xbe"s;
  EXPECT_EQ(all[1], "\x09\x00\x00\x00\x00\x00\x00\x00\x40"s + "\x10\xac\x02" + "\x2a\x18" +
                        "\x0a\x0b" + loss + "\x0a\x09" + rate);
}

TEST_F(TensorBoard, EveryCallIsOnDiskWhenItReturns) {
  EventWriter writer(storage_, dir_.path(), clock_);
  for (int step = 0; step < 5; ++step) {
    writer.write_scalars(step, std::vector<ScalarValue>{{"x", static_cast<float>(step)}});
    EXPECT_EQ(records(read_text(storage_, writer.path())).size(), static_cast<size_t>(step) + 2);
  }
}

TEST_F(TensorBoard, ASecondWriterTakesAnotherFileAndLeavesTheFirst) {
  const EventWriter first(storage_, dir_.path(), clock_);
  const std::string before = read_text(storage_, first.path());
  const EventWriter second(storage_, dir_.path(), clock_);
  EXPECT_LT(first.path(), second.path());
  EXPECT_EQ(read_text(storage_, first.path()), before);
  EXPECT_EQ(storage_.list(dir_.path()).size(), 2u);
}

// Number 0 twice and number 1 three times, in buckets up to 0.5 and 1.5.
TEST_F(TensorBoard, AHistogramHasABucketForEachNumber) {
  EventWriter writer(storage_, dir_.path(), clock_);
  writer.write_histograms(1, std::vector<CountsValue>{{"h", {2, 3}}});
  const std::string event = records(read_text(storage_, writer.path())).at(1);
  const auto number = [](double value) {
    std::string bytes(sizeof value, 0);
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  };
  const std::string histogram = "\x09" + number(0) + "\x11" + number(1) + "\x19" + number(5) +
                                "\x21" + number(3) + "\x29" + number(3) + "\x32\x10" + number(0.5) +
                                number(1.5) + "\x3a\x10" + number(2) + number(3);
  const std::string value =
      "\x0a\x01h\x2a" + std::string(1, static_cast<char>(histogram.size())) + histogram;
  const std::string one = "\x0a" + std::string(1, static_cast<char>(value.size())) + value;
  EXPECT_EQ(event, "\x09" + number(0) + "\x10\x01\x2a" +
                       std::string(1, static_cast<char>(one.size())) + one);
}

TEST_F(TensorBoard, TextCarriesThePluginName) {
  EventWriter writer(storage_, dir_.path(), clock_);
  writer.write_text(1, "config", "# hello");
  const std::string event = records(read_text(storage_, writer.path())).at(1);
  EXPECT_NE(event.find("\x42\x11\x08\x07\x12\x04\x12\x02\x08\x01\x42\x07# hello"), event.npos);
  EXPECT_NE(event.find("\x4a\x08\x0a\x06\x0a\x04text"), event.npos);
}

TEST_F(TensorBoard, RefusesADirectoryThatCannotBe) {
  { write_text(*storage_.create(dir_ / "file", OpenMode::Truncate), "x"); }
  EXPECT_ERROR(EventWriter(storage_, dir_ / "file/sub", clock_), Failure, "cannot make directory");
}

}  // namespace
}  // namespace sextant
