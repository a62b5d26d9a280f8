// Any bytes are either refused with Error(Data) or read; what is read can be written and read again
// with equal entries and data.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "formats/safetensors.h"

namespace {

using namespace sextant;

class MemoryWriter final : public FileWriter {
 public:
  void write(std::span<const std::byte> data) override {
    bytes.insert(bytes.end(), data.begin(), data.end());
  }
  void sync() override {}
  int64_t offset() const override { return static_cast<int64_t>(bytes.size()); }
  std::vector<std::byte> bytes;
};

void require(bool condition) {
  if (!condition) std::abort();
}

void check_round_trip(const SafetensorsFile& file) {
  MemoryWriter memory;
  SafetensorsWriter writer(memory, {file.tensors().begin(), file.tensors().end()}, file.metadata());
  for (const StoredEntry& entry : writer.order())
    writer.write(entry.name, file.at(entry.name).data);
  writer.finish();
  const SafetensorsFile again(memory.bytes, "rewritten");
  require(again.metadata() == file.metadata());
  require(again.tensors().size() == file.tensors().size());
  for (const StoredTensor& tensor : file.tensors()) {
    const StoredTensor& other = again.at(tensor.name);
    require(other.type == tensor.type && other.shape == tensor.shape);
    require(
        std::equal(other.data.begin(), other.data.end(), tensor.data.begin(), tensor.data.end()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    check_round_trip(SafetensorsFile(std::as_bytes(std::span(data, size)), "input"));
  } catch (const Error& error) {
    require(error.fault() == Fault::Data);
  }
  return 0;
}
