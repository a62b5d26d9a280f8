#include "base/faulty_storage.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"

namespace sextant {

class FaultyStorage::State {
 public:
  explicit State(StorageFault fault) : fault_(std::move(fault)) {}

  enum class Outcome { Works, Fails, IsDead };

  // Counts the operation and decides whether it fails.
  Outcome next(StorageOp op) {
    const std::lock_guard lock(mutex_);
    const int64_t number = ++counts_[static_cast<size_t>(op)];
    if (failed_ && fault_.after == AfterFault::Dead) return Outcome::IsDead;
    if (op != fault_.op || number != fault_.nth) return Outcome::Works;
    failed_ = true;
    return Outcome::Fails;
  }

  void check(StorageOp op, const char* verb, const std::string& path) {
    SXT_CHECK(next(op) == Outcome::Works, Failure, "cannot ", verb, " ", path, ": ", fault_.reason);
  }

  int64_t count(StorageOp op) const {
    const std::lock_guard lock(mutex_);
    return counts_[static_cast<size_t>(op)];
  }
  bool has_failed() const {
    const std::lock_guard lock(mutex_);
    return failed_;
  }
  const StorageFault& fault() const { return fault_; }

 private:
  const StorageFault fault_;
  mutable std::mutex mutex_;
  std::array<int64_t, kStorageOps> counts_{};
  bool failed_ = false;
};

class FaultyStorage::Writer final : public FileWriter {
 public:
  Writer(std::unique_ptr<FileWriter> under, std::string path, std::shared_ptr<State> state)
      : under_(std::move(under)), path_(std::move(path)), state_(std::move(state)) {}

  void write(std::span<const std::byte> bytes) override {
    const State::Outcome outcome = state_->next(StorageOp::Write);
    if (outcome == State::Outcome::Works) return under_->write(bytes);
    const StorageFault& fault = state_->fault();
    if (outcome == State::Outcome::Fails)
      under_->write(bytes.first(std::min(bytes.size(), static_cast<size_t>(fault.torn_bytes))));
    SXT_FAIL(Failure, "cannot write ", path_, ": ", fault.reason);
  }
  void sync() override {
    state_->check(StorageOp::Sync, "sync", path_);
    under_->sync();
  }
  int64_t offset() const override { return under_->offset(); }

 private:
  std::unique_ptr<FileWriter> under_;
  std::string path_;
  std::shared_ptr<State> state_;
};

FaultyStorage::FaultyStorage(Storage& under, StorageFault fault)
    : under_(under), state_(std::make_shared<State>(std::move(fault))) {}

FaultyStorage::~FaultyStorage() = default;

int64_t FaultyStorage::count(StorageOp op) const {
  return state_->count(op);
}

bool FaultyStorage::has_failed() const {
  return state_->has_failed();
}

std::unique_ptr<FileWriter> FaultyStorage::create(const std::string& path, OpenMode mode) {
  state_->check(StorageOp::Create, "write", path);
  return std::make_unique<Writer>(under_.create(path, mode), path, state_);
}

std::unique_ptr<FileReader> FaultyStorage::open(const std::string& path) {
  return under_.open(path);
}

void FaultyStorage::rename(const std::string& from, const std::string& to) {
  state_->check(StorageOp::Rename, "rename", from + " to " + to);
  under_.rename(from, to);
}

void FaultyStorage::remove_all(const std::string& path) {
  state_->check(StorageOp::Remove, "remove", path);
  under_.remove_all(path);
}

void FaultyStorage::make_directories(const std::string& path) {
  state_->check(StorageOp::MakeDirectories, "make directory", path);
  under_.make_directories(path);
}

void FaultyStorage::sync_directory(const std::string& path) {
  state_->check(StorageOp::SyncDirectory, "sync", path);
  under_.sync_directory(path);
}

void FaultyStorage::truncate(const std::string& path, int64_t size) {
  state_->check(StorageOp::Truncate, "cut", path);
  under_.truncate(path, size);
}

bool FaultyStorage::exists(const std::string& path) {
  return under_.exists(path);
}

bool FaultyStorage::is_directory(const std::string& path) {
  return under_.is_directory(path);
}

std::vector<std::string> FaultyStorage::list(const std::string& path) {
  return under_.list(path);
}

}  // namespace sextant
