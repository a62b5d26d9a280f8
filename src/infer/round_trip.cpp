#include "infer/round_trip.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/hf.h"
#include "infer/loaded_model.h"

namespace sextant {
namespace {

// Removes the copies, also after a failure, and those of a comparison that was killed.
class Scratch {
 public:
  Scratch(Storage& storage, const std::string& path) : storage_(storage), path_(path) {
    storage.remove_all(path);
    storage.make_directories(path);
  }
  ~Scratch() {
    try {
      storage_.remove_all(path_);
    } catch (const Error&) {  // nothing more to do here
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

 private:
  Storage& storage_;
  std::string path_;
};

}  // namespace

double round_trip_difference(Storage& storage, const std::string& checkpoint,
                             const std::string& scratch, DType dtype) {
  const Scratch removed(storage, scratch);
  const std::string exported = join_path(scratch, "exported");
  ExportOptions options;
  options.dtype = dtype;
  export_hf(storage, checkpoint, exported, options);
  Log silent(LogLevel::Quiet, Color::Never);  // no messages about temporary copies
  const ImportReport back = import_hf(storage, exported, join_path(scratch, "imported"), silent);
  const std::vector<std::string> on_cpu = {"run.device=cpu"};  // both fit beside each other
  LoadedModel before(storage, checkpoint, on_cpu), after(storage, back.path, on_cpu);
  return max_logit_difference(before, after);
}

}  // namespace sextant
