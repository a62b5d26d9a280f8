#include "trace/op_times.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/columns.h"

namespace sextant {
namespace {

// Of all operations together, those that run at the same time counted once.
double busy_seconds(std::vector<OpTime> times) {
  std::ranges::sort(times, {}, &OpTime::begin);
  double busy = 0, until = 0;
  bool is_first = true;
  for (const OpTime& time : times) {
    const double from = is_first ? time.begin : std::max(until, time.begin);
    busy += std::max(0.0, time.end - from);
    until = is_first ? time.end : std::max(until, time.end);
    is_first = false;
  }
  return busy;
}

double floor_of(const TraceOp& op, const Ceilings& ceilings) {
  const auto seconds = [](double work, double rate) { return rate > 0 ? work / rate : 0; };
  return std::max(seconds(op.flops, ceilings.flops),
                  seconds(static_cast<double>(op.read + op.written), ceilings.bytes));
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace

double OpTable::floor_s() const {
  double sum = 0;
  for (const OpClass& c : classes) sum += c.floor_s;
  return sum;
}

OpTable op_table(const Trace& trace, std::span<const OpTime> times, double step_s,
                 const Ceilings& ceilings, const std::function<double(const TraceOp&)>& predicted) {
  std::map<std::pair<std::string, bool>, OpClass> classes;
  std::vector<OpTime> known;
  for (size_t i = 0; i < trace.ops.size() && i < times.size(); ++i) {
    if (!times[i].is_known()) continue;
    known.push_back(times[i]);
    const TraceOp& op = trace.ops[i];
    const bool is_compute = op.lane == Trace::kCompute;
    OpClass& to = classes[{op.name, is_compute}];
    to.name = op.name;
    to.is_compute = is_compute;
    ++to.count;
    to.seconds += times[i].seconds();
    to.flops += op.flops;
    to.bytes += static_cast<double>(op.read + op.written);
    if (is_compute) to.floor_s += floor_of(op, ceilings);
    if (predicted) to.predicted_s += predicted(op);
  }
  OpTable table;
  table.step_s = step_s;
  table.has_predictions = static_cast<bool>(predicted);
  table.has_floors = ceilings.flops > 0 || ceilings.bytes > 0;
  table.idle_s = std::max(0.0, step_s - busy_seconds(std::move(known)));
  for (auto& [name, of_class] : classes) table.classes.push_back(std::move(of_class));
  std::ranges::stable_sort(table.classes, std::ranges::greater{}, &OpClass::seconds);
  return table;
}

std::string to_text(const OpTable& table) {
  const auto percent = [&](double seconds) {
    return table.step_s > 0 ? fixed(100 * seconds / table.step_s, 1) : "-";
  };
  std::vector<TextRow> rows = {{"operation", "count", "ms", "% of step", "TFLOP/s", "TB/s"}};
  double all_predicted = 0;
  const auto add = [&](TextRow row, double seconds, double floor, double predicted) {
    if (table.has_floors) {
      row.push_back(fixed(1e3 * floor, 3));
      row.push_back(fixed(1e3 * (seconds - floor), 3));
    }
    if (table.has_predictions) row.push_back(fixed(1e3 * predicted, 3));
    all_predicted += predicted;
    rows.push_back(std::move(row));
  };
  if (table.has_floors) rows.front().insert(rows.front().end(), {"floor ms", "left ms"});
  if (table.has_predictions) rows.front().push_back("predicted ms");
  for (const OpClass& c : table.classes)
    add({c.name, std::to_string(c.count), fixed(1e3 * c.seconds, 3), percent(c.seconds),
         c.flops > 0 ? fixed(c.flops_per_s() / 1e12, 1) : "", fixed(c.bytes_per_s() / 1e12, 2)},
        c.seconds, c.floor_s, c.predicted_s);
  add({"without operations", "", fixed(1e3 * table.idle_s, 3), percent(table.idle_s), "", ""},
      table.idle_s, 0, 0);
  add({"step", "", fixed(1e3 * table.step_s, 3), "", "", ""}, table.step_s, table.floor_s(),
      all_predicted);
  return aligned(rows, "", Align::Right);
}

}  // namespace sextant
