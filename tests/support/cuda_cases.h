#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "support/workbench.h"
#include "tensor/convert.h"

namespace sextant {

// Calls of ops that run on a GPU in f32, bf16 and f16, and on the CPU in f64 on the same values.

// The type of a tensor on the GPU.
//   Compute     the compute type: f32, bf16 or f16
//   Statistics  f32
//   Gradient    the compute type, and f32 in a second run
//   Double      f64
//   Whole       i32
enum class Role { Compute, Statistics, Gradient, Double, Whole };
// Out: NaN before the call. InOut: read and written. In: must not change.
enum class Use { In, Out, InOut };

struct CudaTensor {
  Role role;
  Shape shape;
  Use use = Use::In;
  double scale = 1, offset = 0;     // of normal values
  std::vector<int32_t> whole = {};  // of Role::Whole
};

struct CudaCase {
  std::string name;
  std::vector<CudaTensor> tensors;
  std::function<void(Stream&, std::span<Tensor>)> call;
  int roundings = 0;    // of values to the compute type on the way to a result
  double noise = 3e-6;  // of sums in f32, relative to the largest result
};

// A choice of types, and by how many elements all tensors are off an aligned address, one run on
// the GPU after the other.
struct CudaRun {
  DType compute, gradient;
  std::vector<int64_t> shifts;
};

inline constexpr int64_t kCudaCaseBytes = int64_t{512} << 20;  // of all tensors, with scratch

namespace cuda_cases {

inline DType type_of(Role role, const CudaRun& run) {
  switch (role) {
    case Role::Compute:
      return run.compute;
    case Role::Gradient:
      return run.gradient;
    case Role::Statistics:
      return DType::F32;
    case Role::Double:
      return DType::F64;
    case Role::Whole:
      return DType::I32;
  }
  return DType::F32;
}

// Half a unit in the last place, relative.
inline double roundoff(DType type) {
  return type == DType::BF16 ? 0x1p-8 : type == DType::F16 ? 0x1p-11 : 0x1p-24;
}

inline std::vector<std::byte> converted(DType to, DType from, std::span<const std::byte> bytes) {
  const auto count = static_cast<int64_t>(bytes.size()) / size_of(from);
  std::vector<std::byte> out(static_cast<size_t>(count * size_of(to)));
  convert(to, out.data(), from, bytes.data(), count);
  return out;
}

// The bytes of a tensor before the call, as `type` and, with the same values, as `wide`.
struct Bytes {
  std::vector<std::byte> own, wide;
};
inline Bytes before(const CudaTensor& tensor, DType type, DType wide, const std::string& name) {
  const auto count = static_cast<size_t>(tensor.shape.elements());
  if (tensor.role == Role::Whole) {
    std::vector<std::byte> bytes(count * sizeof(int32_t));
    std::memcpy(bytes.data(), tensor.whole.data(), bytes.size());
    return {bytes, bytes};
  }
  std::vector<double> values(count);
  const Random random(7, name);
  std::array<double, 4> four{};
  for (size_t i = 0; i < count && tensor.use != Use::Out; ++i) {
    if (i % 4 == 0) four = random.normals(i / 4);
    values[i] = tensor.offset + tensor.scale * four[i % 4];
  }
  Bytes out;
  out.own = converted(type, DType::F64, std::as_bytes(std::span(values)));
  out.wide = converted(wide, type, out.own);
  return out;
}

inline Tensor make(Workbench& bench, DType type, const Shape& shape, int64_t shift) {
  const int64_t count = shape.elements();
  const Tensor whole =
      bench.arena().allocate(Category::Activations, type, {std::max<int64_t>(1, count + shift)});
  return whole.slice(shift, shift + count).view(shape);
}

inline std::vector<double> as_doubles(DType type, std::span<const std::byte> bytes) {
  const std::vector<std::byte> wide = converted(DType::F64, type, bytes);
  std::vector<double> values(wide.size() / sizeof(double));
  std::memcpy(values.data(), wide.data(), wide.size());
  return values;
}

// All elements within `tolerance` of the largest finite value; names the worst.
inline void expect_near(const std::vector<double>& got, const std::vector<double>& wanted,
                        double tolerance, const std::string& name) {
  ASSERT_EQ(got.size(), wanted.size()) << name;
  double largest = 0, worst = 0;
  size_t at = 0;
  for (const double value : wanted)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i) {
    const bool is_same = got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i]));
    const double error = is_same ? 0 : std::abs(got[i] - wanted[i]);
    if (error <= worst) continue;  // not for a NaN
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    at = i;
  }
  EXPECT_LE(worst, tolerance * largest)
      << name << " element " << at << " is " << (got.empty() ? 0 : got[at]) << " instead of "
      << (got.empty() ? 0 : wanted[at]);
}

