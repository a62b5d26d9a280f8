#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "schedule/make_schedule.h"
#include "schedule/stage_cost.h"

namespace sextant::cli {

// Text where it matters whether an option was given.
struct SimulateArguments {
  std::string config, compare, schedule, stages, micros, chunks, group, times, comm, wire, overlap,
      memory, memory_limit, target, from, svg, trace, csv;
  std::string flops, bandwidth, link, host, latency, launch;  // of a rank, for the step of a run
  std::string hardware;  // or a file with the costs of a machine
  // A whole run on a cluster.
  std::string cluster, tokens, interruptions, checkpoint_cost, checkpoint_interval, restart,
      stragglers, price, slow_rank, slow_link;
  bool flow = false;
  int64_t width = 0;  // of the text timeline; 0: the terminal's, elsewhere 120
};

// What the options ask for, with their defaults. Error(Usage) for what they do not take.
ScheduleRequest request_of(const SimulateArguments& arguments);
double parse_time(const char* option, const std::string& text);   // 0 when not given
double parse_share(const char* option, const std::string& text);  // "5%" or "0.05"
// Bytes of --memory, for every stage.
void set_memory(std::vector<StageCost>& stages, const std::string& text);

// Options that say what something else says already.
struct GivenOption {
  const char* name;
  const std::string& text;
};
// Error(Usage) that says why when one of them was given.
void refuse_options(std::initializer_list<GivenOption> options, const std::string& because);

}  // namespace sextant::cli
