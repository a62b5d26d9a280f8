#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/parse.h"
#include "config/load.h"
#include "config/model_presets.h"
#include "plan/config_case.h"
#include "plan/gemm_time.h"
#include "plan/own_memory.h"
#include "plan/search.h"

namespace sextant {
namespace {

constexpr const char* kOffloads[] = {"none", "optimizer", "activations", "both"};
constexpr const char* kRecomputes[] = {"none", "cheap", "selective", "full"};
constexpr const char* kContexts[] = {"ring", "ulysses", "allgather"};
constexpr const char* kFlags[] = {"false", "true"};

constexpr std::pair<const char*, std::optional<int64_t> FixedAxes::*> kNumbers[] = {
    {"dp", &FixedAxes::dp},      {"shard", &FixedAxes::shard}, {"zero", &FixedAxes::zero},
    {"tp", &FixedAxes::tp},      {"cp", &FixedAxes::cp},       {"pp", &FixedAxes::pp},
    {"ep", &FixedAxes::ep},      {"etp", &FixedAxes::etp},     {"chunks", &FixedAxes::chunks},
    {"micro", &FixedAxes::micro}};

// The place of a value in a list of names.
int place_of(const std::string& text, const std::string& value,
             std::span<const char* const> names) {
  const auto found = std::ranges::find(names, value);
  SXT_CHECK(found != names.end(), Usage, "--fix ", text, ": '", value, "' is none of ",
            join(std::vector<std::string>(names.begin(), names.end()), ", "));
  return static_cast<int>(found - names.begin());
}

// Whether `name` is an axis whose values have names.
bool fix_named(FixedAxes& out, const std::string& text, const std::string& name,
               const std::string& value) {
  if (name == "schedule")
    out.schedule = static_cast<ScheduleKind>(place_of(text, value, kSchedules));
  else if (name == "recompute")
    out.recompute = static_cast<Recompute>(place_of(text, value, kRecomputes));
  else if (name == "cp_kind")
    out.cp_kind = static_cast<ContextKind>(place_of(text, value, kContexts));
  else if (name == "offload")
    out.offload = static_cast<Offload>(place_of(text, value, kOffloads));
  else if (name == "sequence")
    out.sequence = place_of(text, value, kFlags) == 1;
  else
    return false;
  return true;
}

}  // namespace

const char* name_of(Offload offload) {
  return kOffloads[static_cast<size_t>(offload)];
}

std::string to_text(const Layout& l) {
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : " · ") + part; };
  if (l.dp > 1) add(fmt::format("dp {}", l.dp));
  if (l.shard > 1) add(fmt::format("shard {} · zero {}", l.shard, l.zero));
  if (l.tp > 1) add(fmt::format("tp {}{}", l.tp, l.sequence ? "" : " without sequence"));
  if (l.cp > 1) add(fmt::format("cp {}", l.cp));
  if (l.cp > 1 && l.cp_kind != ContextKind::Ring) out += concat(" ", sextant::name_of(l.cp_kind));
  if (l.ep > 1) add(fmt::format("ep {}", l.ep));
  if (l.etp > 1) add(fmt::format("etp {}", l.etp));
  if (l.pp > 1) {
    add(fmt::format("pp {} · {}", l.pp, name_of(l.schedule)));
    if (l.chunks > 1) out += fmt::format(" × {}", l.chunks);
  }
  add(fmt::format("micro {}", l.micro));
  if (l.recompute != Recompute::None) add(fmt::format("recompute {}", name_of(l.recompute)));
  if (l.offload != Offload::None) add(concat("offload ", name_of(l.offload)));
  return out;
}

FixedAxes parse_fixed(const std::string& text) {
  FixedAxes out;
  if (text.empty()) return out;
  std::vector<std::string> names = {"schedule", "recompute", "cp_kind", "offload", "sequence"};
  for (const auto& [name, target] : kNumbers) names.emplace_back(name);
  for (const std::string& part : split(text, ',')) {
    const size_t equal = part.find('=');
    const std::string name = part.substr(0, equal);
    const bool is_axis = std::ranges::find(names, name) != names.end();
    SXT_CHECK(is_axis || equal == std::string::npos, Usage, "--fix ", text, ": '", name,
              "' is none of ", join(names, ", "), did_you_mean(name, names));
    SXT_CHECK(equal != std::string::npos, Usage, "--fix ", text, ": '", part,
              "' is no axis and its value, such as tp=8");
    const std::string value = part.substr(equal + 1);
    if (fix_named(out, text, name, value)) continue;
    const std::optional<int64_t> number = parse_int(value);
    const bool is_zero = name == "zero";
    SXT_CHECK(number && *number >= (is_zero ? 0 : 1) && *number <= (is_zero ? 3 : kMaxRanks), Usage,
              "--fix ", text, ": ", name, " is '", value, "', it takes a whole number from ",
              is_zero ? "0 to 3" : "1");
    for (const auto& [axis, target] : kNumbers)
      if (name == axis) out.*target = number;
  }
  return out;
}

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

