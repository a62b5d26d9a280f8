#include "ops/gemm_choices.h"

#include <sstream>

#include "base/error.h"
#include "base/storage.h"

namespace sextant {
namespace {

// FNV-1a over the numbers of a line, its last word: a line that was not written whole has another.
uint64_t digest_of(const GemmChoices::Key& key, const GemmChoices::Kernel& kernel) {
  uint64_t digest = 0xcbf29ce484222325U;
  const auto add = [&](uint64_t number) { digest = (digest ^ number) * 0x100000001b3U; };
  for (const int64_t number : key) add(static_cast<uint64_t>(number));
  for (const uint64_t number : kernel) add(number);
  return digest;
}

std::string text_of(const GemmChoices::Key& key, const GemmChoices::Kernel& kernel) {
  std::ostringstream text;
  for (const int64_t number : key) text << number << ' ';
  for (const uint64_t number : kernel) text << number << ' ';
  text << digest_of(key, kernel) << '\n';
  return text.str();
}

}  // namespace

GemmChoices::GemmChoices(const std::string& directory, const std::string& name)
    : directory_(directory), path_(join_path(directory, name)) {
  DiskStorage storage;
  std::istringstream lines;
  try {
    if (storage.exists(path_)) lines.str(read_text(storage, path_));
  } catch (const Error&) {  // as if it were not there
  }
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Key key{};
    Kernel kernel{};
    uint64_t digest = 0;
    for (int64_t& number : key) words >> number;
    for (uint64_t& number : kernel) words >> number;
    words >> digest;
    if (words && digest == digest_of(key, kernel)) kernels_.try_emplace(key, kernel);
  }
}

std::optional<GemmChoices::Kernel> GemmChoices::find(const Key& key) const {
  const auto place = kernels_.find(key);
  return place == kernels_.end() ? std::nullopt : std::optional(place->second);
}

bool GemmChoices::keep(const Key& key, const Kernel& kernel) {
  DiskStorage storage;
  try {
    storage.make_directories(directory_);
    write_text(*storage.create(path_, OpenMode::Append), text_of(key, kernel));
  } catch (const Error&) {
    return false;
  }
  kernels_.try_emplace(key, kernel);
  return true;
}

}  // namespace sextant
