#include "plan/run_table.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/parse.h"

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

}  // namespace sextant
