#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

using namespace std::string_literals;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// A file with this header and data, and a length that may lie.
std::string file_with(const std::string& header, const std::string& data, uint64_t length) {
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i) out[i] = static_cast<char>(length >> 8 * i);
  return out + header + data;
}
std::string file_with(const std::string& header, const std::string& data = "") {
  return file_with(header, data, header.size());
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

void expect_refused(const std::string& file, const std::string& text) {
  EXPECT_ERROR(SafetensorsFile(bytes_of(file), "f"), Data, text);
}

class MemoryWriter final : public FileWriter {
 public:
  void write(std::span<const std::byte> bytes) override { text += text_of(bytes); }
  void sync() override {}
  int64_t offset() const override { return static_cast<int64_t>(text.size()); }
  std::string text;
};

TEST(Safetensors, ReadsTensorsInDataOrderWithTheirMetadata) {
  const std::string bytes = file_with(
      "{" + entry("b", "F32", "[1,2]", "[2,10]") + ",\"__metadata__\":{\"format\":\"pt\"}," +
          entry("a", "U8", "[2]", "[0,2]") + "," + entry("s", "I16", "[]", "[10,12]") + "}  ",
      "xy12345678zz");
  const SafetensorsFile file(bytes_of(bytes), "f");
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.at("b").type, StoredType::F32);
  EXPECT_EQ(file.at("b").shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(text_of(file.at("b").data), "12345678");
  EXPECT_TRUE(file.at("s").shape.empty());
  EXPECT_EQ(text_of(file.at("s").data), "zz");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_ERROR(file.at("c"), Data, "f: no tensor \"c\" among its 3");
}

TEST(Safetensors, AcceptsEmptyFilesEmptyTensorsAndFieldsItDoesNotKnow) {
  EXPECT_TRUE(SafetensorsFile(bytes_of(file_with("{}")), "f").tensors().empty());
  EXPECT_TRUE(
      SafetensorsFile(bytes_of(file_with("{\"__metadata__\":null}")), "f").metadata().empty());
  const std::string empties =
      file_with("{" + entry("a", "F32", "[0,3]", "[1,1]") + "," + entry("b", "U8", "[1]", "[0,1]") +
                    "," + entry("c", "F64", "[0]", "[0,0]") + "}",
                "x");
  EXPECT_EQ(SafetensorsFile(bytes_of(empties), "f").tensors().size(), 3u);
  const std::string extra = file_with(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"note":[1.5,{"k":null}]}})", "x");
  EXPECT_EQ(SafetensorsFile(bytes_of(extra), "f").tensors().size(), 1u);
}

TEST(Safetensors, RefusesHeadersOfImpossibleLength) {
  expect_refused("", "f: 0 bytes is too short");
  expect_refused("1234567", "7 bytes is too short");
  expect_refused(file_with("{}", "", 0), "header of 0 bytes");
  expect_refused(file_with("{}", "", 100'000'001), "at most 100000000 are allowed");
  expect_refused(file_with("{}", "", UINT64_MAX), "18446744073709551615 bytes; at most");
  expect_refused(file_with("{}", "", 3), "header of 3 bytes runs past the end of the file");
}

TEST(Safetensors, RefusesHeadersThatAreNotTheJsonOfTensors) {
  expect_refused(file_with("[]"), "must begin with '{'");
  expect_refused(file_with(" {}"), "must begin with '{'");
  expect_refused(file_with("{\"a\":}"), "not valid JSON at byte 6");
  expect_refused(file_with("{}\0\0"s), "not valid JSON");
  expect_refused(file_with("{\"\xff\":1}"), "not valid JSON");
  expect_refused(file_with("{\"a\":null}"), "its entry is not an object");
  expect_refused(file_with("{\"a\":{\"shape\":[],\"data_offsets\":[0,0]}}"), "dtype is missing");
  expect_refused(file_with("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,0]}}"),
                 "shape is missing");
  expect_refused(file_with("{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}"), "data_offsets is missing");
  expect_refused(file_with("{\"__metadata__\":{\"a\":1}}"), "value that is not a string");
  expect_refused(file_with("{\"__metadata__\":[]}"), "not an object of strings");
}

