#include <exception>
#include <new>

#include "base/error.h"
#include "checkpoint/collect.h"
#include "checkpoint/parts.h"
#include "checkpoint/save.h"

namespace sextant {
namespace {

// Forwards to a storage, and sends Order::Wait before each file is read: after the last tensor rank
// 0 verifies the new and older checkpoints, which can take longer than the timeout of its peers.
class TellingStorage final : public Storage {
 public:
  TellingStorage(Storage& under, Collector& collector) : under_(under), collector_(collector) {}

  std::unique_ptr<FileReader> open(const std::string& path) override {
    collector_.tell_to_wait();
    return under_.open(path);
  }
  std::unique_ptr<FileWriter> create(const std::string& path, OpenMode mode) override {
    return under_.create(path, mode);
  }
  void rename(const std::string& from, const std::string& to) override { under_.rename(from, to); }
  void remove_all(const std::string& path) override { under_.remove_all(path); }
  void make_directories(const std::string& path) override { under_.make_directories(path); }
  void sync_directory(const std::string& path) override { under_.sync_directory(path); }
  void truncate(const std::string& path, int64_t size) override { under_.truncate(path, size); }
  bool exists(const std::string& path) override { return under_.exists(path); }
  bool is_directory(const std::string& path) override { return under_.is_directory(path); }
  std::vector<std::string> list(const std::string& path) override { return under_.list(path); }

 private:
  Storage& under_;
  Collector& collector_;
};

SaveReport write_parts(Collector& collector, std::span<const Part> parts, Storage& storage,
                       const std::string& directory, const CheckpointState& state,
                       const SaveOptions& options) {
  const std::vector<JoinedTensor> tensors = join_parts(parts);
  std::vector<TensorSource> sources;
  for (const JoinedTensor& tensor : tensors)
    sources.push_back({tensor.name, tensor.shape, tensor.dtype,
                       [&](const ByteSink& sink) { collector.produce(tensor, sink); }});
  TellingStorage telling(storage, collector);
  SaveReport report = write_checkpoint(telling, directory, state, sources, options);
  collector.tell_done(report);
  return report;
}

}  // namespace

SaveReport save_checkpoint(Communicator& world, Storage& storage, const std::string& directory,
                           const CheckpointState& state, const std::vector<NamedTensor>& tensors,
                           Stream& stream, const SaveOptions& options) {
  const std::vector<Part> parts = exchange_parts(world, tensors);
  if (world.rank() != 0) return follow_orders(world, tensors, stream);
  Collector collector(world, tensors, stream);
  try {
    return write_parts(collector, parts, storage, directory, state, options);
  } catch (const Error& error) {
    // After a communicator error the other ranks know of it, and no order reaches them any more.
    if (error.fault() != Fault::Peer) collector.tell_failure(error.fault(), error.what());
    throw;
  } catch (const std::bad_alloc&) {
    collector.tell_failure(Fault::Memory, "out of memory");
    throw;
  } catch (const std::exception& error) {
    collector.tell_failure(Fault::Internal, error.what());
    throw;
  }
}

}  // namespace sextant
