#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "bench/context.h"
#include "blueprint/context_part.h"
#include "cli/bench_rows.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "cli/values.h"
#include "config/keys.h"
#include "tensor/device.h"

namespace sextant::cli {
namespace {

struct ContextBenchArguments {
  std::string kinds = "ring,ulysses,allgather,ring+ulysses";
  int64_t ranks = 8, seq = 8192, heads = 8, kv_heads = 8, head_dim = 64, batch = 1, rounds = 3;
};

// Settings refuse what cannot be, and choose the groups of ring+ulysses.
Config context_config(const ContextBenchArguments& arguments, const Context& context,
                      const std::string& kind) {
  Context own = context;
  own.overrides = {"model.family=llama",
                   "model.layers=1",
                   "model.vocab=256",
                   fmt::format("model.hidden={}", arguments.heads * arguments.head_dim),
                   fmt::format("model.heads={}", arguments.heads),
                   fmt::format("model.kv_heads={}", arguments.kv_heads),
                   fmt::format("model.head_dim={}", arguments.head_dim),
                   fmt::format("model.seq={}", arguments.seq),
                   fmt::format("batch.global={}", arguments.batch),
                   fmt::format("batch.micro={}", arguments.batch),
                   "data.kind=synthetic",
                   "run.threads=1",
                   fmt::format("parallel.cp={}", arguments.ranks),
                   "parallel.cp_kind=" + kind};
  return load_settings(own, "").config;
}

double ms(double seconds) {
  return 1e3 * seconds;
}

Json row_json(const ContextRow& row) {
  const auto parts = [](const AttentionSeconds& of) {
    return Json{ms(of.forward), ms(of.backward)};
  };
  return bench_row(fmt::format("{} {} ranks", name_of(row.layout.cp_kind), row.layout.cp),
                   ms(row.shared.total()), "ms", ms(row.expected()),
                   {{"kind", name_of(row.layout.cp_kind)},
                    {"ranks", row.layout.cp},
                    {"ulysses", context_part(row.layout, 0).ulysses},
                    {"batch", row.heads.batch},
                    {"seq", row.heads.seq},
                    {"heads", row.heads.heads},
                    {"kv_heads", row.heads.kv_heads},
                    {"head_dim", row.heads.head_dim},
                    {"alone_ms", ms(row.alone.total())},
                    {"busy_ms", ms(row.busy.total())},
                    {"busy_ratio", row.busy_ratio()},
                    {"messages_ms", ms(row.messages.total())},
                    {"alone_parts_ms", parts(row.alone)},
                    {"busy_parts_ms", parts(row.busy)},
                    {"messages_parts_ms", parts(row.messages)},
                    {"parts_ms", parts(row.shared)},
                    {"pairs", {row.least_pairs, row.most_pairs}},
                    {"sent_bytes", row.sent_bytes},
                    {"difference", row.difference}});
}

std::string row_line(const ContextRow& row) {
  return fmt::format(
      "{:<13} {:>5} {:>8} {:>10.1f} {:>10.1f} {:>10.2f} {:>10.1f} {:>7.3f} {:>7.3f} {:>10} {}",
      name_of(row.layout.cp_kind), row.layout.cp, row.heads.seq, ms(row.alone.total()),
      ms(row.busy.total()), ms(row.messages.total()), ms(row.shared.total()), row.ratio(),
      row.busy_ratio(), format_bytes(row.sent_bytes),
      row.least_pairs == row.most_pairs ? fmt::format("{} each", row.most_pairs)
                                        : fmt::format("{} to {}", row.least_pairs, row.most_pairs));
}

int run_context(const ContextBenchArguments& arguments, Context& context) {
  SXT_CHECK(arguments.ranks > 1 && arguments.rounds > 0, Usage, "--ranks ", arguments.ranks,
            " --rounds ", arguments.rounds, ": at least 2 ranks and 1 round");
  ContextOptions options;
  options.rounds = static_cast<int>(arguments.rounds);
  std::vector<std::string> skipped;
  for (const std::string& kind : split(arguments.kinds, ',')) {
    Config config;
    try {
      config = context_config(arguments, context, kind);
    } catch (const Error& error) {  // the others can still be measured
      if (error.fault() != Fault::Config) throw;
      skipped.push_back(concat(kind, ": ", error.what()));
      continue;
    }
    options.heads = {config.batch.micro, config.model.seq, config.model.heads,
                     config.model.kv_heads, config.model.head_dim};
    options.layouts.push_back(config.parallel);
  }
  SXT_CHECK(!options.layouts.empty(), Config, "no kind can be measured; ", join(skipped, "; "));
  for (const std::string& why : skipped) context.log.warning("skipped " + why);
  if (arguments.ranks > available_cores())
    context.log.warning(
        fmt::format("{} ranks of one thread share {} cores: they disturb each other",
                    arguments.ranks, available_cores()));
  const std::vector<ContextRow> rows = bench_context(options, context.clock, context.log);
  context.log.end_progress();
  if (context.json) {
    Json json = Json::array();
    for (const ContextRow& row : rows) json.push_back(row_json(row));
    print_json(Json{{"rows", json}, {"skipped", skipped}});
    return 0;
  }
  print_line(fmt::format("{:<13} {:>5} {:>8} {:>10} {:>10} {:>10} {:>10} {:>7} {:>7} {:>10} {}",
                         "kind", "ranks", "seq", "one ms", "busy ms", "messages", "ms", "ratio",
                         "busy", "sent", "pairs of a rank"));
  for (const ContextRow& row : rows) print_line(row_line(row));
  return 0;
}

}  // namespace

Command bench_context_command() {
  const auto arguments = std::make_shared<ContextBenchArguments>();
  return {"context",
          "Context parallel attention, compared with 1/ranks of the work plus the messages",
          {{.names = "--kinds",
            .help = "Values of parallel.cp_kind to measure",
            .target = &arguments->kinds,
            .values = lists_of(find_key("parallel.cp_kind")->choices)},
           {"--ranks",
            "Context parallel ranks, of one thread each",
            &arguments->ranks,
            Option::Need::Optional,
            {},
            64},
           {"--seq", "Tokens of a sequence", &arguments->seq},
           {"--heads", "Query heads", &arguments->heads},
           {"--kv-heads", "Key-value heads", &arguments->kv_heads},
           {"--head-dim", "Width of a head", &arguments->head_dim},
           {"--batch", "Sequences", &arguments->batch},
           {"--rounds", "Number of rounds; the best of each counts", &arguments->rounds}},
          [arguments](Context& context) { return run_context(*arguments, context); }};
}

}  // namespace sextant::cli
