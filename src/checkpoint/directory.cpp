#include "checkpoint/directory.h"

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "base/error.h"
#include "base/parse.h"
#include "checkpoint/load.h"
#include "formats/json.h"

namespace sextant {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSecond = "-r1";
constexpr std::string_view kTemporary = ".tmp";
constexpr size_t kDigits = 8;

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string base_name(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).filename().string();
}

// Fills in all fields but the names. A damaged checkpoint is not an error here.
void examine(Storage& storage, CheckpointInfo& info, Check check) {
  try {
    const Manifest manifest = read_manifest(storage, info.path);
    info.layout = manifest.state.layout;
    info.tensors = static_cast<int64_t>(manifest.tensors.size());
    info.bytes = manifest.file_bytes();
    SXT_CHECK(manifest.state.step == info.step, Data, info.path, ": its manifest is of step ",
              manifest.state.step);
    if (check == Check::Hashes) {
      verify_checkpoint(storage, info.path);
    } else {
      check_sizes(storage, info.path, manifest);
    }
    info.ok = true;
  } catch (const Error& error) {
    info.problem = error.what();
  }
}

std::vector<CheckpointInfo> named_checkpoints(Storage& storage, const std::string& directory) {
  const std::string latest = latest_name(storage, directory).value_or("");
  std::vector<CheckpointInfo> out;
  for (const std::string& name : storage.list(directory)) {
    const std::optional<CheckpointName> parsed = parse_checkpoint_name(name);
    if (!parsed) continue;
    CheckpointInfo info;
    info.name = name;
    info.path = join_path(directory, name);
    info.step = parsed->step;
    info.is_latest = name == latest;
    out.push_back(std::move(info));
  }
  std::sort(out.begin(), out.end(), [](const CheckpointInfo& a, const CheckpointInfo& b) {
    return std::tie(a.step, a.name) < std::tie(b.step, b.name);
  });
  return out;
}

// Error(Data) unless it is whole by its manifest and sizes.
std::string checked(Storage& storage, const std::string& directory, const std::string& name) {
  CheckpointInfo info;
  info.name = name;
  info.path = join_path(directory, name);
  info.step = parse_checkpoint_name(name)->step;
  examine(storage, info, Check::Sizes);
  SXT_CHECK(info.ok, Data, info.problem, whole_ones(storage, directory));
  return info.path;
}

}  // namespace

std::string to_string(const CheckpointName& name) {
  std::string digits = std::to_string(name.step);
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return concat(kPrefix, digits, name.is_second ? kSecond : "");
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view text) {
  CheckpointName name;
  std::string_view digits = text;
  if (!digits.starts_with(kPrefix)) return std::nullopt;
  digits.remove_prefix(kPrefix.size());
  if (digits.ends_with(kSecond)) {
    name.is_second = true;
    digits.remove_suffix(kSecond.size());
  }
  const std::optional<int64_t> step = parse_int(digits);
  if (!step || *step < 0) return std::nullopt;
  name.step = *step;
  return to_string(name) == text ? std::optional(name) : std::nullopt;
}

std::vector<CheckpointInfo> list_checkpoints(Storage& storage, const std::string& directory,
                                             Check check) {
  std::vector<CheckpointInfo> out = named_checkpoints(storage, directory);
  for (CheckpointInfo& info : out) examine(storage, info, check);
  return out;
}

std::optional<std::string> latest_name(Storage& storage, const std::string& directory) {
  const std::string path = join_path(directory, kLatestName);
  if (!storage.exists(path) || storage.is_directory(path)) return std::nullopt;
  const std::string name = trimmed(read_text(storage, path));
  return parse_checkpoint_name(name) ? std::optional(name) : std::nullopt;
}

std::string find_latest(Storage& storage, const std::string& directory) {
  SXT_CHECK(storage.is_directory(directory), Data, directory, ": no such checkpoint directory");
  const std::string path = join_path(directory, kLatestName);
  SXT_CHECK(storage.exists(path), Data, directory,
            ": neither a checkpoint nor a directory of them: ", "it has neither ", kManifestName,
            " nor ", kLatestName, whole_ones(storage, directory));
  const std::string text = trimmed(read_text(storage, path));
  SXT_CHECK(parse_checkpoint_name(text), Data, path, ": ", shown(text),
            " is not the name of a checkpoint such as ", to_string(CheckpointName{10}),
            whole_ones(storage, directory));
  const std::string found = join_path(directory, text);
  SXT_CHECK(storage.exists(join_path(found, kManifestName)), Data, path, ": names ", text,
            ", which ", storage.exists(found) ? concat("has no ", kManifestName) : "is not there",
            whole_ones(storage, directory));
  return found;
}

std::string whole_ones(Storage& storage, const std::string& directory, const std::string& except) {
  std::vector<std::string> names;
  for (const CheckpointInfo& info : list_checkpoints(storage, directory, Check::Sizes))
    if (info.ok && info.path != except) names.push_back(info.name);
  if (names.empty()) return "; no whole checkpoint is there";
  return "; whole there, to be named instead: " + join(names, ", ");
}

