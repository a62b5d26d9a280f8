#include "formats/hf_keys.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/json.h"

namespace sextant {
namespace {

using nlohmann::json;

// A value in a message: a string in quotes, anything else as the file has it.
std::string shown_value(const json& value) {
  if (value.is_string()) return shown(value.get_ref<const std::string&>());
  const std::string quoted = shown(value.dump(-1, ' ', true));
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

const json* HfKeys::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool HfKeys::has_null(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && found->is_null();
}

void HfKeys::refuse(const char* key, const char* right) const {
  const json* value = find(key);
  if (value == nullptr) SXT_FAIL(Data, where_, key, " is missing; ", right);
  SXT_FAIL(Data, where_, key, " is ", shown_value(*value), "; ", right);
}

int64_t HfKeys::size(const char* key) const {
  const json* value = find(key);
  const bool good = value != nullptr && value->is_number_unsigned() &&
                    value->get<uint64_t>() >= 1 && value->get<uint64_t>() <= kLargestHfSize;
  if (!good) refuse(key, "a whole number from 1 to 2^31 is needed");
  return value->get<int64_t>();
}

int64_t HfKeys::size_or(const char* key, int64_t otherwise) const {
  return find(key) == nullptr ? otherwise : size(key);
}

int64_t HfKeys::count_or(const char* key, int64_t otherwise) const {
  const json* value = find(key);
  return value == nullptr ? otherwise : *value == 0 ? 0 : size(key);
}

double HfKeys::positive(const char* key) const {
  const json* value = find(key);
  if (value == nullptr || !value->is_number() || !(value->get<double>() > 0))
    refuse(key, "a positive number is needed");
  return value->get<double>();
}

double HfKeys::positive_or(const char* key, double otherwise) const {
  return find(key) == nullptr ? otherwise : positive(key);
}

bool HfKeys::flag_or(const char* key, bool otherwise) const {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse(key, "true or false is needed");
  return value->get<bool>();
}

std::string HfKeys::text_or(const char* key, const std::string& otherwise) const {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) refuse(key, "a string is needed");
  return value->get<std::string>();
}

void HfKeys::require_false(const char* key) const {
  if (flag_or(key, false)) refuse(key, "only false is supported");
}

void HfKeys::require_absent(const char* key, const char* right) const {
  if (find(key) != nullptr) refuse(key, right);
}

}  // namespace sextant
