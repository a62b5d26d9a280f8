#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "bench/collective_fit.h"
#include "bench/collective_pictures.h"
#include "bench/collectives.h"
#include "bench/collectives_algorithms.h"
#include "bench/mpi_peer.h"
#include "cli/bench_rows.h"
#include "cli/print.h"
#include "cli/values.h"

namespace sextant::cli {
namespace {

constexpr double kPeerSeconds = 300;  // an mpirun that takes longer is ended

struct CollectivesBenchArguments {
  std::string ops =
      "all_reduce,reduce_scatter,all_gather,all_to_all,broadcast,scatter,gather,reduce,send,"
      "receive,barrier";
  std::string ranks = "2,4,8", sizes, largest = "64MiB", peer = "mpi";
  int64_t repeats = 5, rounds = 2, turn_ms = 5;
  std::string algorithms, pictures, tasks;
};

std::vector<int64_t> sizes_of(const CollectivesBenchArguments& arguments) {
  if (!arguments.sizes.empty()) return parse_sizes(arguments.sizes);
  const int64_t largest = parse_sizes(arguments.largest).front();
  const std::vector<int64_t> sizes = default_sizes(largest);
  SXT_CHECK(!sizes.empty(), Usage, "--largest ", arguments.largest, ", must be at least 1KiB");
  return sizes;
}

Turns turns_of(const CollectivesBenchArguments& arguments) {
  return {static_cast<int>(arguments.repeats), 1e-3 * static_cast<double>(arguments.turn_ms)};
}

// A bandwidth where there is one to speak of; for short vectors the time says more.
std::string collective_line(const CollectiveRow& row) {
  const auto rate = [&](double seconds) {
    return seconds > 0 ? fmt::format("{:.2f}", row.bandwidth(seconds) / 1e9) : std::string("-");
  };
  const auto micros = [](double seconds) {
    return seconds > 0 ? fmt::format("{:.1f}", 1e6 * seconds) : std::string("-");
  };
  return fmt::format("{:<15} {:>5} {:>10} {:>11} {:>8} {:>8} {:>6} {:>11} {:>8} {:>6}",
                     name_of(row.operation), row.ranks, format_bytes(row.bytes),
                     micros(row.seconds), rate(row.seconds), rate(row.limit_seconds),
                     row.limit_seconds > 0 ? fmt::format("{:.0f}%", 100 * row.limit_ratio()) : "-",
                     micros(row.mpi_seconds), rate(row.mpi_seconds),
                     row.mpi_seconds > 0 ? fmt::format("{:.2f}", row.mpi_ratio()) : "-");
}

Json collective_json(const CollectiveRow& row) {
  const auto or_null = [](bool there, double value) { return there ? Json(value) : Json(); };
  const bool has_mpi = row.mpi_seconds > 0;
  return bench_row(
      fmt::format("{} {} ranks {}", name_of(row.operation), row.ranks, format_bytes(row.bytes)),
      row.bandwidth(row.seconds) / 1e9, "GB/s", row.bandwidth(row.limit_seconds) / 1e9,
      {{"op", name_of(row.operation)},
       {"ranks", row.ranks},
       {"bytes", row.bytes},
       {"seconds", row.seconds},
       {"limit_seconds", or_null(row.limit_seconds > 0, row.limit_seconds)},
       {"mpi_value", or_null(has_mpi, row.bandwidth(row.mpi_seconds) / 1e9)},
       {"mpi_seconds", or_null(has_mpi, row.mpi_seconds)},
       {"mpi_ratio", or_null(has_mpi, row.mpi_ratio())}});
}

std::string fit_line(const CollectiveFit& fit) {
  return fmt::format("{:<15} {:>5} {:>11.2f} {:>10} {:>9.0f} %", name_of(fit.operation), fit.ranks,
                     1e6 * fit.alpha_s,
                     fit.beta_s > 0 ? fmt::format("{:.2f}", 1e-9 / fit.beta_s) : "-",
                     100 * fit.error);
}

Json fit_json(const CollectiveFit& fit) {
  return {{"op", name_of(fit.operation)},
          {"ranks", fit.ranks},
          {"alpha_s", fit.alpha_s},
          {"beta_s", fit.beta_s},
          {"error", fit.error}};
}

int run_timing(const CollectivesBenchArguments& arguments, Context& context) {
  CollectiveOptions options;
  options.operations = parse_operations(arguments.ops);
  options.ranks = parse_ranks(arguments.ranks);
  options.sizes = sizes_of(arguments);
  options.turns = turns_of(arguments);
  options.rounds = static_cast<int>(arguments.rounds);
  for (const int ranks : options.ranks)
    SXT_CHECK(ranks > 1, Usage, "--ranks ", ranks, ": one rank moves nothing, take 2 or more");
  if (arguments.peer == "mpi")
    options.peer = [](int ranks, const std::vector<NativeTask>& tasks, const Turns& turns) {
      return run_mpi_peer(own_program(), ranks, tasks, turns, kPeerSeconds);
    };
  const CollectiveReport report = bench_collectives(options, context.clock);
  const std::string mpi =
      arguments.peer == "mpi" && report.why_no_peer.empty()
          ? mpi_library()
          : "not run: " + (arguments.peer == "mpi" ? report.why_no_peer : "--peer none");
  for (const std::string& skipped : report.skipped) context.log.detail("skipped: " + skipped);
  Json rows = Json::array();
  for (const CollectiveRow& row : report.rows) rows.push_back(collective_json(row));
  if (context.json) {
    Json fits = Json::array();
    for (const CollectiveFit& fit : fit_collectives(report.rows)) fits.push_back(fit_json(fit));
    print_json(Json{{"rows", rows}, {"fits", fits}, {"mpi", mpi}, {"skipped", report.skipped}});
    return 0;
  }
  print_line(fmt::format("{:<15} {:>5} {:>10} {:>11} {:>8} {:>8} {:>6} {:>11} {:>8} {:>6}",
                         "collective", "ranks", "bytes", "us", "GB/s", "limit", "of it", "MPI us",
                         "MPI GB/s", "ratio"));
  for (const CollectiveRow& row : report.rows) print_line(collective_line(row));
  for (const std::string& skipped : report.skipped) print_line("skipped: " + skipped);
  print_line("GB/s: bus bandwidth; limit: the same reads and writes without the sum; MPI: " + mpi);
  print_line("\ntime of n bytes = alpha + n / rate, least squares of relative errors:");
  print_line(fmt::format("{:<15} {:>5} {:>11} {:>10} {:>11}", "collective", "ranks", "alpha us",
                         "rate GB/s", "off by"));
  for (const CollectiveFit& fit : fit_collectives(report.rows)) print_line(fit_line(fit));
  return 0;
}

// What an algorithm sends beside the naive one of the same size and ranks; 0 when that was not run.
double times_naive(const AlgorithmRow& row, const std::vector<AlgorithmRow>& rows) {
  for (const AlgorithmRow& other : rows)
    if (other.algorithm == Algorithm::Naive && other.ranks == row.ranks &&
        other.bytes == row.bytes && other.busiest > 0)
      return static_cast<double>(row.busiest) / static_cast<double>(other.busiest);
  return 0;
}

int run_algorithms(const CollectivesBenchArguments& arguments, Context& context) {
  const std::vector<int64_t> sizes = arguments.sizes.empty()
                                         ? std::vector<int64_t>{int64_t{1} << 20}
                                         : parse_sizes(arguments.sizes);
  const std::vector<AlgorithmRow> rows =
      bench_algorithms(parse_algorithms(arguments.algorithms), parse_ranks(arguments.ranks), sizes,
                       static_cast<int>(arguments.repeats), context.clock);
  Json json = Json::array();
  if (!context.json)
    print_line(fmt::format("{:<10} {:>5} {:>10} {:>6} {:>14} {:>14} {:>11} {:>9}", "all_reduce",
                           "ranks", "bytes", "steps", "busiest sends", "all send", "us",
                           "x naive"));
  for (const AlgorithmRow& row : rows) {
    const double share = times_naive(row, rows);
    if (context.json)
      json.push_back(bench_row(fmt::format("all_reduce {} {} ranks {}", name_of(row.algorithm),
                                           row.ranks, format_bytes(row.bytes)),
                               bus_factor(Operation::AllReduce, row.ranks) *
                                   static_cast<double>(row.bytes) / row.seconds / 1e9,
                               "GB/s", 0,
                               {{"algorithm", name_of(row.algorithm)},
                                {"ranks", row.ranks},
                                {"bytes", row.bytes},
                                {"steps", row.steps},
                                {"busiest_elements", row.busiest},
                                {"total_elements", row.total},
                                {"seconds", row.seconds},
                                {"busiest_over_naive", share > 0 ? Json(share) : Json()}}));
    else
      print_line(fmt::format("{:<10} {:>5} {:>10} {:>6} {:>14} {:>14} {:>11.1f} {:>9}",
                             name_of(row.algorithm), row.ranks, format_bytes(row.bytes), row.steps,
                             row.busiest, row.total, 1e6 * row.seconds,
                             share > 0 ? fmt::format("{:.3f}", share) : "-"));
  }
  if (context.json) print_json(Json{{"rows", json}});
  return 0;
}

// One rank of the peer; the first prints for all.
int run_as_peer(const CollectivesBenchArguments& arguments, Context& context) {
  const std::vector<NativeTask> tasks = parse_tasks(arguments.tasks);
  const std::vector<double> seconds = time_native(tasks, turns_of(arguments), context.clock);
  if (!seconds.empty()) print_json(Json{{"seconds", seconds}});
  return 0;
}

int run_collectives(const CollectivesBenchArguments& arguments, Context& context) {
  SXT_CHECK(arguments.repeats > 0 && arguments.rounds > 0, Usage, "--repeats ", arguments.repeats,
            " --rounds ", arguments.rounds, ", both must be at least 1");
  if (!arguments.tasks.empty()) return run_as_peer(arguments, context);
  if (!arguments.pictures.empty())
    return write_pictures(context, arguments.pictures, draw_collectives());
  if (!arguments.algorithms.empty()) return run_algorithms(arguments, context);
  return run_timing(arguments, context);
}

}  // namespace

Command bench_collectives_command() {
  const auto arguments = std::make_shared<CollectivesBenchArguments>();
  return {"collectives",
          "Collectives over threads, compared with the memory bandwidth and Open MPI",
          {{.names = "--ops",
            .help = "Collectives to measure, separated by commas",
            .target = &arguments->ops,
            .values = lists_of(split(CollectivesBenchArguments().ops, ','))},
           {"--ranks", "Numbers of ranks", &arguments->ranks},
           {"--sizes", "Bytes of the vectors, such as 1KiB,16MiB", &arguments->sizes},
           {"--largest", "Without --sizes: largest vector in bytes", &arguments->largest},
           {"--repeats", "Runs of each in a round", &arguments->repeats},
           {"--turn-ms", "Milliseconds of a run; at least one call", &arguments->turn_ms},
           {"--rounds", "Number of rounds, alternating with MPI; the best of each counts",
            &arguments->rounds},
           {"--peer", "Beside what", &arguments->peer, Option::Need::Optional, {"mpi", "none"}},
           {"--algorithm", "Only measure all-reduces made of messages: naive,ring,tree,doubling",
            &arguments->algorithms},
           {"--pictures", "Only draw what each collective does, into this directory",
            &arguments->pictures},
           {"--as-mpi-peer", "Instead, under mpirun: time MPI's own; operation:bytes,...",
            &arguments->tasks}},
          [arguments](Context& context) { return run_collectives(*arguments, context); }};
}

}  // namespace sextant::cli
