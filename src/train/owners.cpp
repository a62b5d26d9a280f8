#include "train/owners.h"

#include <algorithm>
#include <span>

#include "base/columns.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/range.h"
#include "program/groups.h"

namespace sextant {
namespace {

constexpr const char* kTableIndent = "  ";
constexpr int kMostShards = 6;  // columns
constexpr int kMostTables = 6;  // pipeline ranks, each with its own tables

// Calls f(rank) for each rank shown.
template <class F>
TextRow row_of(std::string name, const std::vector<int>& ranks, F&& f) {
  TextRow row{std::move(name)};
  for (const int rank : ranks) row.push_back(rank == kLeftOut ? "…" : f(rank));
  return row;
}

std::string range_text(const Range& share) {
  return share.size() == 0 ? "none" : concat(share.begin, "-", share.end - 1);
}

// Consecutive groups of equal size share one line.
std::string names_text(std::span<const GroupSpec> alike) {
  if (alike.size() == 1) return alike.front().name;
  const bool in_a_row =
      alike.back().number - alike.front().number + 1 == static_cast<int>(alike.size());
  return concat(alike.front().name, in_a_row || alike.size() > 2 ? " … " : ", ", alike.back().name,
                in_a_row ? "" : concat(" (", alike.size(), " of them)"), ", each");
}

std::vector<TextRow> group_rows(const GroupPlan& plan, int shards, const std::vector<int>& ranks) {
  std::vector<TextRow> rows;
  const std::span<const GroupSpec> groups = plan.groups;
  for (size_t first = 0, end; first < groups.size(); first = end) {
    const GroupSpec& group = groups[first];
    const auto is_alike = [&](const GroupSpec& other) {
      return other.elements == group.elements && other.is_duplicated == group.is_duplicated;
    };
    end = first + 1;
    while (end < groups.size() && is_alike(groups[end])) ++end;
    TextRow row = row_of(
        names_text(groups.subspan(first, end - first)) +
            (group.is_duplicated ? " (duplicate)" : ""),
        ranks, [&](int rank) { return range_text(even_part(group.elements, shards, rank)); });
    row.insert(row.begin() + 1, std::to_string(group.elements));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string elements_table(const GroupPlan& plan, int shards, const std::vector<int>& ranks) {
  std::vector<TextRow> rows = {
      row_of("group", ranks, [](int rank) { return concat("shard ", rank); })};
  rows[0].insert(rows[0].begin() + 1, "elements");
  for (TextRow& row : group_rows(plan, shards, ranks)) rows.push_back(std::move(row));
  int64_t whole = 0;
  for (const GroupSpec& group : plan.groups) whole += group.elements;
  rows.push_back(row_of("sum", ranks, [&](int rank) {
    int64_t owned = 0;
    for (const GroupSpec& group : plan.groups)
      owned += even_part(group.elements, shards, rank).size();
    return std::to_string(owned);
  }));
  rows.back().insert(rows.back().begin() + 1, std::to_string(whole));
  return aligned(rows, kTableIndent, Align::Right);
}

std::string bytes_table(const Preflight& flight, const ParallelConfig& parallel, int pipeline_rank,
                        const std::vector<int>& ranks) {
  std::vector<TextRow> rows = {
      row_of("bytes of a rank", ranks, [](int rank) { return concat("shard ", rank); })};
  // bytes(memory between steps, peak memory in a step)
  const auto add = [&](const char* name, auto&& bytes) {
    rows.push_back(row_of(name, ranks, [&](int shard) {
      const auto rank = static_cast<size_t>(owner_rank(parallel, pipeline_rank, shard));
      return format_bytes(bytes(flight.resident[rank], flight.memory[rank]));
    }));
  };
  using Memory = const MemoryEstimate&;
  add("weights", [](Memory resident, Memory) { return resident.weights; });
  add("gradients", [](Memory resident, Memory) { return resident.gradients; });
  add("optimizer", [](Memory resident, Memory) { return resident.optimizer; });
  add("state between steps", [](Memory resident, Memory) { return resident.state(); });
  add("peak of a step", [](Memory, Memory most) { return most.peak; });
  return aligned(rows, kTableIndent, Align::Right);
}

// Experts are divided over other ranks than the rest: a line of its own.
std::string expert_line(GroupPlan& plan, const ParallelConfig& parallel) {
  const auto first = std::ranges::find(plan.groups, true, &GroupSpec::is_expert);
  if (first == plan.groups.end()) return "";
  const int shards = expert_shards(parallel);
  const std::string text = concat(
      kTableIndent, "experts of a layer: ", first->elements, " elements on each of ", parallel.ep,
      " ranks of ep, ", parallel.etp > 1 ? concat("of parts on ", parallel.etp, " of etp, ") : "",
      shards == 1 ? "all updated there" : concat("divided over ", shards, " ranks of edp"), "\n");
  std::erase_if(plan.groups, [](const GroupSpec& group) { return group.is_expert; });
  return text;
}

std::string tables(const Preflight& flight, const ParallelConfig& parallel, int pipeline_rank,
                   GroupPlan plan) {
  const std::string experts = expert_line(plan, parallel);
  const std::vector<int> shards = first_and_last(parallel.shard, kMostShards);
  return elements_table(plan, parallel.shard, shards) + experts + "\n" +
         bytes_table(flight, parallel, pipeline_rank, shards);
}

// Which other rank updates the duplicated groups.
std::string duplicate_text(const RankPart& part, int rank, int ranks) {
  const int duplicate = part.duplicates == RankPart::Duplicates::Mirror ? ranks - 1 - rank
                        : rank == 0                                     ? ranks - 1
                                                                        : 0;
  return concat("pipeline rank ", duplicate, " has the duplicate and gets the same update");
}

std::string pipeline_rank_text(const Preflight& flight, const ParallelConfig& parallel, int rank) {
  const Blueprint& blueprint = flight.blueprint;
  const Pipeline& pipeline = flight.pipeline;
  const RankPart part = part_of(blueprint, pipeline, rank);
  std::vector<std::string> stages;
  for (const RankPart::Chunk& chunk : part.chunks)
    stages.push_back(
        concat("stage ", chunk.stage, " (",
               layers_text(blueprint, pipeline.stages[static_cast<size_t>(chunk.stage)]), ")"));
  const GroupPlan plan = make_groups(blueprint, part);
  const bool is_duplicated = std::ranges::any_of(plan.groups, &GroupSpec::is_duplicated);
  return concat("\npipeline rank ", rank, ": ", join(stages, ", "),
                is_duplicated ? "; " + duplicate_text(part, rank, pipeline.schedule.size()) : "",
                "\n", tables(flight, parallel, rank, plan));
}

}  // namespace

std::vector<std::string> divided_by(const ParallelConfig& parallel) {
  std::vector<std::string> out;
  if (parallel.shard == 1) return out;
  if (parallel.zero >= 1) out.push_back("optimizer");
  if (parallel.zero >= 2) out.push_back("gradients");
  if (parallel.zero >= 3) out.push_back("weights");
  return out;
}

int owner_rank(const ParallelConfig& parallel, int pipeline_rank, int shard) {
  Coordinates at{};
  at[static_cast<size_t>(Axis::Pp)] = pipeline_rank;
  at[static_cast<size_t>(Axis::Shard)] = shard;
  return rank_at(mesh_shape(parallel), at);
}

int expert_shards(const ParallelConfig& parallel) {
  return parallel.zero == 0 ? 1 : mesh_shape(parallel).edp();
}

std::string owners_text(const Preflight& flight, const ParallelConfig& parallel) {
  const std::vector<std::string> divided = divided_by(parallel);
  std::string text = divided.empty()
                         ? "owners: nothing is divided, every rank updates every element it holds\n"
                         : concat("owners: zero ", parallel.zero, " divides ", join(divided, ", "),
                                  " over ", parallel.shard, " shards\n");
  if (parallel.tp > 1)
    text += concat("of every group these are the elements that one of ", parallel.tp,
                   " ranks holds that share the layers\n");
  if (parallel.pp == 1) return text + tables(flight, parallel, 0, make_groups(flight.blueprint));
  for (const int rank : first_and_last(parallel.pp, kMostTables))
    text += rank == kLeftOut ? "\n…\n" : pipeline_rank_text(flight, parallel, rank);
  return text;
}

}  // namespace sextant
