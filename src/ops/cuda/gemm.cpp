// cuBLASLt sees a row-major matrix as a column-major one transposed: for c = a * b it makes
// c^T = b^T * a^T, so b is its first operand and a its second. Its rows are the n columns of c, and
// a bias along its rows is one along our columns.
// A plan is what the library needs to know of a product, and the kernel that its heuristics or,
// with tune_matmul, a measurement chose. Plans are kept with a handle of the library, which one
// thread uses at a time: in a steady step nothing is asked for again.
#include "ops/cuda/gemm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "ops/cuda/cublas_lt.h"
#include "ops/cuda/gemm_timer.h"
#include "ops/cuda/library_pool.h"
#include "ops/gemm_choices.h"
#include "ops/matmul_tuning.h"
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
    case GemmEnd::SumsOfA:  // the second operand of the library
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

cublasLtMatmulMatrixScale_t mode_of(Fp8Scales order) {
  switch (order) {
    case Fp8Scales::Tiles:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case Fp8Scales::Blocks:
      return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    default:
      return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  }
}

// What kernels can make use of: up to 16 bytes.
int64_t alignment_of(const void* address) {
  return std::gcd(int64_t{16}, static_cast<int64_t>(reinterpret_cast<uintptr_t>(address) % 16));
}

using Key = GemmChoices::Key;
using Kernel = cublasLtMatmulAlgo_t;
static_assert(sizeof(Kernel) == sizeof(GemmChoices::Kernel));

// The types of all but c, and the orders of scales.
int64_t types_of(const Gemm& p) {
  int64_t types = static_cast<int64_t>(p.type);
  for (const Fp8Operand& operand : {p.fp8_a, p.fp8_b})
    if (p.is_fp8())
      types = types << 16 | static_cast<int64_t>(operand.order) << 8 |
              static_cast<int64_t>(operand.type);
  return types;
}

Key key_of(const Gemm& p) {
  return {p.m,
          p.n,
          p.k,
          types_of(p),
          static_cast<int64_t>(p.c_type),
          static_cast<int64_t>(p.transpose_a),
          static_cast<int64_t>(p.transpose_b),
          p.a_stride,
          p.b_stride,
          p.beta != 0,
          static_cast<int64_t>(p.end),
          alignment_of(p.a),
          alignment_of(p.b),
          alignment_of(p.c),
          alignment_of(p.bias),
          alignment_of(p.auxiliary)};
}

struct Plan {
  Operation operation;
  Layout first, second, out;
  std::optional<Kernel> kernel;  // none: the library has none
};

template <class T>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_blas(cublas_lt().set_operation(operation.get(), attribute, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check_blas(cublas_lt().set_preference(preference.get(), attribute, &value, sizeof(value)),
             "cublasLtMatmulPreferenceSetAttribute");
}

// A matrix that lies in memory as `rows` rows of `columns`.
Layout make_layout(DType type, int64_t rows, int64_t columns, int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_blas(cublas_lt().create_layout(&layout, type_of(type), static_cast<uint64_t>(columns),
                                       static_cast<uint64_t>(rows), stride),
             "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

void set_pointers(const Operation& operation, const Gemm& p) {
  if (p.is_fp8()) {
    set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.fp8_b.scales);
    set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.fp8_a.scales);
  }
  if (p.bias != nullptr) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.auxiliary != nullptr)
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.auxiliary);
}

Operation make_operation(const Gemm& p) {
  cublasLtMatmulDesc_t made = nullptr;
  check_blas(cublas_lt().create_operation(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "cublasLtMatmulDescCreate");
  Operation operation(made);
  const auto transposed = [](Transpose t) {
    return t == Transpose::Yes ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, transposed(p.transpose_b));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, transposed(p.transpose_a));
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p.end));
  if (p.end == GemmEnd::SumsOfA)
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(type_of(p.c_type)));
  if (p.auxiliary != nullptr) set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.n);
  if (p.is_fp8()) {
    const bool is_fast = p.fp8_a.order == Fp8Scales::One && p.fp8_a.type == DType::F8E4M3 &&
                         p.fp8_b.type == DType::F8E4M3;
    set(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<int8_t>(is_fast));
    set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode_of(p.fp8_b.order));
    set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode_of(p.fp8_a.order));
  }
  set_pointers(operation, p);
  return operation;
}