TEST(Safetensors, RefusesDuplicateKeys) {
  const std::string one = entry("a", "U8", "[1]", "[0,1]");
  expect_refused(file_with("{" + one + "," + one + "}", "x"), "key \"a\" occurs twice");
  expect_refused(file_with("{\"__metadata__\":{\"k\":\"1\",\"k\":\"1\"}}"), "key \"k\" occurs");
}

TEST(Safetensors, RefusesTypesAndSizesItCannotKnow) {
  expect_refused(file_with("{" + entry("a", "F31", "[1]", "[0,1]") + "}", "x"),
                 "tensor \"a\": dtype is \"\"F31\"\"");
  for (const char* shape : {"[-1]", "[1.0]", "[-0]", "[\"1\"]", "[18446744073709551616]"})
    expect_refused(file_with("{" + entry("a", "U8", shape, "[0,1]") + "}", "x"), "whole number");
  expect_refused(file_with("{" + entry("a", "U8", "1", "[0,1]") + "}", "x"), "not a list of dims");
  expect_refused(file_with("{" + entry("a", "U8", "[1]", "[0,1,1]") + "}", "x"), "two numbers");
  expect_refused(file_with("{" + entry("a", "U8", "[0,9223372036854775808]", "[0,0]") + "}"),
                 "at most 2^63 - 1");
}

TEST(Safetensors, RefusesShapesThatOverflow) {
  const std::string big = "1099511627776";  // 2^40
  for (const std::string& shape :
       {"[" + big + "," + big + "]", "[" + big + "," + big + ",0]", "[1152921504606846976]"s})
    expect_refused(file_with("{" + entry("a", "F32", shape, "[0,0]") + "}"), "overflow 64 bits");
  const std::string empty =
      file_with("{" + entry("a", "F32", "[0," + big + "," + big + "]", "[0,0]") + "}");
  EXPECT_NO_THROW(SafetensorsFile(bytes_of(empty), "f"));
}

TEST(Safetensors, RefusesDataThatDoesNotFitTheHeader) {
  expect_refused(file_with("{" + entry("a", "F32", "[2]", "[0,4]") + "}", "1234"),
                 "do not fit the 8 bytes");
  expect_refused(file_with("{" + entry("a", "U8", "[1]", "[1,0]") + "}", "1"),
                 "end before they begin");
  expect_refused(file_with("{" + entry("a", "F4", "[3]", "[0,1]") + "}", "1"), "whole bytes");
  const std::string a = entry("a", "U8", "[4]", "[0,4]");
  expect_refused(file_with("{" + a + "}", "12345"), "1 bytes after the last tensor");
  expect_refused(file_with("{" + a + "}", "123"), "past the end of the file's 3 bytes");
  expect_refused(file_with("{" + a + "," + entry("b", "U8", "[4]", "[2,6]") + "}", "123456"),
                 "tensor \"b\": data begins at 2, inside the tensor before it; 4 would be right");
  expect_refused(file_with("{" + a + "," + entry("b", "U8", "[1]", "[5,6]") + "}", "123456"),
                 "data begins at 5, after a hole; 4 would be right");
}

TEST(Safetensors, EveryPrefixOfAFileIsRefused) {
  const std::string whole = file_with("{" + entry("a", "U8", "[4]", "[0,4]") + "}", "1234");
  EXPECT_NO_THROW(SafetensorsFile(bytes_of(whole), "f"));
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(SafetensorsFile(bytes_of(whole.substr(0, size)), "f"), Error) << size;
}

