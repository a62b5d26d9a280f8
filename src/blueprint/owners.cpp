#include "blueprint/owners.h"

#include <algorithm>

#include "base/error.h"
#include "base/parse.h"
#include "base/share.h"
#include "blueprint/groups.h"

namespace sextant {
namespace {

constexpr int kMostRanks = 6;  // columns
constexpr int kLeftOut = -1;

struct Row {
  std::vector<std::string> cells;
};

// Columns are counted in characters, not bytes.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char ch) { return (static_cast<unsigned char>(ch) >> 6) != 2; }));
}

// The first column to the left, the others to the right.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().cells.size());
  for (const Row& row : rows)
    for (size_t i = 0; i < row.cells.size(); ++i)
      widths[i] = std::max(widths[i], width_of(row.cells[i]));
  std::string out;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.cells.size(); ++i) {
      const std::string room(widths[i] - width_of(row.cells[i]), ' ');
      out += "  " + (i == 0 ? row.cells[i] + room : room + row.cells[i]);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  }
  return out;
}

std::vector<int> shown_ranks(int shards) {
  std::vector<int> ranks;
  for (int rank = 0; rank < (shards > kMostRanks ? kMostRanks - 2 : shards); ++rank)
    ranks.push_back(rank);
  if (shards > kMostRanks) ranks.insert(ranks.end(), {kLeftOut, shards - 1});
  return ranks;
}

// f(rank) for each rank that is shown.
template <class F>
Row row_of(std::string name, const std::vector<int>& ranks, F&& f) {
  Row row{{std::move(name)}};
  for (const int rank : ranks) row.cells.push_back(rank == kLeftOut ? "…" : f(rank));
  return row;
}

std::string range_text(const Share& share) {
  return share.size() == 0 ? "none" : concat(share.begin, "-", share.end - 1);
}

// Neighbouring groups of one size are one line.
std::vector<Row> group_rows(const GroupPlan& plan, const MemoryQuestion& question,
                            const std::vector<int>& ranks) {
  std::vector<Row> rows;
  for (size_t first = 0; first < plan.groups.size();) {
    size_t last = first;
    while (last + 1 < plan.groups.size() &&
           plan.groups[last + 1].elements == plan.groups[first].elements)
      ++last;
    const GroupSpec& group = plan.groups[first];
    const std::string name =
        last == first ? group.name : concat(group.name, " … ", plan.groups[last].name, ", each");
    Row row = row_of(name, ranks, [&](int rank) {
      return range_text(share_of(group.elements, question.shard, rank));
    });
    row.cells.insert(row.cells.begin() + 1, std::to_string(group.elements));
    rows.push_back(std::move(row));
    first = last + 1;
  }
  return rows;
}

std::string elements_table(const GroupPlan& plan, const MemoryQuestion& question,
                           const std::vector<int>& ranks) {
  std::vector<Row> rows = {row_of("group", ranks, [](int rank) { return concat("shard ", rank); })};
  rows[0].cells.insert(rows[0].cells.begin() + 1, "elements");
  for (Row& row : group_rows(plan, question, ranks)) rows.push_back(std::move(row));
  int64_t whole = 0;
  for (const GroupSpec& group : plan.groups) whole += group.elements;
  rows.push_back(row_of("sum", ranks, [&](int rank) {
    int64_t owned = 0;
    for (const GroupSpec& group : plan.groups)
      owned += share_of(group.elements, question.shard, rank).size();
    return std::to_string(owned);
  }));
  rows.back().cells.insert(rows.back().cells.begin() + 1, std::to_string(whole));
  return aligned(rows);
}

std::string bytes_table(const Blueprint& blueprint, const MemoryQuestion& question,
                        const std::vector<int>& ranks) {
  const auto of_rank = [&](int rank) {
    MemoryQuestion asked = question;
    asked.shard_rank = rank;
    return asked;
  };
  std::vector<Row> rows = {
      row_of("bytes of a rank", ranks, [](int rank) { return concat("shard ", rank); })};
  const auto add = [&](const char* name, int64_t MemoryEstimate::*category) {
    rows.push_back(row_of(name, ranks, [&](int rank) {
      return format_bytes(resident_memory(blueprint, of_rank(rank)).*category);
    }));
  };
  add("weights", &MemoryEstimate::weights);
  add("gradients", &MemoryEstimate::gradients);
  add("optimizer", &MemoryEstimate::optimizer);
  add("state between steps", &MemoryEstimate::peak);
  rows.push_back(row_of("peak of a step", ranks, [&](int rank) {
    return format_bytes(predict_memory(blueprint, of_rank(rank)).peak);
  }));
  return aligned(rows);
}

}  // namespace

std::vector<std::string> divided_by(const MemoryQuestion& question) {
  std::vector<std::string> out;
  if (question.shard == 1) return out;
  if (question.zero >= 1) out.push_back("optimizer");
  if (question.zero >= 2) out.push_back("gradients");
  if (question.zero >= 3) out.push_back("weights");
  return out;
}

std::string owners_text(const Blueprint& blueprint, const MemoryQuestion& question) {
  const std::vector<std::string> divided = divided_by(question);
  const std::vector<int> ranks = shown_ranks(question.shard);
  const std::string head = divided.empty()
                               ? "owners: nothing is divided, every rank updates every element\n"
                               : concat("owners: zero ", question.zero, " divides ",
                                        join(divided, ", "), " over ", question.shard, " shards\n");
  return head + elements_table(make_groups(blueprint), question, ranks) + "\n" +
         bytes_table(blueprint, question, ranks);
}

}  // namespace sextant
