// A tree is built from parser events, because the library's own tree builder lets the last of
// several equal keys win, and its filtered builder takes quadratic time in objects of objects.
#include "formats/json.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"

namespace sextant {
namespace {

using nlohmann::json;

class TreeBuilder final : public json::json_sax_t {
 public:
  explicit TreeBuilder(const std::string& what) : what_(what) {}
  json take() { return std::move(root_); }

  bool null() override { return put(json()); }
  bool boolean(bool value) override { return put(json(value)); }
  bool number_integer(number_integer_t value) override { return put(json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return put(json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return put(json(value)); }
  bool string(string_t& value) override { return put(json(std::move(value))); }
  bool binary(binary_t&) override { SXT_FAIL(Internal, what_, ": a binary value in JSON text"); }

  bool start_object(std::size_t) override { return enter(json::object()); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(json::array()); }
  bool end_array() override { return leave(); }

  bool key(string_t& name) override {
    const auto [slot, is_new] = open_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    SXT_CHECK(is_new, Data, what_, ": key ", shown(name),
              " occurs twice in one JSON object; each may occur once");
    slot_ = &slot->second;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    std::string_view reason = error.what();
    // The library's text begins with "[its.own.name.and.number] ".
    if (const size_t end = reason.find("] "); end != std::string_view::npos)
      reason.remove_prefix(end + 2);
    SXT_FAIL(Data, what_, ": not valid JSON at byte ", position, ": ", shown(reason));
  }

 private:
  // Puts a value where the next one belongs: the root, the key just read, or an array's end.
  json& place(json&& value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return *slot_ = std::move(value);
    auto& array = open_.back()->get_ref<json::array_t&>();
    array.push_back(std::move(value));
    return array.back();
  }
  bool put(json&& value) {
    place(std::move(value));
    return true;
  }
  bool enter(json&& container) {
    SXT_CHECK(open_.size() < static_cast<size_t>(kJsonDepthLimit), Data, what_,
              ": JSON nested deeper than ", kJsonDepthLimit, " levels");
    open_.push_back(&place(std::move(container)));
    return true;
  }
  bool leave() {
    open_.pop_back();
    return true;
  }

  const std::string& what_;
  json root_;
  // Containers not yet closed. A parent is not touched while a child is open, so the pointers hold.
  std::vector<json*> open_;
  json* slot_ = nullptr;
};

}  // namespace

json parse_json_strict(std::string_view text, const std::string& what) {
  // The library takes a NUL for the end of the text, and skips a byte order mark.
  const size_t nul = text.find('\0');
  SXT_CHECK(nul == std::string_view::npos, Data, what, ": not valid JSON at byte ", nul,
            ": a NUL byte");
  SXT_CHECK(!text.starts_with("\xEF\xBB\xBF"), Data, what,
            ": not valid JSON at byte 0: a byte order mark");
  TreeBuilder builder(what);
  json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string json_quoted(std::string_view text) {
  try {
    return json(text).dump();
  } catch (const json::type_error&) {
    SXT_FAIL(Data, "text ", shown(text), " is not UTF-8 and cannot be written as JSON");
  }
}

std::string shown(std::string_view text) {
  constexpr size_t kLongest = 160;
  std::string out = "\"";
  for (const char c : text.substr(0, kLongest)) out.push_back(c >= ' ' && c < '\x7f' ? c : '?');
  return out + (text.size() > kLongest ? "…\"" : "\"");
}

}  // namespace sextant
