#include "train/set_aside.h"

#include <vector>

#include "checkpoint/directory.h"

namespace sextant {

std::string set_aside(Storage& storage, const std::string& directory,
                      std::span<const std::string> names) {
  std::string target;
  for (const std::string& name : names) {
    if (!storage.exists(join_path(directory, name))) continue;
    for (int number = 1; target.empty(); ++number) {
      const std::string candidate = join_path(directory, "previous-" + std::to_string(number));
      if (!storage.exists(candidate)) target = candidate;
    }
    storage.make_directories(target);
    storage.rename(join_path(directory, name), join_path(target, name));
  }
  return target;
}

std::string set_aside_checkpoints(Storage& storage, const std::string& directory) {
  if (!storage.is_directory(directory)) return "";
  // `latest` moves first: it never names a checkpoint that has moved.
  std::vector<std::string> names = {std::string(kLatestName)};
  for (const std::string& name : storage.list(directory))
    if (parse_checkpoint_name(name)) names.push_back(name);
  return set_aside(storage, directory, names);
}

}  // namespace sextant
