#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/storage.h"

namespace sextant {

struct ScalarValue {
  std::string tag;  // such as "train/loss"
  float value;
};

// A histogram over the numbers 0, 1, ..., of which `counts` has how often each occurs.
struct CountsValue {
  std::string tag;
  std::vector<int64_t> counts;
};

// Writes a TensorBoard event file. Every call appends whole records in one write, so a reader that
// follows the file, or a crash, sees complete events only, but for at most one torn tail that
// TensorBoard skips. A resumed run makes a new writer, and so a new file, in the same directory;
// TensorBoard reads files in the order of their names, which begin with the time.
class EventWriter {
 public:
  // Makes the directory and a new file `events.out.tfevents.<seconds>.<host>.<pid>.<n>` in it,
  // which begins with the format's version. `clock` must outlive this.
  EventWriter(Storage& storage, const std::string& directory, const Clock& clock);

  const std::string& path() const { return path_; }
  // All values as one event of this step, stamped with the wall time.
  void write_scalars(int64_t step, std::span<const ScalarValue> values);
  void write_histograms(int64_t step, std::span<const CountsValue> values);
  // Markdown for the text page.
  void write_text(int64_t step, std::string_view tag, std::string_view text);
  void sync() { file_->sync(); }

 private:
  void write_event(std::string_view fields);

  const Clock& clock_;
  std::string path_;
  std::unique_ptr<FileWriter> file_;
};

}  // namespace sextant
