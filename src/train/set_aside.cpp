#include "train/set_aside.h"

#include <vector>

#include "base/directory_lock.h"
#include "checkpoint/directory.h"

namespace sextant {
namespace {

// What moves of a file or directory: itself, or all but the lock of a directory that has one.
std::vector<std::string> movable(Storage& storage, const std::string& directory,
                                 const std::string& name) {
  const std::string path = join_path(directory, name);
  if (!storage.exists(path)) return {};
  if (!storage.exists(join_path(path, DirectoryLock::kName))) return {name};
  std::vector<std::string> inside;
  for (const std::string& entry : storage.list(path))
    if (entry != DirectoryLock::kName) inside.push_back(join_path(name, entry));
  return inside;
}

}  // namespace

std::string set_aside(Storage& storage, const std::string& directory,
                      std::span<const std::string> names) {
  std::string target;
  for (const std::string& name : names)
    for (const std::string& entry : movable(storage, directory, name)) {
      for (int number = 1; target.empty(); ++number) {
        const std::string candidate = join_path(directory, "previous-" + std::to_string(number));
        if (!storage.exists(candidate)) target = candidate;
      }
      storage.make_directories(parent_path(join_path(target, entry)));
      storage.rename(join_path(directory, entry), join_path(target, entry));
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
