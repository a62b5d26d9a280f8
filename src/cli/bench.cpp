#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "bench/attention.h"
#include "bench/attention_pictures.h"
#include "bench/gemm.h"
#include "bench/grouped_gemm.h"
#include "bench/matrix_pictures.h"
#include "bench/optimizer.h"
#include "cli/bench_rows.h"
#include "cli/print.h"
#include "tensor/device.h"
#include "tensor/gpu.h"

namespace sextant::cli {
namespace {

void finish(Context& context, const Json& rows) {
  if (context.json) print_json(Json{{"rows", rows}});
}

std::vector<int> thread_counts() {
  const int cores = available_cores();
  return cores == 1 ? std::vector<int>{1} : std::vector<int>{1, cores};
}

// The limit of a grouped product is the dense one of all rows.
void add_grouped_rows(const Context& context, Json& rows, const std::vector<GroupedRow>& results) {
  if (!context.json)
    print_line(fmt::format("\n{:<54} {:>7} {:>9} {:>9} {:>6}", "grouped product of experts",
                           "threads", "GFLOP/s", "dense", "ratio"));
  for (const GroupedRow& result : results) {
    rows.push_back(bench_row(result.name, result.gflops, "GFLOP/s", result.dense_gflops,
                             {{"threads", result.threads}}));
    if (!context.json)
      print_line(fmt::format("{:<54} {:>7} {:>9.1f} {:>9.1f} {:>6.2f}", result.name, result.threads,
                             result.gflops, result.dense_gflops, result.ratio()));
  }
}

void add_dense_rows(Context& context, Json& rows, GemmOptions options) {
  BlasPeers peers = find_blas_peers();
  for (const std::string& missing : peers.missing) context.log.detail("peer not found: " + missing);
  for (const GemmModel& model : gemm_models())
    for (GemmShape& shape : gemm_shapes(model)) options.shapes.push_back(std::move(shape));
  options.peers = std::move(peers.found);
  if (!context.json)
    print_line(fmt::format("{:<34} {:>7} {:>9} {:>9} {:>6} {:>9} {:>6} {:>10}", "product",
                           "threads", "GFLOP/s", "best peer", "ratio", "limit", "of it",
                           "FLOP/byte"));
  for (const GemmRow& result : bench_gemm(options, context.clock)) {
    rows.push_back(bench_row(result.shape.name, result.gflops, "GFLOP/s", result.limit_gflops,
                             {{"threads", result.threads},
                              {"m", result.shape.m},
                              {"n", result.shape.n},
                              {"k", result.shape.k},
                              {"peer", result.peer},
                              {"peer_value", result.peer_gflops},
                              {"peer_ratio", result.peer_ratio()},
                              {"flops_per_byte", result.shape.flops_per_byte()},
                              {"ridge", result.ridge},
                              {"bound", result.is_compute_bound() ? "compute" : "memory"}}));
    if (!context.json)
      print_line(fmt::format(
          "{:<34} {:>7} {:>9.1f} {:>9.1f} {:>6.2f} {:>9.1f} {:>5.0f}% {:>6.0f} {}",
          result.shape.name, result.threads, result.gflops, result.peer_gflops, result.peer_ratio(),
          result.limit_gflops, 100 * result.limit_ratio(), result.shape.flops_per_byte(),
          result.is_compute_bound() ? "(compute)" : "(memory)"));
  }
}

Command gemm_command() {
  const auto repeats = std::make_shared<int64_t>(5);
  const auto pictures = std::make_shared<std::string>();
  const auto products = std::make_shared<std::string>("all");
  const auto device = std::make_shared<std::string>("cpu");
  return {"gemm",
          "Matrix products of the models, compared with the CBLAS libraries of this machine",
          {{"--repeats", "Runs of each library", repeats.get()},
           {.names = "--products",
            .help = "Those of the models, or grouped ones of experts, compared with a dense one",
            .target = products.get(),
            .choices = {"all", "dense", "grouped"}},
           {.names = "--device",
            .help = "cuda: the grouped ones alone, in bf16, on the first GPU",
            .target = device.get(),
            .choices = {"cpu", "cuda"}},
           {"--pictures", "Only draw how tensor parallel splits a matrix, into this directory",
            pictures.get()}},
          [repeats, pictures, products, device](Context& context) {
            if (!pictures->empty()) return write_pictures(context, *pictures, draw_matrices());
            SXT_CHECK(*repeats > 0, Usage, "--repeats ", *repeats, ", must be at least 1");
            GemmOptions options;
            options.threads = thread_counts();
            options.repeats = static_cast<int>(*repeats);
            Json rows = Json::array();
            const bool is_gpu = *device == "cuda";
            SXT_CHECK(!is_gpu || *products != "dense", Usage,
                      "bench gemm --products dense runs on the CPU; --device cuda measures grouped "
                      "products");
            if (is_gpu) {
              const std::string why = gpu::why_unusable(0);
              SXT_CHECK(why.empty(), Config, "bench gemm --device cuda: ", why);
              options.threads = {1};
            }
            if (!is_gpu && *products != "grouped") add_dense_rows(context, rows, options);
            const DeviceKind kind = is_gpu ? DeviceKind::Cuda : DeviceKind::Cpu;
            if (*products != "dense")
              add_grouped_rows(context, rows,
                               bench_grouped(options, grouped_shapes(kind), kind, context.clock));
            finish(context, rows);
            return 0;
          }};
}

std::string attention_line(const AttentionRow& result) {
  return fmt::format(
      "{:<28} {:>7} {:>9.1f} {:>9.1f} {:>5.0f}% {:>5.0f}% {:>9.1f} {:>9.1f} {:>10} {:>10}",
      result.shape.name, result.threads, result.tiled.forward_gflops, result.tiled.backward_gflops,
      100 * result.forward_ratio(), 100 * result.backward_ratio(), result.unfused.forward_gflops,
      result.unfused.backward_gflops, format_bytes(result.tiled.peak_bytes),
      format_bytes(result.unfused.peak_bytes));
}

// A row for each direction.
void add_attention_rows(Json& rows, const AttentionRow& result) {
  const auto add = [&](const char* direction, double value, double unfused, double intensity) {
    rows.push_back(bench_row(result.shape.name + " " + direction, value, "GFLOP/s",
                             result.limit_gflops,
                             {{"threads", result.threads},
                              {"unfused_value", unfused},
                              {"peak_bytes", result.tiled.peak_bytes},
                              {"unfused_peak_bytes", result.unfused.peak_bytes},
                              {"flops_per_byte", intensity},
                              {"ridge", result.ridge},
                              {"bound", intensity >= result.ridge ? "compute" : "memory"}}));
  };
  add("forward", result.tiled.forward_gflops, result.unfused.forward_gflops,
      result.tiled.forward_flops_per_byte);
  add("backward", result.tiled.backward_gflops, result.unfused.backward_gflops,
      result.tiled.backward_flops_per_byte);
}

Command attention_command() {
  const auto repeats = std::make_shared<int64_t>(5);
  const auto pictures = std::make_shared<std::string>();
  return {
      "attention",
      "Tiled attention, compared with attention that stores the scores",
      {{"--repeats", "Runs of each form", repeats.get()},
       {"--pictures",
        "Only draw how context parallel divides a causal sequence, into this directory",
        pictures.get()}},
      [repeats, pictures](Context& context) {
        if (!pictures->empty()) return write_pictures(context, *pictures, draw_attention());
        SXT_CHECK(*repeats > 0, Usage, "--repeats ", *repeats, ", must be at least 1");
        AttentionOptions options;
        options.shapes = attention_shapes();
        options.threads = thread_counts();
        options.repeats = static_cast<int>(*repeats);
        Json rows = Json::array();
        if (!context.json)
          print_line(fmt::format("{:<28} {:>7} {:>9} {:>9} {:>6} {:>6} {:>9} {:>9} {:>10} {:>10}",
                                 "attention", "threads", "forward", "backward", "limit", "limit",
                                 "unfused f", "unfused b", "memory", "unfused"));
        for (const AttentionRow& result : bench_attention(options, context.clock)) {
          add_attention_rows(rows, result);
          if (!context.json) print_line(attention_line(result));
        }
        finish(context, rows);
        return 0;
      }};
}

Command optimizer_command() {
  const auto elements = std::make_shared<int64_t>(124'439'808);
  return {"optimizer",
          "AdamW, compared with a loop that moves the same bytes",
          {{"--elements", "Parameters", elements.get()}},
          [elements](Context& context) {
            SXT_CHECK(*elements > 0, Usage, "--elements ", *elements, ", must be at least 1");
            Arena arena(Device{}, *elements * 17 + Stream::scratch_bytes(available_cores()));
            Stream stream(arena, available_cores());
            const OptimizerTimes times = bench_adamw(stream, context.clock, *elements, 5);
            finish(context, Json::array({bench_row("adamw", times.adamw_bytes_per_second() / 1e9,
                                                   "GB/s", times.floor_bytes_per_second() / 1e9,
                                                   {{"seconds", times.adamw_seconds},
                                                    {"floor_seconds", times.floor_seconds},
                                                    {"times_floor", times.ratio()}})}));
            if (!context.json)
              print_line(fmt::format(
                  "adamw over {} parameters: {:.1f} ms, {:.1f} GB/s; {:.2f} x the "
                  "{:.1f} ms of moving the same bytes",
                  format_count(static_cast<double>(*elements)), 1e3 * times.adamw_seconds,
                  times.adamw_bytes_per_second() / 1e9, times.ratio(), 1e3 * times.floor_seconds));
            return 0;
          }};
}

}  // namespace

int write_pictures(Context& context, const std::string& directory,
                   std::span<const Picture> pictures) {
  context.storage.make_directories(directory);
  Json files = Json::array();
  for (const Picture& picture : pictures) {
    const std::string path = join_path(directory, picture.name + ".svg");
    replace_file(context.storage, path, picture.svg);
    files.push_back(path);
    if (!context.json) print_line(path);
  }
  if (context.json) print_json(Json{{"files", files}});
  return 0;
}

Json bench_row(const std::string& name, double value, const std::string& unit, double limit,
               const Json& more) {
  Json json = {{"name", name},
               {"value", value},
               {"unit", unit},
               {"limit", limit},
               {"ratio", limit > 0 ? Json(value / limit) : Json()}};
  json.update(more);
  return json;
}

Command bench_command() {
  Command command{"bench", "Measure this machine and compare each result with its limit"};
  command.subcommands = {
      gemm_command(),           attention_command(),     bench_collectives_command(),
      bench_step_command(),     bench_scaling_command(), bench_pipeline_command(),
      bench_context_command(),  optimizer_command(),     bench_plan_command(),
      bench_calibrate_command()};
  return command;
}

}  // namespace sextant::cli
