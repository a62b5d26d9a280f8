#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/parse.h"
#include "config/load.h"
#include "plan/search.h"

namespace sextant {

std::string to_text(const Layout& l) {
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : " · ") + part; };
  if (l.dp > 1) add(fmt::format("dp {}", l.dp));
  if (l.shard > 1) add(fmt::format("shard {} · zero {}", l.shard, l.zero));
  if (l.tp > 1) add(fmt::format("tp {}", l.tp));
  if (l.cp > 1) add(fmt::format("cp {}", l.cp));
  if (l.ep > 1) add(fmt::format("ep {}", l.ep));
  if (l.etp > 1) add(fmt::format("etp {}", l.etp));
  if (l.pp > 1) {
    add(fmt::format("pp {} · {}", l.pp, name_of(l.schedule)));
    if (l.chunks > 1) out += fmt::format(" × {}", l.chunks);
  }
  add(fmt::format("micro {}", l.micro));
  if (l.recompute != Recompute::None) add(fmt::format("recompute {}", name_of(l.recompute)));
  return out;
}

FixedAxes parse_fixed(const std::string& text) {
  FixedAxes out;
  if (text.empty()) return out;
  const std::vector<std::string> names = {"dp", "shard",  "zero",  "tp",       "cp",       "pp",
                                          "ep", "chunks", "micro", "schedule", "recompute"};
  for (const std::string& part : split(text, ',')) {
    const size_t equal = part.find('=');
    const std::string name = part.substr(0, equal);
    SXT_CHECK(equal != std::string::npos && std::ranges::find(names, name) != names.end(), Usage,
              "--fix ", text, ": '", part, "' is no axis and its value, such as tp=8",
              did_you_mean(name, names));
    const std::string value = part.substr(equal + 1);
    if (name == "schedule") {
      const auto* found = std::ranges::find(kSchedules, value);
      SXT_CHECK(found != std::end(kSchedules), Usage, "--fix ", text, ": '", value,
                "' is no schedule; `sextant simulate --help` lists them");
      out.schedule = static_cast<ScheduleKind>(found - std::begin(kSchedules));
    } else if (name == "recompute") {
      SXT_CHECK(value == "none" || value == "selective" || value == "full", Usage, "--fix ", text,
                ": '", value, "' is none of none, selective, full");
      out.recompute = value == "none"        ? Recompute::None
                      : value == "selective" ? Recompute::Selective
                                             : Recompute::Full;
    } else {
      const std::optional<int64_t> number = parse_int(value);
      SXT_CHECK(number && *number >= (name == "zero" ? 0 : 1) &&
                    *number <= (name == "zero" ? 3 : kMaxRanks),
                Usage, "--fix ", text, ": ", name, " is '", value,
                "', it takes a whole number from ", name == "zero" ? "0 to 3" : "1");
      std::optional<int64_t>& target = name == "dp"       ? out.dp
                                       : name == "shard"  ? out.shard
                                       : name == "zero"   ? out.zero
                                       : name == "tp"     ? out.tp
                                       : name == "cp"     ? out.cp
                                       : name == "pp"     ? out.pp
                                       : name == "ep"     ? out.ep
                                       : name == "chunks" ? out.chunks
                                                          : out.micro;
      target = number;
    }
  }
  return out;
}

std::string to_run_file(const PlanRequest& request, const Layout& l) {
  const Numerics& n = request.numerics;
  const bool bf16 = n.format != NumberFormat::Fp32 && n.format != NumberFormat::Fp16;
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
  if (l.ep > 1) line("ep", l.ep);
  if (l.etp > 1) line("etp", l.etp);
  if (l.pp > 1) {
    line("pp", l.pp);
    line("schedule", fmt::format("\"{}\"", name_of(l.schedule)));
    if (l.chunks > 1) line("chunks", l.chunks);
    if (request.shape.layers % (int64_t{1} * l.pp * l.chunks) != 0) line("split", "\"balanced\"");
  }
  out +=
      fmt::format("\n[precision]\ncompute = \"{}\"\n", bf16                             ? "bf16"
                                                       : n.format == NumberFormat::Fp16 ? "fp16"
                                                                                        : "fp32");
  out += fmt::format("\n[memory]\nrecompute = \"{}\"\n", name_of(l.recompute));
  out += fmt::format("\n[run]\nmemory_limit = \"{}GiB\"\n",
                     static_cast<int64_t>(request.hardware.memory / (1024.0 * 1024 * 1024)));
  return out;
}

std::string refusal_of(const PlanRequest& request, const Layout& layout) {
  if (request.preset.empty()) return "";
  try {
    const std::vector<std::string> none;
    parse_config(to_run_file(request, layout), "plan", none);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace sextant
