#pragma once
#include <array>
#include <memory>
#include <string>

#include "base/storage.h"

namespace sextant {

enum class StorageOp {
  Create,
  Write,
  Sync,
  Rename,
  SyncDirectory,
  MakeDirectories,
  Truncate,
  Remove
};
inline constexpr int kStorageOps = 8;

// After the failure: later operations work again, or all of them fail too, as if the process had
// died there (its files stay as they are).
enum class AfterFault { Recovers, Dead };

struct StorageFault {
  StorageOp op = StorageOp::Write;
  int64_t nth = 1;  // the first one is 1, counted over all files
  std::string reason = "No space left on device";
  // A torn write: bytes of the failing write that reach the file, at most all.
  int64_t torn_bytes = 0;
  AfterFault after = AfterFault::Recovers;
};

// Wraps a storage so that the nth operation of a kind fails with Error(Failure), for tests. Reads
// never fail. Thread-safe.
class FaultyStorage final : public Storage {
 public:
  FaultyStorage(Storage& under, StorageFault fault);
  ~FaultyStorage() override;

  // Number of operations of this kind so far, so that a test can fail each of them in turn.
  int64_t count(StorageOp op) const;
  bool has_failed() const;

  std::unique_ptr<FileWriter> create(const std::string& path, OpenMode mode) override;
  std::unique_ptr<FileReader> open(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove_all(const std::string& path) override;
  void make_directories(const std::string& path) override;
  void sync_directory(const std::string& path) override;
  void truncate(const std::string& path, int64_t size) override;
  bool exists(const std::string& path) override;
  bool is_directory(const std::string& path) override;
  std::vector<std::string> list(const std::string& path) override;

 private:
  class State;  // shared with the writers, which may outlive the storage
  class Writer;

  Storage& under_;
  std::shared_ptr<State> state_;
};

}  // namespace sextant