std::string find_checkpoint(Storage& storage, const std::string& directory,
                            const std::string& which,
                            const std::function<void(const std::string&)>& say) {
  if (which == kLatestName)
    return checked(storage, directory, base_name(find_latest(storage, directory)));
  if (which != kAutoCheckpoint) {
    const std::optional<int64_t> step =
        which.starts_with(kPrefix) ? parse_int(which.substr(kPrefix.size())) : std::nullopt;
    const std::string name = step && *step >= 0 ? to_string(CheckpointName{*step, false}) : which;
    SXT_CHECK(parse_checkpoint_name(name), Data, "'", which, "' is no checkpoint of ", directory,
              ": takes latest, auto or a name such as step-8", whole_ones(storage, directory));
    SXT_CHECK(storage.exists(join_path(directory, name)), Data, directory, ": has no ", name,
              whole_ones(storage, directory));
    return checked(storage, directory, name);
  }
  if (!storage.is_directory(directory)) return "";
  std::vector<CheckpointInfo> all = named_checkpoints(storage, directory);
  if (all.empty() && !storage.exists(join_path(directory, kLatestName))) return "";
  std::stable_partition(all.begin(), all.end(),
                        [](const CheckpointInfo& info) { return !info.is_latest; });
  std::string problem = concat(directory, ": ", kLatestName, " names no checkpoint");
  for (size_t i = all.size(); i-- > 0;) {
    examine(storage, all[i], Check::Hashes);
    if (all[i].ok) {
      if (!all[i].is_latest) say(concat(problem, "; going on from ", all[i].name));
      return all[i].path;
    }
    if (i + 1 == all.size()) problem = all[i].problem;
  }
  SXT_FAIL(Data, problem, "; no whole checkpoint is there, and none is started over");
}

std::string checkpoints_of(Storage& storage, const std::string& path) {
  const std::string inner = join_path(path, kCheckpointsName);
  const bool is_run = !storage.exists(join_path(path, kLatestName)) && storage.is_directory(inner);
  return is_run ? inner : path;
}

std::string resolve_checkpoint(Storage& storage, const std::string& path) {
  const bool is_step = base_name(path).starts_with(kPrefix);
  SXT_CHECK(storage.exists(path), Data, path, ": no such checkpoint",
            is_step && storage.is_directory(parent_path(path))
                ? whole_ones(storage, parent_path(path))
                : "");
  const bool is_file = !storage.is_directory(path);
  if (is_file && base_name(path) == kLatestName) return find_latest(storage, parent_path(path));
  if (storage.exists(join_path(path, kManifestName))) return path;
  SXT_CHECK(!is_file, Data, path, ": a file; a checkpoint is a directory");
  SXT_CHECK(!is_step, Data, path, ": not a whole checkpoint: it has no ", kManifestName);
  return find_latest(storage, checkpoints_of(storage, path));
}

void discard_checkpoint(Storage& storage, const std::string& directory, const std::string& name) {
  const std::string path = join_path(directory, name);
  const std::string aside = concat(path, ".removed", kTemporary);
  storage.remove_all(aside);
  storage.rename(path, aside);
  storage.remove_all(aside);
}

void remove_leftovers(Storage& storage, const std::string& directory) {
  for (const std::string& name : storage.list(directory))
    if (name.ends_with(kTemporary) &&
        (name.starts_with(kPrefix) || name == concat(kLatestName, kTemporary)))
      storage.remove_all(join_path(directory, name));
}

PruneReport prune_checkpoints(Storage& storage, const std::string& directory, int64_t keep) {
  std::vector<CheckpointInfo> all = named_checkpoints(storage, directory);
  const auto latest =
      std::find_if(all.begin(), all.end(), [](const auto& c) { return c.is_latest; });
  SXT_CHECK(latest != all.end(), Internal, directory, ": pruned without a latest checkpoint");
  const int64_t last = latest->step;
  // Sorts by priority to keep, highest first.
  const auto worth = [last](const CheckpointInfo& info) {
    return std::tuple(!info.is_latest, info.step > last, -info.step);
  };
  std::sort(all.begin(), all.end(),
            [&](const auto& a, const auto& b) { return worth(a) < worth(b); });
  PruneReport report;
  const bool has_surplus = static_cast<int64_t>(all.size()) > keep;
  int64_t whole = 1;  // the latest, which was verified when written
  for (size_t i = 1; i < all.size(); ++i) {
    CheckpointInfo& info = all[i];
    const bool is_replaced = info.step == last;
    if (!is_replaced && whole < keep) {
      if (has_surplus) examine(storage, info, Check::Hashes);
      if (has_surplus && !info.ok) {
        report.broken.push_back(info.name);
      } else {
        ++whole;
      }
      continue;
    }
    discard_checkpoint(storage, directory, info.name);
    report.removed.push_back(info.name);
  }
  return report;
}

}  // namespace sextant
