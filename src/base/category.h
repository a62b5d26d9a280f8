#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sextant {

// The purpose of an allocation.
enum class Category : uint8_t {
  Weights,
  Gradients,
  Optimizer,
  Activations,
  Workspace,
  Communication
};
inline constexpr int kCategories = 6;

constexpr std::string_view name_of(Category category) {
  constexpr std::array<std::string_view, kCategories> kNames = {
      "weights", "gradients", "optimizer", "activations", "workspace", "communication"};
  return kNames[static_cast<size_t>(category)];
}

using CategoryBytes = std::array<int64_t, kCategories>;  // indexed by Category

}  // namespace sextant
