#include "data/json_field.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/json.h"

namespace sextant {
namespace {

const JsonField& expect(const JsonField& field, nlohmann::json::value_t type,
                        std::string_view name) {
  SXT_CHECK(field.value().type() == type, Data, field.where(), " is ", field.value().type_name(),
            ", must be ", name);
  return field;
}

}  // namespace

JsonField::JsonField(const nlohmann::json& value, std::string where)
    : value_(value), where_(std::move(where)) {}

bool JsonField::has(const char* key) const {
  return value_.contains(key) && !value_.at(key).is_null();
}

JsonField JsonField::get(const char* key) const {
  SXT_CHECK(has(key), Data, where_, " has no ", key);
  return JsonField(value_.at(key), where_ + "." + key);
}

JsonField JsonField::object(const char* key) const {
  return get(key).expect_object();
}

JsonField JsonField::array(const char* key) const {
  return expect(get(key), nlohmann::json::value_t::array, "an array");
}

std::string JsonField::string(const char* key) const {
  return expect(get(key), nlohmann::json::value_t::string, "a string").value().get<std::string>();
}

bool JsonField::flag(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  return expect(get(key), nlohmann::json::value_t::boolean, "true or false").value().get<bool>();
}

int32_t JsonField::id(const char* key) const {
  return get(key).as_id();
}

int32_t JsonField::as_id() const {
  SXT_CHECK(value_.is_number_unsigned() && value_.get<uint64_t>() <= kMaxTokenId, Data, where_,
            " is ", value_.is_number() ? value_.dump() : value_.type_name(),
            ", must be an id from 0 to ", kMaxTokenId);
  return value_.get<int32_t>();
}

std::vector<JsonField> JsonField::items() const {
  std::vector<JsonField> out;
  for (const nlohmann::json& item : value_)
    out.emplace_back(item, concat(where_, "[", out.size(), "]"));
  return out;
}

std::string JsonField::type() const {
  return expect_object().string("type");
}

const JsonField& JsonField::expect_object() const {
  return expect(*this, nlohmann::json::value_t::object, "an object");
}

void JsonField::expect_unset(const char* key) const {
  if (!has(key)) return;
  const nlohmann::json& v = value_.at(key);
  const bool unset = v == nlohmann::json(false) || v == nlohmann::json("") ||
                     (v.is_number() && v == nlohmann::json(0));
  SXT_CHECK(unset, Data, where_, ".", key, " is not supported, must be absent");
}

void JsonField::refuse(const std::string& type, std::string_view supported) const {
  SXT_FAIL(Data, where_, ": type ", shown(type), " is not supported, only ", supported);
}

}  // namespace sextant
