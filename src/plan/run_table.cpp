#include "plan/run_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/parse.h"
#include "blueprint/blueprint.h"

namespace sextant {

std::string PublishedRun::origin() const {
  if (source.starts_with("arXiv:")) return source.substr(0, source.find(' '));
  return source.substr(0, source.find_first_of(": "));
}

std::vector<std::vector<std::string>> parse_csv(std::string_view text) {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> line;
  std::string field;
  bool quoted = false, any = false;
  const auto end_line = [&] {
    if (!any) return;
    line.push_back(std::move(field));
    lines.push_back(std::move(line));
    field.clear();
    line.clear();
    any = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        field += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        field += '"';
        ++i;
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = any = true;
    } else if (c == ',') {
      line.push_back(std::move(field));
      field.clear();
      any = true;
    } else if (c == '\n') {
      end_line();
    } else if (c != '\r') {
      field += c;
      any = true;
    }
  }
  end_line();
  return lines;
}

std::vector<PublishedRun> read_runs(std::string_view text, const std::string& name) {
  const std::vector<std::vector<std::string>> lines = parse_csv(text);
  std::map<std::string, size_t, std::less<>> columns;
  if (!lines.empty())
    for (size_t i = 0; i < lines[0].size(); ++i) columns[lines[0][i]] = i;
  SXT_CHECK(columns.contains("id"), Data, name,
            ": the first line has no column 'id', so this is no table of runs");
  std::vector<PublishedRun> runs;
  for (size_t row = 1; row < lines.size(); ++row) {
    const std::vector<std::string>& line = lines[row];
    const auto word = [&](std::string_view column) -> std::string {
      const auto found = columns.find(column);
      return found == columns.end() || found->second >= line.size() ? "" : line[found->second];
    };
    const auto number = [&](std::string_view column) { return parse_double(word(column)); };
    PublishedRun run;
    run.id = word("id");
    run.source = word("source");
    run.model = word("model");
    run.gpu = word("gpu");
    run.recompute = word("recompute");
    run.recompute_n = word("recompute_n");
    run.precision = word("precision");
    run.compute = word("compute");
    run.kernel = word("kernel");
    run.notes = word("notes");
    run.kv_heads = word("kv_heads");
    run.vpp = word("vpp");
    run.mlp = word("mlp");
    run.schedule = word("schedule_n").empty() ? word("schedule") : word("schedule_n");
    run.mem_kind = word("mem_kind");
    run.release = word("release");
    run.params_b = number("params_b");
    run.layers = number("layers");
    run.hidden = number("hidden");
    run.heads = number("heads");
    run.head_dim = number("head_dim");
    run.ffn = number("ffn");
    run.vocab = number("vocab");
    run.seq = number("seq");
    run.experts = number("moe_experts");
    run.topk = number("moe_topk");
    run.expert_ffn = number("moe_ffn");
    run.shared_ffn = number("moe_shared_ffn");
    run.dense_layers = number("moe_dense_layers");
    run.gpus = number("gpus");
    run.gpus_per_node = number("gpus_per_node");
    run.tp = number("tp");
    run.sp = number("sp");
    run.cp = number("cp");
    run.pp = number("pp");
    run.ep = number("ep");
    run.dp = number("dp");
    run.zero = number("zero_n");
    if (!run.zero) run.zero = number("zero");
    run.mbs = number("mbs");
    run.gbs = number("gbs");
    run.flash = number("flash");
    run.step_s = number("step_time_s");
    run.mem_gib = number("mem_n_gib");
    if (!run.mem_gib) run.mem_gib = number("mem_gib");
    run.oom = number("oom");
    run.scored = word("scored") == "1";
    runs.push_back(std::move(run));
  }
  return runs;
}

namespace {

const char* precision_of(ComputeType compute) {
  switch (compute) {
    case ComputeType::Fp32:
      return "fp32";
    case ComputeType::Bf16:
      return "bf16";
    case ComputeType::Fp16:
      return "fp16";
    case ComputeType::Fp8:
      return "fp8";
    case ComputeType::Fp64:
      return "fp64";
  }
  return "";
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

// Attention is tiled in every run of this program, which is what the columns call FlashAttention-2.
std::string run_table_text(const MeasuredRun& run) {
  const ModelConfig& model = run.config.model;
  const ParallelConfig& layout = run.config.parallel;
  const bool has_experts = model.experts > 0, is_pipeline = layout.pp > 1;
  const std::string precision = precision_of(run.config.precision.compute);
  const std::string recompute = name_of(run.config.memory.recompute);
  const auto shown = [](auto value) { return fmt::format("{}", value); };
  const auto if_experts = [&](int64_t value) { return has_experts ? shown(value) : ""; };
  const std::vector<std::pair<const char*, std::string>> columns = {
      {"id", run.id},
      {"source", "sextant"},
      {"tier", "A"},
      {"model", model.preset.empty() ? name_of(model.family) : model.preset},
      {"layers", shown(model.layers)},
      {"hidden", shown(model.hidden)},
      {"heads", shown(model.heads)},
      {"kv_heads", shown(model.kv_heads)},
      {"head_dim", shown(model.head_dim)},
      {"ffn", shown(model.ffn)},
      {"mlp", features_of(model).gated ? "swiglu" : "gelu"},
      {"vocab", shown(model.vocab)},
      {"seq", shown(model.seq)},
      {"moe_experts", if_experts(model.experts)},
      {"moe_topk", if_experts(model.experts_per_token)},
      {"moe_ffn", if_experts(model.expert_ffn)},
      {"moe_shared_ffn", if_experts(model.shared_experts * model.expert_ffn)},
      {"moe_dense_layers", if_experts(model.dense_layers)},
      {"gpu", run.gpu},
      {"gpus", shown(world_size(layout))},
      {"gpus_per_node", shown(run.gpus_per_node)},
      {"tp", shown(layout.tp)},
      {"sp", layout.sequence ? "1" : "0"},
      {"cp", shown(layout.cp)},
      {"pp", shown(layout.pp)},
      {"vpp", is_pipeline && layout.chunks > 1 ? shown(layout.chunks) : ""},
      {"ep", shown(layout.ep)},
      {"dp", shown(data_ranks(layout))},
      {"zero", shown(layout.zero)},
      {"schedule", is_pipeline ? layout.schedule : "none"},
      {"mbs", shown(run.config.batch.micro)},
      {"gbs", shown(run.config.batch.global)},
      {"recompute", recompute},
      {"precision", precision},
      {"kernel", "flash_attention2"},
      {"step_time_s", fmt::format("{:.6g}", run.step_s)},
      {"step_time_src", "measured, median"},
      {"mem_gib", fmt::format("{:.6g}", run.mem_gib)},
      {"mem_kind", "allocated"},
      {"oom", "0"},
      {"notes", layout.dp > 1 && layout.shard > 1
                    ? fmt::format("hybrid sharding: dp {} of shard {}", layout.dp, layout.shard)
                    : ""},
      {"zero_n", shown(layout.zero)},
      {"schedule_n", is_pipeline ? layout.schedule : "none"},
      {"recompute_n", recompute},
      {"flash", "1"},
      {"compute", precision},
      {"mem_n_gib", fmt::format("{:.6g}", run.mem_gib)},
      {"scored", "1"}};
  std::string header, line;
  for (const auto& [name, value] : columns) {
    header += (header.empty() ? "" : ",") + std::string(name);
    line += (line.empty() ? "" : ",") + quoted(value);
  }
  return header + "\n" + line + "\n";
}

}  // namespace sextant