// Sums that are split along k meet in the workspace, in f32 and in fixed order, or nowhere.
Preference make_preference(const Gemm& p) {
  cublasLtMatmulPreference_t made = nullptr;
  check_blas(cublas_lt().create_preference(&made), "cublasLtMatmulPreferenceCreate");
  Preference preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kGemmWorkspace));
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  const auto align = [&](cublasLtMatmulPreferenceAttributes_t attribute, const void* address) {
    set(preference, attribute, static_cast<uint32_t>(alignment_of(address)));
  };
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.b);
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.a);
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.c);
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.c);
  return preference;
}

// The library and the plans on one GPU, of one thread at a time.
class Planner {
 public:
  Planner() { check_blas(cublas_lt().create(&library_), "cublasLtCreate"); }
  ~Planner() { cublas_lt().destroy(library_); }
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // By another thread, which has not asked for measurements.
  void start() { tune(""); }
  // See tune_matmul.
  void tune(const std::string& directory) {
    if (directory == directory_) return;
    directory_ = directory;
    choices_.reset();
    if (!directory.empty()) choices_.emplace(directory, file_name());
    plans_.clear();
  }

  const Plan& plan(Stream& stream, const Gemm& p) {
    const Key key = key_of(p);
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    return plans_.emplace(key, make(stream, p, key)).first->second;
  }

  // Without a kernel where `other` is the better way.
  const Plan& plan_against(Stream& stream, const Gemm& p, FunctionRef<void()> other) {
    const Key key = key_of(p);
    if (const auto made = plans_.find(key); made != plans_.end()) return made->second;
    Plan plan = describe(p);
    if (is_tuned(stream, p)) plan.kernel = kernel_against(stream, p, plan, key, other);
    return plans_.emplace(key, std::move(plan)).first->second;
  }

  cublasStatus_t run(Stream& stream, const Plan& plan, const Kernel& kernel, const Gemm& p) const {
    const float alpha = 1;
    return cublas_lt().matmul(library_, plan.operation.get(), &alpha, p.b, plan.first.get(), p.a,
                              plan.second.get(), &p.beta, p.c, plan.out.get(), p.c, plan.out.get(),
                              &kernel, stream.shared_scratch().data(),
                              static_cast<size_t>(kGemmWorkspace), queue_of(stream));
  }

 private:
  static constexpr int kMostKernels = 16;  // that are measured

  // Changes with everything that makes another kernel the fastest, or one unknown.
  static std::string file_name() {
    int gpu = 0;
    cudaDeviceProp properties{};
    check(cudaGetDevice(&gpu), "cudaGetDevice");
    check(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
    std::string name = concat("gemm-", static_cast<const char*>(properties.name), "-",
                              properties.multiProcessorCount, "-", cublas_lt().version(), ".txt");
    std::ranges::replace_if(
        name, [](char c) { return c == ' ' || c == '/'; }, '-');
    return name;
  }

  // A product that starts from c cannot be tried out, and a recorded one does not run.
  bool is_tuned(Stream& stream, const Gemm& p) const {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(queue_of(stream), &capture), "cudaStreamIsCapturing");
    return choices_ && p.beta == 0 && p.a_type() != DType::F32 &&
           capture == cudaStreamCaptureStatusNone;
  }

  static Plan describe(const Gemm& p) {
    const bool ta = p.transpose_a == Transpose::Yes, tb = p.transpose_b == Transpose::Yes;
    return {make_operation(p),
            make_layout(p.b_type(), tb ? p.n : p.k, tb ? p.k : p.n, p.b_stride),
            make_layout(p.a_type(), ta ? p.k : p.m, ta ? p.m : p.k, p.a_stride),
            make_layout(p.c_type, p.m, p.n, p.n),
            {}};
  }

