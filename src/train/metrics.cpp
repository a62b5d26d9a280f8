#include "train/metrics.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/parse.h"
#include "formats/tensorboard.h"
#include "train/set_aside.h"

namespace sextant {
namespace {

constexpr const char* kMetricsFile = "metrics.jsonl";
constexpr const char* kEventsDirectory = "tensorboard";

// trace.json for all ranks of a process, or trace-2.json for one of several.
bool is_trace(const std::string& name) {
  constexpr std::string_view kBegin = "trace-", kEnd = ".json";
  if (name == "trace.json") return true;
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return false;
  return parse_int(name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size()))
      .has_value();
}

// Files that runs have written to their output directory.
std::vector<std::string> own_names(Storage& storage, const std::string& out) {
  std::vector<std::string> names = {kMetricsFile, kEventsDirectory, "checkpoints", "config.toml"};
  for (const std::string& name : storage.list(out))
    if (is_trace(name)) names.push_back(name);
  return names;
}

}  // namespace

void cut_metrics(Storage& storage, const std::string& path, int64_t done) {
  if (!storage.exists(path)) return;
  const std::string text = read_text(storage, path);
  size_t end = 0;
  while (true) {
    const size_t line_end = text.find('\n', end);
    if (line_end == std::string::npos) break;
    const nlohmann::json line = nlohmann::json::parse(text.substr(end, line_end - end), nullptr,
                                                      /*allow_exceptions=*/false);
    if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer() ||
        line["step"].get<int64_t>() > done)
      break;
    end = line_end + 1;
  }
  storage.truncate(path, static_cast<int64_t>(end));
}

Metrics::Metrics(Storage& storage, const Clock& clock, const std::string& out, Start start,
                 int64_t done, bool tensorboard) {
  storage.make_directories(out);
  const std::string path = join_path(out, kMetricsFile);
  if (start == Start::Fresh)
    moved_to_ = set_aside(storage, out, own_names(storage, out));
  else
    cut_metrics(storage, path, done);
  file_ = storage.create(path, OpenMode::Append);
  if (tensorboard)
    events_ = std::make_unique<EventWriter>(storage, join_path(out, kEventsDirectory), clock);
}

Metrics::~Metrics() = default;

void Metrics::sync() {
  file_->sync();
}

void Metrics::write(const StepRecord& record) {
  write_text(*file_, to_json(record) + "\n");
  if (events_ == nullptr) return;
  const std::array<ScalarValue, 8> values = {{
      {"train/loss", static_cast<float>(record.loss)},
      {"train/grad_norm", static_cast<float>(record.grad_norm)},
      {"train/lr", static_cast<float>(record.lr)},
      {"speed/tokens_per_s", static_cast<float>(record.tokens_per_s)},
      {"speed/mfu", static_cast<float>(record.mfu)},
      {"speed/step_s", static_cast<float>(record.step_s)},
      {"speed/comm_exposed_s", static_cast<float>(record.comm_exposed_s)},
      {"memory/peak_bytes", static_cast<float>(record.mem_peak)},
  }};
  events_->write_scalars(record.step, values);
  if (record.loss_scale) {
    const ScalarValue scale{"train/loss_scale", static_cast<float>(*record.loss_scale)};
    events_->write_scalars(record.step, {&scale, 1});
  }
  if (record.routing) {
    const std::array<ScalarValue, 4> routing = {{
        {"experts/imbalance", static_cast<float>(record.routing->imbalance())},
        {"experts/balance_loss", static_cast<float>(record.routing->balance_loss)},
        {"experts/router_z_loss", static_cast<float>(record.routing->router_z_loss)},
        {"experts/dropped", static_cast<float>(record.routing->dropped_share())},
    }};
    events_->write_scalars(record.step, routing);
    std::vector<CountsValue> tokens;
    for (const std::vector<int64_t>& layer : record.routing->expert_tokens)
      tokens.push_back({concat("experts/tokens/", tokens.size()), layer});
    events_->write_histograms(record.step, tokens);
  }
  if (record.eval_loss) {
    const ScalarValue eval{"eval/loss", static_cast<float>(*record.eval_loss)};
    events_->write_scalars(record.step, {&eval, 1});
  }
}

}  // namespace sextant
