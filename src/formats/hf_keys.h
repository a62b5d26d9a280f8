#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace sextant {

// Far above any model, and far below where products of sizes overflow.
inline constexpr int64_t kLargestHfSize = int64_t{1} << 31;

// The keys of one JSON object of a config.json. A null is an absent key. What does not fit throws
// Error(Data): where it stands, the key, its value, and what would be right.
class HfKeys {
 public:
  // Holds on to `object`. `where` begins every message.
  HfKeys(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  const nlohmann::json* find(const char* key) const;
  bool has_null(const char* key) const;

  int64_t size(const char* key) const;  // from 1
  int64_t size_or(const char* key, int64_t otherwise) const;
  int64_t count_or(const char* key, int64_t otherwise) const;  // from 0
  double positive(const char* key) const;
  double positive_or(const char* key, double otherwise) const;
  bool flag_or(const char* key, bool otherwise) const;
  std::string text_or(const char* key, const std::string& otherwise) const;

  void require_false(const char* key) const;
  void require_absent(const char* key, const char* right) const;
  [[noreturn]] void refuse(const char* key, const char* right) const;

 private:
  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace sextant
