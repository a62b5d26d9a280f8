#include "train/layout_text.h"

#include "base/error.h"
#include "base/parse.h"
#include "train/preflight.h"

namespace sextant {
namespace {

// "1f1b", "interleaved 2 chunks", "zb-v split balanced"; a file by its name alone.
std::string schedule_text(const ParallelConfig& parallel) {
  std::string text = parallel.schedule.substr(parallel.schedule.rfind('/') + 1);
  if (parallel.chunks > 1) text += concat(" ", parallel.chunks, " chunks");
  if (parallel.split != "even") text += concat(" split ", parallel.split);
  return text;
}

// "ring", "ring+ulysses of 2"
std::string context_text(const ParallelConfig& parallel) {
  const std::string name = name_of(parallel.cp_kind);
  return parallel.ulysses > 1 ? concat(name, " of ", parallel.ulysses) : name;
}

}  // namespace

std::string layout_text(const ParallelConfig& parallel) {
  const MeshShape shape = mesh_shape(parallel);
  std::vector<std::string> parts;
  for (int i = kAxes - 1; i >= 0; --i) {
    const Axis axis = static_cast<Axis>(i);
    if (shape.degree(axis) == 1) continue;
    std::string& part = parts.emplace_back(concat(name_of(axis), shape.degree(axis)));
    if (axis == Axis::Pp) part += " " + schedule_text(parallel);
    if (axis == Axis::Tp && !parallel.sequence) part += " without sequence";
    if (axis == Axis::Tp && parallel.tp_overlap) part += " overlapped";
    if (axis == Axis::Cp) part += " " + context_text(parallel);
    if (axis == Axis::Shard) part += concat(" zero ", parallel.zero);
  }
  if (parallel.ep > 1)
    parts.push_back(parallel.ep_node > 1
                        ? concat("ep", parallel.ep, " in nodes of ", parallel.ep_node)
                        : concat("ep", parallel.ep));
  if (parallel.etp > 1) parts.push_back(concat("etp", parallel.etp));
  return parts.empty() ? "1 rank" : join(parts, " x ");
}

std::string layout_text(const Config& config) {
  const std::string text = layout_text(config.parallel);
  return config.batch.accumulation > 1 ? concat(text, ", accumulation ", config.batch.accumulation)
                                       : text;
}

}  // namespace sextant
