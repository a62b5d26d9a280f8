#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/digest.h"
#include "checkpoint/manifest_parts.h"
#include "formats/json.h"

namespace sextant {
namespace {

using nlohmann::json;

// A JSON object that must have exactly the keys that are read.
class Fields {
 public:
  Fields(const json& object, std::string where, const std::vector<std::string_view>& keys)
      : object_(object), where_(std::move(where)) {
    SXT_CHECK(object.is_object(), Data, where_, "a JSON object is needed");
    for (const auto& [key, value] : object.items())
      SXT_CHECK(std::find(keys.begin(), keys.end(), key) != keys.end(), Data, where_,
                "unknown key ", shown(key));
    for (const std::string_view key : keys)
      SXT_CHECK(object.contains(std::string(key)), Data, where_, key, " is missing");
  }

  const json& at(const char* key) const { return object_.at(key); }
  uint64_t number(const char* key) const {
    const json& value = at(key);
    SXT_CHECK(value.is_number_unsigned(), Data, where_, key, " is ",
              shown(value.dump(-1, ' ', true)), "; a whole number, not negative, is needed");
    return value.get<uint64_t>();
  }
  int64_t count(const char* key) const {
    const uint64_t value = number(key);
    SXT_CHECK(value <= INT64_MAX, Data, where_, key, " is ", value, "; at most 2^63 - 1");
    return static_cast<int64_t>(value);
  }
  std::string text(const char* key) const {
    const json& value = at(key);
    SXT_CHECK(value.is_string(), Data, where_, key, " is ", shown(value.dump(-1, ' ', true)),
              "; a string is needed");
    return value.get<std::string>();
  }
  const json& list(const char* key) const {
    const json& value = at(key);
    SXT_CHECK(value.is_array(), Data, where_, key, " is not a list");
    return value;
  }
  std::vector<int64_t> counts(const char* key) const {
    std::vector<int64_t> out;
    for (const json& value : list(key)) {
      SXT_CHECK(value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX, Data, where_, key,
                " has ", shown(value.dump(-1, ' ', true)), "; a whole number is needed");
      out.push_back(value.get<int64_t>());
    }
    return out;
  }

 private:
  const json& object_;
  std::string where_;
};

ShardFile parse_file(const json& value, const std::string& what) {
  const Fields fields(value, what + ": files: ", {"name", "bytes", "xxh3_128"});
  return {fields.text("name"), fields.count("bytes"), fields.text("xxh3_128")};
}

DType parse_dtype(const std::string& name, const std::string& who) {
  for (int i = 0; i <= static_cast<int>(StoredType::U64); ++i) {
    const auto stored = static_cast<StoredType>(i);
    const std::optional<DType> dtype = dtype_of(stored);
    if (dtype && to_string(stored) == name) return *dtype;
  }
  SXT_FAIL(Data, who, "dtype ", shown(name), " is unknown, such as F32 or BF16 is right");
}

TensorSlice parse_slice(const json& value, const std::string& who) {
  const Fields fields(value, who + "slices: ", {"start", "size", "file", "tensor"});
  return {
      {fields.counts("start"), fields.counts("size")}, fields.text("file"), fields.text("tensor")};
}

TensorEntry parse_tensor(const json& value, const std::string& what) {
  const Fields fields(value, what + ": tensors: ", {"name", "shape", "dtype", "slices"});
  TensorEntry out;
  out.name = fields.text("name");
  const std::string who = what + ": tensor " + shown(out.name) + ": ";
  out.shape = fields.counts("shape");
  out.dtype = parse_dtype(fields.text("dtype"), who);
  for (const json& slice : fields.list("slices")) out.slices.push_back(parse_slice(slice, who));
  return out;
}

// Checked first, so that a later version is not reported as damage.
void check_version(const json& object, const std::string& what) {
  SXT_CHECK(object.is_object() && object.value("format", json()) == kManifestFormat, Data, what,
            ": not the manifest of a checkpoint, which begins with \"format\": \"", kManifestFormat,
            "\"");
  const json version = object.value("version", json());
  SXT_CHECK(version == kManifestVersion || version == kManifestWithTokenizer, Data, what,
            ": version ", shown(version.dump(-1, ' ', true)),
            " of the format; this build reads versions ", kManifestVersion, " and ",
            kManifestWithTokenizer);
}

void check_digest(std::string_view text, const std::string& what) {
  const size_t key = text.rfind(concat("\"", kManifestDigestKey, "\""));
  const bool whole = key != std::string_view::npos &&
                     text.substr(key) == manifest_tail(digest_of(text.substr(0, key)));
  SXT_CHECK(whole, Data, what, ": damaged: ", kManifestDigestKey,
            ", its last key, is not the digest of what stands before it");
}

}  // namespace

Manifest parse_manifest(std::string_view text, const std::string& what) {
  const json object = parse_json_strict(text, what);
  check_version(object, what);
  const bool has_tokenizer = object["version"] == kManifestWithTokenizer;
  std::vector<std::string_view> keys = {"format",  "version",         "step",   "cursor",
                                        "seed",    "layout",          "config", "files",
                                        "tensors", kManifestDigestKey};
  if (has_tokenizer) keys.push_back("tokenizer");
  const Fields fields(object, what + ": ", keys);
  Manifest out;
  out.state.step = fields.count("step");
  const Fields cursor(fields.at("cursor"), what + ": cursor: ", {"epoch", "index"});
  out.state.cursor = {cursor.count("epoch"), cursor.count("index")};
  out.state.seed = fields.number("seed");
  out.state.layout = fields.text("layout");
  out.state.config = fields.text("config");
  for (const json& file : fields.list("files")) out.files.push_back(parse_file(file, what));
  for (const json& tensor : fields.list("tensors"))
    out.tensors.push_back(parse_tensor(tensor, what));
  if (has_tokenizer)
    for (const json& file : fields.list("tokenizer"))
      out.tokenizer.push_back(parse_file(file, what));
  check_manifest(out, what);
  check_digest(text, what);
  return out;
}

}  // namespace sextant
