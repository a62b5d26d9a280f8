#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"

namespace sextant {

// Far above any model, and far below where products of sizes overflow.
inline constexpr int64_t kLargestHfSize = int64_t{1} << 31;

// The keys of one JSON object, with errors that say where they stand. A null is an absent key.
class HfKeys {
 public:
  HfKeys(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  const nlohmann::json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  [[noreturn]] void refuse(const char* key, const char* right) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) SXT_FAIL(Data, where_, key, " is missing; ", right);
    SXT_FAIL(Data, where_, key, " is ", shown(value->dump(-1, ' ', true)), "; ", right);
  }

  int64_t size(const char* key) const {
    const nlohmann::json* value = find(key);
    const bool good = value != nullptr && value->is_number_unsigned() &&
                      value->get<uint64_t>() >= 1 && value->get<uint64_t>() <= kLargestHfSize;
    if (!good) refuse(key, "a whole number from 1 to 2^31 is needed");
    return value->get<int64_t>();
  }
  int64_t size_or(const char* key, int64_t otherwise) const {
    return find(key) == nullptr ? otherwise : size(key);
  }

  int64_t count_or(const char* key, int64_t otherwise) const {
    const nlohmann::json* value = find(key);
    return value == nullptr ? otherwise : *value == 0 ? 0 : size(key);
  }

  double positive(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr || !value->is_number() || !(value->get<double>() > 0))
      refuse(key, "a positive number is needed");
    return value->get<double>();
  }
  double positive_or(const char* key, double otherwise) const {
    return find(key) == nullptr ? otherwise : positive(key);
  }

  bool flag_or(const char* key, bool otherwise) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) refuse(key, "true or false is needed");
    return value->get<bool>();
  }

  std::string text_or(const char* key, const std::string& otherwise) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) refuse(key, "a string is needed");
    return value->get<std::string>();
  }

  void require_false(const char* key) const {
    if (flag_or(key, false)) refuse(key, "only false is supported");
  }
  void require_absent(const char* key, const char* right) const {
    if (find(key) != nullptr) refuse(key, right);
  }

 private:
  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace sextant
