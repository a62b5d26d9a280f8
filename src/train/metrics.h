#pragma once
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/storage.h"
#include "train/record.h"

namespace sextant {

class EventWriter;

enum class Start { Fresh, Resume };

// The metrics files of a run: metrics.jsonl, which is authoritative, and TensorBoard events. A
// failed write (a full disk) throws; what was written before stays readable.
class Metrics {
 public:
  // Fresh moves files of an earlier run in `out` to previous-N/; Resume truncates metrics.jsonl to
  // the lines of steps 1 ... done.
  Metrics(Storage& storage, const Clock& clock, const std::string& out, Start start, int64_t done,
          bool tensorboard);
  ~Metrics();

  void write(const StepRecord& record);
  void sync();  // flushes to disk
  // Where files of an earlier run were moved; "" if there were none.
  const std::string& moved_to() const { return moved_to_; }

 private:
  std::string moved_to_;
  std::unique_ptr<FileWriter> file_;
  std::unique_ptr<EventWriter> events_;  // null without TensorBoard
};

// Truncates metrics.jsonl after the line of step `done`; whole lines only.
void cut_metrics(Storage& storage, const std::string& path, int64_t done);

}  // namespace sextant