// The bytes of all tensors after the call, which gets them off by `shift` elements.
inline std::vector<std::vector<std::byte>> run_on(Workbench& bench, const CudaCase& test,
                                                  std::span<const DType> types,
                                                  std::span<const std::vector<std::byte>> bytes,
                                                  int64_t shift) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < test.tensors.size(); ++i) {
    const bool is_shifted = test.tensors[i].role != Role::Double;
    tensors.push_back(make(bench, types[i], test.tensors[i].shape, is_shifted ? shift : 0));
    copy_bytes_from_host(bench.stream(), tensors.back(), bytes[i]);
  }
  test.call(bench.stream(), tensors);
  bench.stream().check_data();
  std::vector<std::vector<std::byte>> after;
  for (const Tensor& tensor : tensors) after.push_back(bench.bytes(tensor));
  return after;
}

inline void compare(Workbench& cpu, Workbench& gpu, const CudaCase& test, const CudaRun& run) {
  std::vector<DType> types, wide_types;
  std::vector<std::vector<std::byte>> own, wide;
  for (size_t i = 0; i < test.tensors.size(); ++i) {
    const CudaTensor& tensor = test.tensors[i];
    types.push_back(type_of(tensor.role, run));
    wide_types.push_back(tensor.role == Role::Whole ? DType::I32 : DType::F64);
    Bytes bytes = before(tensor, types.back(), wide_types.back(), test.name + std::to_string(i));
    if (tensor.use == Use::Out) bytes.own.assign(bytes.own.size(), std::byte{0xff});
    own.push_back(bytes.own);
    wide.push_back(bytes.wide);
  }
  const auto wanted = run_on(cpu, test, wide_types, wide, 0);
  for (const int64_t shift : run.shifts) {
    const std::string run_name = test.name + " in " + std::string(name_of(run.compute)) + " with " +
                                 std::string(name_of(run.gradient)) + " gradients, off by " +
                                 std::to_string(shift);
    const auto got = run_on(gpu, test, types, own, shift);
    EXPECT_TRUE(got == run_on(gpu, test, types, own, shift))
        << run_name << ": a second run gives other bits";
    for (size_t i = 0; i < got.size(); ++i) {
      const std::string name = run_name + ", tensor " + std::to_string(i);
      if (test.tensors[i].use == Use::In) {
        EXPECT_TRUE(got[i] == own[i]) << name << " was changed";
        continue;
      }
      const double tolerance =
          roundoff(types[i]) + 4 * test.roundings * roundoff(run.compute) + test.noise;
      expect_near(as_doubles(types[i], got[i]), as_doubles(wide_types[i], wanted[i]), tolerance,
                  name);
    }
  }
}

}  // namespace cuda_cases

// Skips its tests where there is no GPU.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (list_gpus().gpus.empty()) GTEST_SKIP() << "no NVIDIA GPU";
    const auto threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    cpu_.emplace(threads, DeviceKind::Cpu, kCudaCaseBytes);
    gpu_.emplace(1, DeviceKind::Cuda, kCudaCaseBytes);
  }
  Workbench& on(DeviceKind device) { return device == DeviceKind::Cuda ? *gpu_ : *cpu_; }

  // The op gives what the CPU gives in f64, up to the rounding of its types, on aligned and
  // unaligned tensors; and the same bits again.
  void expect_like_cpu(const CudaCase& test) {
    bool has_gradients = false;
    for (const CudaTensor& tensor : test.tensors) has_gradients |= tensor.role == Role::Gradient;
    for (const DType compute : {DType::F32, DType::BF16, DType::F16}) {
      expect_like_cpu(test, {compute, compute, {0, 1}});
      if (has_gradients && compute != DType::F32)
        expect_like_cpu(test, {compute, DType::F32, {0, 1}});
    }
  }
  void expect_like_cpu(const CudaCase& test, const CudaRun& run) {
    cuda_cases::compare(*cpu_, *gpu_, test, run);
  }

 private:
  std::optional<Workbench> cpu_, gpu_;
};

// Tensors of cases.
inline CudaTensor in(const Shape& shape, double scale = 1, double offset = 0) {
  return {Role::Compute, shape, Use::In, scale, offset};
}
inline CudaTensor out(const Shape& shape) {
  return {Role::Compute, shape, Use::Out};
}
inline CudaTensor changed(const Shape& shape) {
  return {Role::Compute, shape, Use::InOut};
}
inline CudaTensor gradient(const Shape& shape, Use use) {
  return {Role::Gradient, shape, use};
}
inline CudaTensor statistics(const Shape& shape, Use use = Use::In, double scale = 0.1,
                             double offset = 2) {
  return {Role::Statistics, shape, use, scale, offset};
}
inline CudaTensor whole(const Shape& shape, const std::vector<int32_t>& values) {
  return {Role::Whole, shape, Use::In, 1, 0, values};
}
// Whole numbers 0 ... below - 1 as if drawn at random.
inline std::vector<int32_t> some_below(int64_t count, int64_t below) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  const Random random(11, "whole");
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<int32_t>(random.below(static_cast<uint64_t>(below), i));
  return values;
}

}  // namespace sextant
