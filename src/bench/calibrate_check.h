#pragma once
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/storage.h"
#include "config/config.h"
#include "sim/machine.h"

namespace sextant {

// A layout of this program as predicted and as it ran on this machine.
struct CheckedLayout {
  std::string name;  // "tp=2 pp=2"
  int ranks = 1;
  double predicted_s = 0, measured_s = 0;  // of a step; measured: the lower quartile
  double busy_s = 0;  // core seconds of a step, divided by the cores: measured_s is at least this
  bool is_memory_exact = false;                   // peak and reserved bytes of every rank
  int64_t predicted_peak = 0, measured_peak = 0;  // of the fullest rank
  std::vector<std::string> assumed;

  double error() const { return predicted_s / measured_s - 1; }
};

// Layouts of 1 to 8 ranks over all axes, none of them a model that `calibrate` measures.
struct CheckLayout {
  std::string name;
  std::vector<std::string> settings;
};
std::vector<CheckLayout> check_layouts();
Config check_config(const CheckLayout& layout);

// Runs each layout for `steps` steps, `rounds` times in turn.
std::vector<CheckedLayout> check_layouts(const Machine& machine, int steps, int rounds,
                                         Storage& storage, const Clock& clock, Log& log);
double mean_error(const std::vector<CheckedLayout>& layouts);
bool is_memory_exact(const std::vector<CheckedLayout>& layouts);
// A table in Markdown.
std::string check_report(const std::vector<CheckedLayout>& layouts);

}  // namespace sextant
