// As gemm.cpp: c^T = b * a^T in column-major order, so b is the library's first operand and a its
// second. Plans are kept by thread, which is a rank.
#include "ops/cuda/fp8_gemm.h"

#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "ops/cuda/cublas_lt.h"
#include "tensor/cuda/queue.h"

namespace sextant::cuda {
namespace {

void check_blas(cublasStatus_t status, const char* what) {
  SXT_CHECK(status == CUBLAS_STATUS_SUCCESS, Failure, what, ": ", cublas_lt().status_text(status));
}

template <auto kDestroy>
struct Destroyer {
  template <class Handle>
  void operator()(Handle* handle) const {
    (cublas_lt().*kDestroy)(handle);
  }
};
using Operation =
    std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroyer<&CublasLt::destroy_operation>>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroyer<&CublasLt::destroy_layout>>;
using Preference =
    std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroyer<&CublasLt::destroy_preference>>;

cudaDataType type_of(DType type) {
  switch (type) {
    case DType::F8E4M3:
      return CUDA_R_8F_E4M3;
    case DType::F8E5M2:
      return CUDA_R_8F_E5M2;
    case DType::BF16:
      return CUDA_R_16BF;
    case DType::F16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

cublasLtEpilogue_t epilogue_of(GemmEnd end) {
  switch (end) {
    case GemmEnd::None:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case GemmEnd::Bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case GemmEnd::Gelu:
      return CUBLASLT_EPILOGUE_GELU;
    case GemmEnd::GeluBias:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    case GemmEnd::GeluAux:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case GemmEnd::GeluAuxBias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case GemmEnd::GeluBackward:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

cublasLtMatmulMatrixScale_t mode_of(Fp8Scales layout) {
  switch (layout) {
    case Fp8Scales::One:
      return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    case Fp8Scales::Tiles:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case Fp8Scales::Blocks:
      return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  }
  return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

bool is_fast(const Fp8Gemm& p) {
  return p.a.layout == Fp8Scales::One && p.a.type == DType::F8E4M3 && p.b.type == DType::F8E4M3;
}

using Key = std::array<int64_t, 10>;
Key key_of(const Fp8Gemm& p) {
  return {p.m,
          p.n,
          p.k,
          static_cast<int64_t>(p.a.type),
          static_cast<int64_t>(p.b.type),
          static_cast<int64_t>(p.a.layout),
          static_cast<int64_t>(p.b.layout),
          static_cast<int64_t>(p.c_type),
          p.beta != 0,
          static_cast<int64_t>(p.end)};
}

struct Plan {
  Operation operation;
  Layout first, second, out;
  std::optional<cublasLtMatmulAlgo_t> kernel;  // none: the library has none
};

template <class T>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_blas(cublas_lt().set_operation(operation.get(), attribute, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute");
}

// A matrix that lies in memory as `rows` rows of `columns`.
Layout make_layout(DType type, int64_t rows, int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_blas(cublas_lt().create_layout(&layout, type_of(type), static_cast<uint64_t>(columns),
                                       static_cast<uint64_t>(rows), columns),
             "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

void set_pointers(const Operation& operation, const Fp8Gemm& p) {
  set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.b.scales);
  set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.a.scales);
  if (p.bias != nullptr) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.auxiliary != nullptr)
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.auxiliary);
}

Operation make_operation(const Fp8Gemm& p) {
  cublasLtMatmulDesc_t made = nullptr;
  check_blas(cublas_lt().create_operation(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "cublasLtMatmulDescCreate");
  Operation operation(made);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<int8_t>(is_fast(p)));
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p.end));
  if (p.a.layout != Fp8Scales::One) {
    set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode_of(p.b.layout));
    set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode_of(p.a.layout));
  }
  if (p.bias != nullptr)
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(type_of(p.c_type)));
  if (p.auxiliary != nullptr) set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.n);
  set_pointers(operation, p);
  return operation;
}

// Sums that are split along k meet in the workspace, in f32 and in fixed order, or nowhere.
Preference make_preference() {
  cublasLtMatmulPreference_t made = nullptr;
  check_blas(cublas_lt().create_preference(&made), "cublasLtMatmulPreferenceCreate");
  Preference preference(made);
  const auto set_to = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_blas(cublas_lt().set_preference(preference.get(), attribute, &value, sizeof(value)),
               "cublasLtMatmulPreferenceSetAttribute");
  };
  set_to(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kGemmWorkspace));
  set_to(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  return preference;
}

// The library and the plans of one thread on one GPU.
class Planner {
 public:
  Planner() { check_blas(cublas_lt().create(&library_), "cublasLtCreate"); }
  ~Planner() { cublas_lt().destroy(library_); }
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  cublasLtHandle_t library() const { return library_; }

  const Plan& plan(const Fp8Gemm& p) {
    const auto [place, is_new] = plans_.try_emplace(key_of(p));
    if (is_new) place->second = make(p);
    return place->second;
  }

 private:
  Plan make(const Fp8Gemm& p) const {
    Plan plan{make_operation(p),
              make_layout(p.b.type, p.n, p.k),
              make_layout(p.a.type, p.m, p.k),
              make_layout(p.c_type, p.m, p.n),
              {}};
    const Preference preference = make_preference();
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = cublas_lt().find_kernels(
        library_, plan.operation.get(), plan.first.get(), plan.second.get(), plan.out.get(),
        plan.out.get(), preference.get(), 1, &found, &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return plan;
    check_blas(status, "cublasLtMatmulAlgoGetHeuristic");
    if (count > 0 && found.state == CUBLAS_STATUS_SUCCESS) plan.kernel = found.algo;
    return plan;
  }

  cublasLtHandle_t library_ = nullptr;
  std::map<Key, Plan> plans_;
};

Planner& planner_of(Stream& stream) {
  thread_local std::map<int, Planner> planners;  // by GPU
  return planners[stream.device().index];
}

}  // namespace

bool fp8_gemm(Stream& stream, const Fp8Gemm& problem) {
  const cudaStream_t queue = queue_of(stream);  // makes the GPU current
  Planner& planner = planner_of(stream);
  const Plan& plan = planner.plan(problem);
  if (!plan.kernel) return false;
  set_pointers(plan.operation, problem);
  const float alpha = 1;
  check_blas(cublas_lt().matmul(planner.library(), plan.operation.get(), &alpha, problem.b.data,
                                plan.first.get(), problem.a.data, plan.second.get(), &problem.beta,
                                problem.c, plan.out.get(), problem.c, plan.out.get(), &*plan.kernel,
                                stream.shared_scratch().data(), static_cast<size_t>(kGemmWorkspace),
                                queue),
             "cublasLtMatmul");
  return true;
}

}  // namespace sextant::cuda
