// Drives the formats module from the Python tests, which compare it with the libraries it must
// agree with. Exit codes are those of the command line contract: 0, 2 for a wrong call, 4 for a bad
// file.
#include <cstdio>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/storage.h"
#include "formats/hf_config.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "formats/tensorboard.h"

namespace {

using namespace sextant;

// One line per tensor: name as JSON, type, dims. Nothing is printed for a file that is refused.
void check_safetensors(Storage& storage, const std::string& path) {
  const SafetensorsFile file(storage, path);
  for (const StoredTensor& tensor : file.tensors()) {
    std::string line = json_quoted(tensor.name) + " " + std::string(to_string(tensor.type));
    for (const int64_t dim : tensor.shape) line += " " + std::to_string(dim);
    std::puts(line.c_str());
  }
}

// One line per path on standard input: "ok" or the error, so that thousands cost one process.
void check_many_safetensors(Storage& storage) {
  char path[4096];
  while (std::fgets(path, sizeof path, stdin) != nullptr) {
    std::string name = path;
    if (name.ends_with('\n')) name.pop_back();
    try {
      const SafetensorsFile file(storage, name);
      std::puts("ok");
    } catch (const Error& error) {
      std::printf("%d %s\n", exit_code(error.fault()), error.what());
    }
  }
}

void rewrite_safetensors(Storage& storage, const std::string& from, const std::string& to) {
  const SafetensorsFile in(storage, from);
  const std::unique_ptr<FileWriter> out = storage.create(to);
  SafetensorsWriter writer(*out, {in.tensors().begin(), in.tensors().end()}, in.metadata());
  for (const StoredEntry& entry : writer.order()) writer.write(entry.name, in.at(entry.name).data);
  writer.finish();
}

// Two files, as after a resume; the values are exact in f32. test_tensorboard.py knows them.
void write_tensorboard(Storage& storage, const std::string& directory) {
  ManualClock clock;
  clock.advance(1.7e9);
  for (const int64_t begin : {0, 5}) {
    EventWriter writer(storage, directory, clock);
    for (int64_t step = begin; step < begin + 5; ++step) {
      clock.advance(0.5);
      const auto value = static_cast<float>(step);
      writer.write_scalars(step, std::vector<ScalarValue>{{"train/loss", 4.0f - value / 8.0f},
                                                          {"größe", value * 1e30f},
                                                          {"ramp", -value}});
    }
    writer.write_text(begin, "config", "begin = " + std::to_string(begin));
    writer.write_scalars(int64_t{1} << 40, std::vector<ScalarValue>{{"far", 0.1f}});
    writer.sync();
    clock.advance(10);
  }
}

// Reads a config.json and prints the one that would be written for it.
void rewrite_hf_config(Storage& storage, const std::string& path) {
  const HfConfig config = parse_hf_config(read_text(storage, path), path);
  std::fputs(hf_config_text(config).c_str(), stdout);
}

void dispatch(const std::vector<std::string>& arguments) {
  DiskStorage disk;
  Storage& storage = disk;
  const size_t count = arguments.size();
  const std::string command = count > 0 ? arguments[0] : "";
  if (command == "safetensors-check" && count == 2) {
    check_safetensors(storage, arguments[1]);
  } else if (command == "safetensors-check-many" && count == 1) {
    check_many_safetensors(storage);
  } else if (command == "safetensors-rewrite" && count == 3) {
    rewrite_safetensors(storage, arguments[1], arguments[2]);
  } else if (command == "tensorboard-write" && count == 2) {
    write_tensorboard(storage, arguments[1]);
  } else if (command == "hf-config-rewrite" && count == 2) {
    rewrite_hf_config(storage, arguments[1]);
  } else {
    SXT_FAIL(Usage,
             "formats_probe safetensors-check FILE | safetensors-check-many | "
             "safetensors-rewrite IN OUT | tensorboard-write DIR | hf-config-rewrite FILE");
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    dispatch({argv + 1, argv + argc});
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return exit_code(error.fault());
  }
}
