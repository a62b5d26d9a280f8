// Protocol buffers by hand: a message is a run of fields, each a varint key (number << 3 | wire
// type) and its value; a nested message is a field of bytes. Numbers are those of TensorFlow's
// event.proto, summary.proto and tensor.proto.
#include "formats/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>

#include "base/error.h"
#include "base/host_name.h"
#include "formats/crc32c.h"

namespace sextant {
namespace {

constexpr int kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;
constexpr int kTensorTypeString = 7;

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}

template <class Word>
std::string little_endian(Word value) {
  std::string out;
  for (size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<char>(value >> 8 * i));
  return out;
}

std::string key(int number, int wire_type) {
  return varint(static_cast<uint64_t>(number << 3 | wire_type));
}

std::string integer_field(int number, int64_t value) {
  return key(number, kVarint) + varint(static_cast<uint64_t>(value));
}
std::string float_field(int number, float value) {
  return key(number, kFixed32) + little_endian(std::bit_cast<uint32_t>(value));
}
std::string double_field(int number, double value) {
  return key(number, kFixed64) + little_endian(std::bit_cast<uint64_t>(value));
}
std::string bytes_field(int number, std::string_view value) {
  return key(number, kBytes) + varint(value.size()) + std::string(value);
}

// HistogramProto: each number is a bucket of its own, which ends half-way to the next.
std::string histogram(const std::vector<int64_t>& counts) {
  double number = 0, all = 0, sum = 0, squares = 0;
  std::string limits, buckets;
  for (const int64_t count : counts) {
    const auto times = static_cast<double>(count);
    all += times;
    sum += times * number;
    squares += times * number * number;
    limits += little_endian(std::bit_cast<uint64_t>(number + 0.5));
    buckets += little_endian(std::bit_cast<uint64_t>(times));
    ++number;
  }
  return double_field(1, 0) + double_field(2, number - 1) + double_field(3, all) +
         double_field(4, sum) + double_field(5, squares) + bytes_field(6, limits) +
         bytes_field(7, buckets);
}

// A rotation and an offset, because a CRC of data that holds CRCs is weak.
uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

// TFRecord: length, its checksum, data, its checksum.
std::string record(std::string_view data) {
  const std::string length = little_endian(static_cast<uint64_t>(data.size()));
  return length + little_endian(masked_crc(length)) + std::string(data) +
         little_endian(masked_crc(data));
}

// Ten digits keep the names in the order of time.
std::string new_file(Storage& storage, const std::string& directory, double seconds) {
  std::array<char, 24> time{};
  std::snprintf(time.data(), time.size(), "%010lld", static_cast<long long>(seconds));
  std::string host = host_name();
  std::ranges::replace(host, '/', '-');
  const std::string stem = join_path(
      directory, concat("events.out.tfevents.", time.data(), ".", host, ".", ::getpid(), "."));
  int n = 0;
  while (storage.exists(stem + std::to_string(n))) ++n;
  return stem + std::to_string(n);
}

}  // namespace

EventWriter::EventWriter(Storage& storage, const std::string& directory, const Clock& clock)
    : clock_(clock) {
  storage.make_directories(directory);
  path_ = new_file(storage, directory, clock.wall());
  file_ = storage.create(path_);
  write_event(bytes_field(3, "brain.Event:2"));  // file_version
}

void EventWriter::write_scalars(int64_t step, std::span<const ScalarValue> values) {
  std::string summary;
  for (const ScalarValue& scalar : values)
    summary += bytes_field(1, bytes_field(1, scalar.tag) + float_field(2, scalar.value));
  write_event(integer_field(2, step) + bytes_field(5, summary));
}

void EventWriter::write_histograms(int64_t step, std::span<const CountsValue> values) {
  std::string summary;
  for (const CountsValue& value : values)
    summary += bytes_field(1, bytes_field(1, value.tag) + bytes_field(5, histogram(value.counts)));
  write_event(integer_field(2, step) + bytes_field(5, summary));
}

void EventWriter::write_text(int64_t step, std::string_view tag, std::string_view text) {
  const std::string metadata = bytes_field(1, bytes_field(1, "text"));  // plugin_data
  const std::string shape = bytes_field(2, integer_field(1, 1));        // dim { size: 1 }
  const std::string tensor =
      integer_field(1, kTensorTypeString) + bytes_field(2, shape) + bytes_field(8, text);
  const std::string value = bytes_field(1, tag) + bytes_field(8, tensor) + bytes_field(9, metadata);
  write_event(integer_field(2, step) + bytes_field(5, bytes_field(1, value)));
}

void EventWriter::write_event(std::string_view fields) {
  sextant::write_text(*file_, record(double_field(1, clock_.wall()) + std::string(fields)));
}

}  // namespace sextant
