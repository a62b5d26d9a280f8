#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

inline constexpr int64_t kMaxTokenId = (1 << 22) - 1;

// A value of a tokenizer.json with its path in the file, such as "tokenizer.json: model"; every
// getter checks presence and type, and names the field in errors. The document must outlive it.
class JsonField {
 public:
  JsonField(const nlohmann::json& value, std::string where);

  const nlohmann::json& value() const { return value_; }
  const std::string& where() const { return where_; }

  bool has(const char* key) const;  // and is not null
  JsonField get(const char* key) const;
  JsonField object(const char* key) const;
  JsonField array(const char* key) const;
  std::string string(const char* key) const;
  bool flag(const char* key, bool otherwise) const;
  int32_t id(const char* key) const;
  int32_t as_id() const;
  std::vector<JsonField> items() const;
  std::string type() const;  // of an object, its "type"

  const JsonField& expect_object() const;
  // For settings that must be absent, null, false, 0 or "".
  void expect_unset(const char* key) const;
  [[noreturn]] void refuse(const std::string& type, std::string_view supported) const;

 private:
  const nlohmann::json& value_;
  std::string where_;
};

}  // namespace sextant
