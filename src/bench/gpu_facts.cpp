#include "bench/gpu_facts.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <initializer_list>

#include "tensor/device.h"

namespace sextant {
namespace {

struct DataSheet {
  std::string_view name;  // part of the name that CUDA gives
  double tflops_f32, tflops_16;
};

// The more special name first.
constexpr std::array kDataSheets = {
    DataSheet{"H100 PCIe", 51.2, 756},
    DataSheet{"H100 NVL", 60, 835},
    DataSheet{"GH200", 66.9, 989.4},
    DataSheet{"H200", 66.9, 989.4},
    DataSheet{"H100", 66.9, 989.4},
    DataSheet{"B200", 80, 2250},
    DataSheet{"A100", 19.5, 312},
    DataSheet{"L40S", 91.6, 362},
    DataSheet{"GeForce RTX 4090", 82.6, 165.2},
};

// Calls f(function) if one of the libraries is there and has the symbol. It stays loaded: some of
// these libraries do not survive being closed.
template <class Function, class F>
std::string ask(std::initializer_list<const char*> libraries, const char* symbol, F&& f) {
  for (const char* library : libraries) {
    void* handle = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) continue;
    if (void* found = ::dlsym(handle, symbol)) return f(reinterpret_cast<Function*>(found));
  }
  return "";
}

// 91900 is 9.19.0; before version 9 one digit less.
std::string version_text(size_t number, size_t major) {
  const size_t rest = number % major;
  return fmt::format("{}.{}.{}", number / major, rest / 100, rest % 100);
}

}  // namespace

double data_sheet_peak(std::string_view name, DType dtype) {
  for (const DataSheet& sheet : kDataSheets)
    if (name.find(sheet.name) != std::string_view::npos)
      return 1e12 * (dtype == DType::F32 ? sheet.tflops_f32 : sheet.tflops_16);
  return 0;
}

double gpu_peak(DType dtype) {
  const GpuList list = list_gpus();
  return list.gpus.empty() ? 0 : data_sheet_peak(list.gpus.front().name, dtype);
}

std::string cublas_version() {
  return ask<size_t()>({"libcublasLt.so.13", "libcublasLt.so"}, "cublasLtGetVersion",
                       [](auto* version) { return version_text(version(), 10000); });
}

std::string cudnn_version() {
  return ask<size_t()>({"libcudnn.so.9", "libcudnn.so"}, "cudnnGetVersion",
                       [](auto* version) { return version_text(version(), 10000); });
}

std::string nccl_version() {
  return ask<int(int*)>({"libnccl.so.2", "libnccl.so"}, "ncclGetVersion", [](auto* version) {
    int number = 0;
    return version(&number) == 0 ? version_text(static_cast<size_t>(number), 10000) : "";
  });
}

}  // namespace sextant
