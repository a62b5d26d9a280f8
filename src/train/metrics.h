#pragma once
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/storage.h"
#include "train/record.h"

namespace sextant {

class EventWriter;

enum class Start { Fresh, Resume };

// The files that a run leaves for people and tools: metrics.jsonl, the truth, and TensorBoard
// events beside it. A failed write (a full disk) throws; what was written before stays readable.
class Metrics {
 public:
  // Fresh moves files of an earlier run in `out` to previous-N/; Resume cuts metrics.jsonl back to
  // the lines of steps 1 ... done.
  Metrics(Storage& storage, const Clock& clock, const std::string& out, Start start, int64_t done,
          bool tensorboard);
  ~Metrics();

  void write(const StepRecord& record);
  void sync();  // what was written is on the disk

 private:
  std::unique_ptr<FileWriter> file_;
  std::unique_ptr<EventWriter> events_;  // null without TensorBoard
};

// metrics.jsonl cut after the line of step `done`; whole lines only.
void cut_metrics(Storage& storage, const std::string& path, int64_t done);

}  // namespace sextant
