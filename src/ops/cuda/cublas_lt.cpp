#include "ops/cuda/cublas_lt.h"

#include <dlfcn.h>

#include "base/error.h"

namespace sextant::cuda {
namespace {

// Where the build found it, else by the loader's search path.
void* open_library() {
  void* library = nullptr;
  for (const char* name : {SXT_CUBLASLT_LIBRARY, "libcublasLt.so.13"})
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  SXT_CHECK(
      library != nullptr, Config,
      "GPUs need cuBLAS 13, and libcublasLt.so.13 cannot be loaded; install libcublas-13-0 or "
      "name its folder in LD_LIBRARY_PATH");
  return library;
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  SXT_CHECK(function != nullptr, Config, "libcublasLt.so.13 has no function ", name,
            "; cuBLAS 13 or later is needed on GPUs");
}

CublasLt load() {
  void* library = open_library();
  CublasLt out{};
  find(library, "cublasLtCreate", out.create);
  find(library, "cublasLtDestroy", out.destroy);
  find(library, "cublasLtGetStatusString", out.status_text);
  find(library, "cublasLtGetVersion", out.version);
  find(library, "cublasLtMatmul", out.matmul);
  find(library, "cublasLtMatmulAlgoGetHeuristic", out.find_kernels);
  find(library, "cublasLtMatmulDescCreate", out.create_operation);
  find(library, "cublasLtMatmulDescDestroy", out.destroy_operation);
  find(library, "cublasLtMatmulDescSetAttribute", out.set_operation);
  find(library, "cublasLtMatmulPreferenceCreate", out.create_preference);
  find(library, "cublasLtMatmulPreferenceDestroy", out.destroy_preference);
  find(library, "cublasLtMatmulPreferenceSetAttribute", out.set_preference);
  find(library, "cublasLtMatrixLayoutCreate", out.create_layout);
  find(library, "cublasLtMatrixLayoutDestroy", out.destroy_layout);
  return out;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt library = load();
  return library;
}

}  // namespace sextant::cuda
