#include <fmt/format.h>

#include <algorithm>

#include "base/columns.h"
#include "base/error.h"
#include "train/activations.h"

namespace sextant {
namespace {

std::string digits(int64_t bytes) {
  std::string text = std::to_string(bytes < 0 ? -bytes : bytes);
  for (size_t end = text.size(); end > 3; end -= 3) text.insert(end - 3, ",");
  return bytes < 0 ? "-" + text : text;
}

std::string change(int64_t bytes) {
  return bytes > 0 ? "+" + digits(bytes) : digits(bytes);
}

// Names and reasons are left-aligned, numbers right-aligned: two tables side by side.
std::string beside(const std::string& left, const std::vector<std::string>& right) {
  std::string out;
  size_t at = 0, widest = 0;
  std::vector<std::string> lines;
  while (at < left.size()) {
    const size_t end = left.find('\n', at);
    lines.push_back(left.substr(at, end - at));
    widest = std::max(widest, width_of(lines.back()));
    at = end + 1;
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string line = lines[i];
    if (!right[i].empty()) line += std::string(widest - width_of(line), ' ') + "  " + right[i];
    out += line + "\n";
  }
  return out;
}

std::string summary(std::span<const ActivationTable> tables) {
  std::vector<TextRow> rows = {
      {"a layer keeps", "published", "bytes", "kept", "of the first", "more FLOPs"}};
  for (const ActivationTable& table : tables)
    rows.push_back(
        {activation_layout(table), table.formula, digits(table.published), digits(table.kept),
         concat((100 * table.kept + tables.front().kept / 2) / tables.front().kept, "%"),
         table.recompute == Recompute::None ? ""
                                            : fmt::format("{:.2f}%", 100 * table.extra_flops)});
  return aligned(rows, "", Align::Right);
}

std::string details(const ActivationTable& table) {
  std::vector<TextRow> rows = {
      {activation_layout(table), "formula", "published", "structure", "type", "kept"}};
  std::vector<std::string> reasons = {"why the structure differs"};
  for (const ActivationTerm& term : table.terms) {
    rows.push_back(
        {concat(term.layer == LayerKind::Attention ? "attention  " : "mlp        ", term.tensor),
         term.formula, digits(term.published), change(term.by_structure), change(term.by_type),
         digits(term.kept)});
    reasons.push_back(term.why);
  }
  rows.push_back({"sum", table.formula, digits(table.published), change(table.by_structure),
                  change(table.by_type), digits(table.kept)});
  reasons.emplace_back();
  return beside(aligned(rows, "", Align::Right), reasons);
}

}  // namespace

std::string activation_layout(const ActivationTable& table) {
  const TensorPart& tensor = table.tensor;
  return concat(
      tensor.degree == 1
          ? std::string("plain")
          : concat("tp", tensor.degree, tensor.sequence ? " with sequence" : " without sequence"),
      table.recompute == Recompute::None ? "" : concat(", ", name_of(table.recompute)));
}

std::string activations_text(std::span<const ActivationTable> tables) {
  std::string out = summary(tables) +
                    "\ntensor by tensor: published + structure + type = kept; structure is that "
                    "another tensor is kept, type that elements have not 2 bytes\n";
  for (const ActivationTable& table : tables)
    if (table.recompute == Recompute::None) out += "\n" + details(table);
  return out;
}

}  // namespace sextant
