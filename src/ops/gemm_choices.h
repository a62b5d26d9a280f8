#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace sextant {

// The kernels that were chosen for products, kept in a text file with a line for each. Lines are
// only added, and the first for a product counts: processes that choose at the same time agree from
// their next start on. Lines that are damaged count for nothing.
class GemmChoices {
 public:
  using Key = std::array<int64_t, 16>;     // all that the choice depends on, beside the file's name
  using Kernel = std::array<uint64_t, 8>;  // as the library gives it

  // Reads `directory`/`name`, if it is there.
  GemmChoices(const std::string& directory, const std::string& name);

  std::optional<Kernel> find(const Key& key) const;
  // False if it cannot be written: then it must not be used.
  bool keep(const Key& key, const Kernel& kernel);

 private:
  std::string directory_, path_;
  std::map<Key, Kernel> kernels_;
};

}  // namespace sextant
