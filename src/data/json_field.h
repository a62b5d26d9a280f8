#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/json.h"

namespace sextant {

inline constexpr int64_t kMaxTokenId = (1 << 22) - 1;

// A JSON object with its path in the file, such as "tokenizer.json: model"; every getter checks
// presence and type, and names the field in errors.
class JsonField {
 public:
  JsonField(const nlohmann::json& value, std::string where)
      : value_(value), where_(std::move(where)) {}

  const nlohmann::json& value() const { return value_; }
  const std::string& where() const { return where_; }

  bool has(const char* key) const { return value_.contains(key) && !value_.at(key).is_null(); }
  JsonField get(const char* key) const {
    SXT_CHECK(has(key), Data, where_, " has no ", key);
    return JsonField(value_.at(key), where_ + "." + key);
  }
  JsonField object(const char* key) const {
    return get(key).expect(nlohmann::json::value_t::object, "an object");
  }
  JsonField array(const char* key) const {
    return get(key).expect(nlohmann::json::value_t::array, "an array");
  }
  std::string string(const char* key) const {
    return get(key).expect(nlohmann::json::value_t::string, "a string").value_.get<std::string>();
  }
  bool flag(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    return get(key).expect(nlohmann::json::value_t::boolean, "true or false").value_.get<bool>();
  }
  int32_t id(const char* key) const { return get(key).as_id(); }
  int32_t as_id() const {
    SXT_CHECK(value_.is_number_unsigned() && value_.get<uint64_t>() <= kMaxTokenId, Data, where_,
              " is ", value_.is_number() ? value_.dump() : value_.type_name(),
              ", must be an id from 0 to ", kMaxTokenId);
    return value_.get<int32_t>();
  }
  std::vector<JsonField> items() const {
    std::vector<JsonField> out;
    for (const nlohmann::json& item : value_)
      out.emplace_back(item, concat(where_, "[", out.size(), "]"));
    return out;
  }
  std::string type() const {
    expect(nlohmann::json::value_t::object, "an object");
    return string("type");
  }
  const JsonField& expect(nlohmann::json::value_t type, std::string_view name) const {
    SXT_CHECK(value_.type() == type, Data, where_, " is ", value_.type_name(), ", must be ", name);
    return *this;
  }
  // For settings that must be absent, null, false, 0 or "".
  void expect_unset(const char* key) const {
    if (!has(key)) return;
    const nlohmann::json& v = value_.at(key);
    const bool unset = v == nlohmann::json(false) || v == nlohmann::json("") ||
                       (v.is_number() && v == nlohmann::json(0));
    SXT_CHECK(unset, Data, where_, ".", key, " is not supported, must be absent");
  }
  [[noreturn]] void refuse(const std::string& type, std::string_view supported) const {
    SXT_FAIL(Data, where_, ": type ", shown(type), " is not supported, only ", supported);
  }

 private:
  const nlohmann::json& value_;
  std::string where_;
};

}  // namespace sextant