  // The fastest kernel, if it is faster than `other`. In the file a choice of all zeros is `other`.
  std::optional<Kernel> kernel_against(Stream& stream, const Gemm& p, const Plan& plan,
                                       const Key& key, FunctionRef<void()> other) {
    constexpr GemmChoices::Kernel kOther{};
    if (const auto kept = choices_->find(key)) {
      if (*kept == kOther) return {};
      return std::bit_cast<Kernel>(*kept);
    }
    const std::vector<Kernel> kernels = find_kernels(plan, p, kMostKernels);
    if (kernels.empty()) return {};
    const size_t fastest = fastest_of(kernels.size() + 1, queue_of(stream), [&](size_t way) {
      if (way > 0) return run(stream, plan, kernels[way - 1], p) == CUBLAS_STATUS_SUCCESS;
      other();
      return true;
    });
    const auto chosen =
        fastest == 0 ? kOther : std::bit_cast<GemmChoices::Kernel>(kernels[fastest - 1]);
    if (!choices_->keep(key, chosen) || fastest == 0) return {};
    return kernels[fastest - 1];
  }

  Plan make(Stream& stream, const Gemm& p, const Key& key) {
    Plan plan = describe(p);
    const bool tunes = is_tuned(stream, p);
    if (tunes)
      if (const auto kept = choices_->find(key)) {
        plan.kernel = std::bit_cast<Kernel>(*kept);
        return plan;
      }
    const std::vector<Kernel> kernels = find_kernels(plan, p, tunes ? kMostKernels : 1);
    if (kernels.empty()) return plan;
    plan.kernel = kernels.front();
    if (kernels.size() == 1) return plan;
    const size_t fastest = fastest_of(kernels.size(), queue_of(stream), [&](size_t i) {
      return run(stream, plan, kernels[i], p) == CUBLAS_STATUS_SUCCESS;
    });
    if (choices_->keep(key, std::bit_cast<GemmChoices::Kernel>(kernels[fastest])))
      plan.kernel = kernels[fastest];
    return plan;
  }

  // The heuristics' best, at most `most`.
  std::vector<Kernel> find_kernels(const Plan& plan, const Gemm& p, int most) const {
    const Preference preference = make_preference(p);
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
    int count = 0;
    const cublasStatus_t status = cublas_lt().find_kernels(
        library_, plan.operation.get(), plan.first.get(), plan.second.get(), plan.out.get(),
        plan.out.get(), preference.get(), most, found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
    check_blas(status, "cublasLtMatmulAlgoGetHeuristic");
    std::vector<Kernel> kernels;
    for (int i = 0; i < count; ++i)
      if (found[static_cast<size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
        kernels.push_back(found[static_cast<size_t>(i)].algo);
    return kernels;
  }

  cublasLtHandle_t library_ = nullptr;
  std::map<Key, Plan> plans_;
  std::string directory_;
  std::optional<GemmChoices> choices_;  // with tune_matmul
};

Planner& planner_of(Stream& stream) {
  return LibraryPool<Planner>::of_thread(stream.device().index);
}

}  // namespace

bool gemm(Stream& stream, const Gemm& problem) {
  static_cast<void>(queue_of(stream));  // makes the GPU current
  Planner& planner = planner_of(stream);
  const Plan& plan = planner.plan(stream, problem);
  if (!plan.kernel) return false;
  set_pointers(plan.operation, problem);
  check_blas(planner.run(stream, plan, *plan.kernel, problem), "cublasLtMatmul");
  return true;
}

bool gemm_if_faster(Stream& stream, const Gemm& problem, FunctionRef<void()> other) {
  static_cast<void>(queue_of(stream));  // makes the GPU current
  Planner& planner = planner_of(stream);
  const Plan& plan = planner.plan_against(stream, problem, other);
  if (!plan.kernel) return false;
  set_pointers(plan.operation, problem);
  check_blas(planner.run(stream, plan, *plan.kernel, problem), "cublasLtMatmul");
  return true;
}

void tune_matmul(Stream& stream, const std::string& directory) {
  static_cast<void>(queue_of(stream));  // makes the GPU current
  planner_of(stream).tune(directory);
}

}  // namespace sextant::cuda