TEST(Safetensors, WritesTheBytesOfTheReferenceWriter) {
  // Made with safetensors.numpy.save of version 0.8.0.
  const std::string header =
      "{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,"
      "8]}"
      ",\"c\":{\"dtype\":\"F16\",\"shape\":[1,1],\"data_offsets\":[8,10]}"
      ",\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[10,11]}}";
  MemoryWriter file;
  SafetensorsWriter writer(
      file,
      {{"b", StoredType::U8, {}}, {"a", StoredType::F32, {2}}, {"c", StoredType::F16, {1, 1}}},
      {{"k", "v"}});
  writer.write("a", bytes_of("123"));
  writer.write("a", bytes_of("45678"));
  writer.write("c", bytes_of("cc"));
  writer.write("b", bytes_of("b"));
  writer.finish();
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(file.text, file_with(padded, "12345678ccb"));
}

TEST(Safetensors, WhatIsWrittenReadsBackFromDisk) {
  const TempDir dir;
  DiskStorage disk;
  Storage& storage = disk;
  const std::string name = "ü\"\n\x01";
  {
    const auto file = storage.create(dir / "t.safetensors");
    SafetensorsWriter writer(*file,
                             {{name, StoredType::BF16, {3}}, {"none", StoredType::F64, {0, 7}}},
                             {{"ключ", "\\"}});
    EXPECT_EQ(writer.order().front().name, "none");
    writer.write(name, bytes_of("abcdef"));
    writer.finish();
  }
  const SafetensorsFile file(storage, dir / "t.safetensors");
  EXPECT_EQ(text_of(file.at(name).data), "abcdef");
  EXPECT_EQ(file.at("none").shape, (std::vector<int64_t>{0, 7}));
  EXPECT_EQ(file.metadata().at("ключ"), "\\");
  EXPECT_ERROR(SafetensorsFile(storage, dir / "absent"), Data, "cannot read");
}

TEST(Safetensors, WriterAcceptsOnlyTheDataThatWasDeclared) {
  MemoryWriter file;
  SafetensorsWriter writer(file, {{"a", StoredType::U8, {2}}, {"b", StoredType::U8, {1}}});
  EXPECT_ERROR(writer.write("b", bytes_of("1")), Usage, "\"b\" is written when \"a\" is due");
  EXPECT_ERROR(writer.write("a", bytes_of("123")), Usage, "gets 3 bytes where 2 are left");
  writer.write("a", bytes_of("1"));
  EXPECT_ERROR(writer.finish(), Usage, "tensor \"a\" lacks 1 bytes");
  writer.write("a", bytes_of("2"));
  writer.write("b", bytes_of("3"));
  EXPECT_ERROR(writer.write("b", bytes_of("4")), Usage, "when none is due");
  EXPECT_NO_THROW(writer.finish());
}

TEST(Safetensors, WriterRefusesEntriesThatNoFileCanHold) {
  MemoryWriter file;
  const StoredEntry a{"a", StoredType::F32, {1}};
  EXPECT_ERROR(SafetensorsWriter(file, {a, a}), Usage, "\"a\" is written twice");
  EXPECT_ERROR(SafetensorsWriter(file, {{"__metadata__", StoredType::U8, {}}}), Usage, "named");
  EXPECT_ERROR(SafetensorsWriter(file, {{"a", StoredType::U8, {-1}}}), Usage, "dim -1");
  EXPECT_ERROR(SafetensorsWriter(file, {{"\xff", StoredType::U8, {1}}}), Data, "not UTF-8");
  EXPECT_ERROR(SafetensorsWriter(file, {{"a", StoredType::F64, {INT64_MAX}}}), Data, "overflow");
  EXPECT_TRUE(file.text.empty());
}

TEST(Safetensors, KnowsEveryTypeByNameAndSize) {
  EXPECT_EQ(to_string(StoredType::BOOL), "BOOL");
  EXPECT_EQ(to_string(StoredType::BF16), "BF16");
  EXPECT_EQ(to_string(StoredType::F8_E4M3), "F8_E4M3");
  EXPECT_EQ(to_string(StoredType::U64), "U64");
  EXPECT_EQ(bit_size(StoredType::F4), 4);
  EXPECT_EQ(bit_size(StoredType::I64), 64);
  EXPECT_EQ(byte_size({"a", StoredType::F6_E2M3, {4, 2}}), 6);
}

}  // namespace
}  // namespace sextant
