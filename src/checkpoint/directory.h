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
//   step-00000010/      a complete checkpoint; immutable once it has this name
//   step-00000010-r1/   the same step saved again while `latest` named the one above
//   step-*.tmp/         an interrupted save or removal; the next save deletes it
//   latest              the name of the checkpoint to resume from
inline constexpr std::string_view kLatestName = "latest";

struct CheckpointName {
  int64_t step = 0;
  bool is_second = false;  // carries -r1
  bool operator==(const CheckpointName&) const = default;
};
std::string to_string(const CheckpointName& name);
std::optional<CheckpointName> parse_checkpoint_name(std::string_view text);

enum class Check { Sizes, Hashes };

// One checkpoint of a directory and whether it is valid.
struct CheckpointInfo {
  std::string name, path;
  int64_t step = 0;
  bool is_latest = false;
  bool ok = false;
  std::string problem;  // one line when not ok
  std::string layout;   // this and the next two are set if the manifest is readable
  int64_t tensors = 0;
  int64_t bytes = 0;  // of the shard files
};

// All checkpoints of `directory`, oldest first. Check::Sizes reads manifests and file sizes only,
// Check::Hashes every byte. Throws Error(Data) when the directory cannot be listed.
std::vector<CheckpointInfo> list_checkpoints(Storage& storage, const std::string& directory,
                                             Check check);

// The content of `latest`, if it exists and is a valid checkpoint name.
std::optional<std::string> latest_name(Storage& storage, const std::string& directory);

// The path of the checkpoint that `latest` names. If that is not valid, Error(Data) gives the
// reason and lists the valid checkpoints; none of them is used instead.
std::string find_latest(Storage& storage, const std::string& directory);

inline constexpr std::string_view kAutoCheckpoint = "auto";

// The path of the checkpoint to resume from:
//   latest   what find_latest gives; its manifest is of its step, its files have their sizes
//   step-8   that one (or a full name), under the same condition
//   auto     the latest if all its hashes match, else the newest one whose hashes match, with a
//            warning to `say`; "" if there is no checkpoint at all
// Otherwise Error(Data) gives the damage and lists the valid checkpoints.
std::string find_checkpoint(Storage& storage, const std::string& directory,
                            const std::string& which,
                            const std::function<void(const std::string&)>& say);

// What to append to an error about a checkpoint: "; whole there, to be named instead: ...", by
// manifests and sizes, without the one of the path `except`.
std::string whole_ones(Storage& storage, const std::string& directory,
                       const std::string& except = "");

// Where a run keeps its checkpoints in run.out unless checkpoint.dir says otherwise.
inline constexpr std::string_view kCheckpointsName = "checkpoints";
// The directory of checkpoints inside the run.out `path`, or `path` itself.
std::string checkpoints_of(Storage& storage, const std::string& path);

// `path` itself when it is a checkpoint, else find_latest of it, of the checkpoints in a run.out,
// or of the directory whose `latest` it is.
std::string resolve_checkpoint(Storage& storage, const std::string& path);

// Renames the checkpoint to a temporary name, then removes it, so that it is never incomplete.
void discard_checkpoint(Storage& storage, const std::string& directory, const std::string& name);

// Removes temporary directories of interrupted saves and removals.
void remove_leftovers(Storage& storage, const std::string& directory);

// What prune_checkpoints did, by name.
struct PruneReport {
  std::vector<std::string> removed;
  std::vector<std::string> broken;  // damaged: kept for inspection, not counted
};

// Keeps the latest and the newest others, `keep` valid ones in total; each is verified before an
// older one is removed. Checkpoints of later steps than the latest come from a run that was rolled
// back; they count as the oldest.
PruneReport prune_checkpoints(Storage& storage, const std::string& directory, int64_t keep);

}  // namespace sextant
