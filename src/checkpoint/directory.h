#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/storage.h"
#include "checkpoint/manifest.h"

namespace sextant {

// The directory that holds the checkpoints of a run:
//   step-00000010/      a whole checkpoint; never changed once it has this name
//   step-00000010-r1/   the same step saved again while `latest` named the one above
//   step-*.tmp/         a save that was cut short, or a removal; the next save clears them away
//   latest              the name of the checkpoint to go on from
inline constexpr std::string_view kLatestName = "latest";

struct CheckpointName {
  int64_t step = 0;
  bool is_second = false;  // carries -r1
  bool operator==(const CheckpointName&) const = default;
};
std::string to_string(const CheckpointName& name);
std::optional<CheckpointName> parse_checkpoint_name(std::string_view text);

enum class Check { Sizes, Hashes };

// One checkpoint of a directory and whether it is whole.
struct CheckpointInfo {
  std::string name, path;
  int64_t step = 0;
  bool is_latest = false;
  bool ok = false;
  std::string problem;  // one line when not ok
  std::string layout;   // these three when the manifest can be read
  int64_t tensors = 0;
  int64_t bytes = 0;  // of the shard files
};

// All checkpoints of `directory`, oldest first. Sizes reads only manifests and lengths, Hashes
// every byte. Throws Error(Data) when the directory cannot be listed.
std::vector<CheckpointInfo> list_checkpoints(Storage& storage, const std::string& directory,
                                             Check check);

// What `latest` says, if it is there and is the name of a checkpoint.
std::optional<std::string> latest_name(Storage& storage, const std::string& directory);

// The path of the checkpoint that `latest` names. When that fails Error(Data) says what is wrong
// and which whole checkpoints there are; none of them is taken instead.
std::string find_latest(Storage& storage, const std::string& directory);

inline constexpr const char* kLatestCheckpoint = "latest";
inline constexpr const char* kAutoCheckpoint = "auto";

// The path of the checkpoint to go on from:
//   "latest"           find_latest, checked: its manifest is of its step, its files have their
//   sizes "step-8", a name   that one, checked in the same way "auto"             the latest if
//   every byte of it is right, else the newest that is, which
//                      `say` is told; "" when there is no checkpoint at all
// Error(Data) says what is damaged and names the whole ones.
std::string find_checkpoint(Storage& storage, const std::string& directory,
                            const std::string& which,
                            const std::function<void(const std::string&)>& say);

// What to append to an error about a checkpoint: "; whole there, to be named instead: ...", by
// manifests and sizes, without the one of the path `except`.
std::string whole_ones(Storage& storage, const std::string& directory,
                       const std::string& except = "");

// `path` itself when it is a checkpoint, else find_latest of it.
std::string resolve_checkpoint(Storage& storage, const std::string& path);

// Moves the checkpoint out of the way under a temporary name, then removes it: it is whole or gone.
void discard_checkpoint(Storage& storage, const std::string& directory, const std::string& name);

// Removes what earlier saves and removals that were cut short left behind.
void remove_leftovers(Storage& storage, const std::string& directory);

// What prune_checkpoints did, by name.
struct PruneReport {
  std::vector<std::string> removed;
  std::vector<std::string> broken;  // kept, as they may be worth a look, but not counted
};

// Keeps the latest and the newest others, `keep` whole ones in all, each of them read and checked
// before an older one is removed. Steps beyond the latest were left by a run that went another way:
// they count as the oldest.
PruneReport prune_checkpoints(Storage& storage, const std::string& directory, int64_t keep);

}  // namespace sextant