bool has_gpus(const PlanRequest& request) {
  return request.hardware.generation != GpuGeneration::Cpu;
}

// In the words of precision.compute.
std::string precision_keys(NumberFormat format) {
  switch (format) {
    case NumberFormat::Fp32:
      return "compute = \"fp32\"\n";
    case NumberFormat::Fp16:
      return "compute = \"fp16\"\n";
    case NumberFormat::Fp8Tensor:
      return "compute = \"fp8\"\nfp8_recipe = \"tensor\"\n";
    default:
      return "compute = \"bf16\"\n";
  }
}

std::string run_file(const PlanRequest& request, const Layout& l, const char* device) {
  std::string out = fmt::format(
      "# {} on {} x {}: {}\n# Made by `sextant plan`.\nschema = 1\n\n[model]\npreset = \"{}\"\n"
      "seq = {}\n\n[batch]\nglobal = {}\nmicro = {}\n\n[parallel]\n",
      request.preset, request.gpus, request.hardware.name, to_text(l), request.preset,
      request.shape.seq, request.batch, l.micro);
  const auto line = [&](const char* key, auto value) {
    out += fmt::format("{} = {}\n", key, value);
  };
  if (l.dp > 1) line("dp", l.dp);
  if (l.shard > 1) {
    line("shard", l.shard);
    line("zero", l.zero);
  }
  if (l.tp > 1) {
    line("tp", l.tp);
    line("sequence", l.sequence ? "true" : "false");
  }
  if (l.cp > 1) {
    line("cp", l.cp);
    line("cp_kind", fmt::format("\"{}\"", sextant::name_of(l.cp_kind)));
  }
  if (l.pp > 1) {
    line("pp", l.pp);
    line("schedule", fmt::format("\"{}\"", name_of(l.schedule)));
    if (l.chunks > 1) line("chunks", l.chunks);
    if (request.shape.layers % l.stages() != 0) line("split", "\"balanced\"");
  }
  if (l.ep > 1) line("ep", l.ep);
  if (l.etp > 1) line("etp", l.etp);
  out += "\n[precision]\n" + precision_keys(request.numerics.format);
  out += fmt::format("\n[memory]\nrecompute = \"{}\"\n", name_of(l.recompute));
  if (l.offload != Offload::None) line("offload", fmt::format("\"{}\"", name_of(l.offload)));
  out += fmt::format("\n[run]\ndevice = \"{}\"\nmemory_limit = \"{}MiB\"\n", device,
                     memory_limit_of(request.hardware) / kMiB);
  return out;
}

// Why a configuration is refused, or "".
std::string refusal_of(const std::string& text) {
  try {
    const std::vector<std::string> none;
    parse_config(text, "plan", none);
  } catch (const Error& error) {
    // Nobody has seen the lines of this file.
    const std::string what = error.what();
    return what.starts_with("plan:") ? what.substr(what.find(": ") + 2) : what;
  }
  return "";
}

}  // namespace

std::string to_run_file(const PlanRequest& request, const Layout& layout) {
  const std::string refused = device_refusal(request);
  if (has_gpus(request) && refused.empty()) return run_file(request, layout, "cuda");
  const std::string why = refused.empty() ? "" : "# On the CPU: " + refused + "\n";
  return why + run_file(request, layout, "cpu");
}

int64_t memory_limit_of(const Hardware& hardware) {
  return static_cast<int64_t>(arena_limit(hardware, Constants{})) / kMiB * kMiB;
}

std::string device_refusal(const PlanRequest& request) {
  if (request.preset.empty() || !has_gpus(request)) return "";
  return refusal_of(run_file(request, Layout{}, "cuda"));
}

std::string format_refusal(const PlanRequest& request) {
  return request.preset.empty() ? "" : refusal_of(run_file(request, Layout{}, "cpu"));
}

std::string refusal_of(const PlanRequest& request, const Layout& layout) {
  if (request.preset.empty()) return "";
  // Narrow formats are priced for any model; whether `train` has them is said where a run is
  // written.
  PlanRequest plain = request;
  if (is_narrow(plain.numerics.format)) plain.numerics.format = NumberFormat::Bf16;
  const bool depends = layout.offload != Offload::None || layout.etp > 1;
  return refusal_of(run_file(plain, layout, depends && has_gpus(request) ? "cuda" : "cpu"));
}

StageLayers written_split(const PlanRequest& request, const Layout& layout) {
  if (request.preset.empty() || request.shape.layers % layout.stages() == 0) return {};
  try {
    ModelConfig model = *model_preset(request.preset);
    model.seq = request.shape.seq;
    return split_of(model, layout, "balanced");
  } catch (const Error&) {
    return {};  // the configuration check will say why
  }
}

}  // namespace sextant
