#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <thread>

#include "base/faulty_storage.h"
#include "checkpoint/collect.h"
#include "comm/run_ranks.h"
#include "support/checkpoints.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "support/unsynced_disk.h"

namespace sextant {
namespace {

// Which elements of `total` a rank has.
using Cutting = std::function<Range(int64_t total, int ranks, int rank)>;

Range even(int64_t total, int ranks, int rank) {
  return even_part(total, ranks, rank);
}
Range backwards(int64_t total, int ranks, int rank) {
  return even_part(total, ranks, ranks - 1 - rank);
}
Range all_on_the_first(int64_t total, int, int rank) {
  return rank == 0 ? Range{0, total} : Range{total, total};
}
Range all_on_the_last(int64_t total, int ranks, int rank) {
  return rank == ranks - 1 ? Range{0, total} : Range{total, total};
}
// One element on the first, the rest divided over the others: every cut lies within a row.
Range uneven(int64_t total, int ranks, int rank) {
  if (ranks == 1) return {0, total};
  if (rank == 0) return {0, 1};
  const Range share = even_part(total - 1, ranks - 1, rank - 1);
  return {share.begin + 1, share.end + 1};
}

// The parts of the sample state that a rank has. A scalar is not cut: its rank has it.
std::vector<NamedTensor> cut(std::vector<NamedTensor> tensors, int ranks, int rank,
                             const Cutting& cutting) {
  for (NamedTensor& named : tensors) {
    const int64_t total = named.tensor.elements();
    const Range range = cutting(total, ranks, rank);
    if (named.tensor.shape().dims() == 0) {
      if (range.size() == 0) named.tensor = Tensor();
      continue;
    }
    named.shape = named.tensor.shape();
    named.first = range.begin;
    named.tensor = named.tensor.view(Shape{total}).slice(range.begin, range.end);
  }
  return tensors;
}

constexpr WorldOptions kSoon{.timeout_s = 30};

class SavePartsTest : public testing::Test {
 protected:
  SavePartsTest() : old_(bench_, "old"), new_(bench_, "new"), loaded_(bench_, "loaded") {
    save_alone(disk_, dir_ / "run", state_at(10), old_.tensors(), bench_.stream());
    one_rank_ = save_alone(disk_, dir_ / "one", state_at(20), new_.tensors(), bench_.stream()).path;
  }

  std::map<std::string, std::string> files(const std::string& path) {
    std::map<std::string, std::string> out;
    for (const std::string& name : disk_.list(path))
      out[name] = read_text(disk_, join_path(path, name));
    return out;
  }

  // Saves the new state at step 20; what each rank threw.
  std::vector<std::optional<Error>> save(Storage& storage, const std::string& directory, int ranks,
                                         const Cutting& cutting) {
    std::vector<std::optional<Error>> errors(static_cast<size_t>(ranks));
    std::vector<SaveReport> reports(static_cast<size_t>(ranks));
    run_ranks(
        ranks,
        [&](Communicator& world) {
          const auto rank = static_cast<size_t>(world.rank());
          Workbench bench;
          SampleState state(bench, "new");
          try {
            reports[rank] = save_checkpoint(world, storage, directory, state_at(20),
                                            cut(state.tensors(), ranks, world.rank(), cutting),
                                            bench.stream(), {.keep = 1});
          } catch (const Error& error) {
            errors[rank] = error;
          }
          world.control().barrier();  // the ranks can still talk to each other
        },
        kSoon);
    for (const SaveReport& report : reports) {
      EXPECT_EQ(report.path, reports[0].path);
      EXPECT_EQ(report.tensors, reports[0].tensors);
      EXPECT_EQ(report.files, reports[0].files);
      EXPECT_EQ(report.bytes, reports[0].bytes);
      EXPECT_EQ(report.removed, reports[0].removed);
      EXPECT_EQ(report.broken, reports[0].broken);
    }
    report_ = reports[0];
    return errors;
  }

  // The latest checkpoint is whole and has the old state or the new one.
  void expect_old_or_new(const std::string& directory) {
    const std::string path = find_latest(disk_, directory);
    verify_checkpoint(disk_, path);
    const Manifest manifest = read_manifest(disk_, path);
    load_tensors(disk_, path, manifest, loaded_.tensors(), bench_.stream(), LoadWhat::All);
    SampleState& wanted = manifest.state.step == 10 ? old_ : new_;
    for (size_t i = 0; i < wanted.tensors().size(); ++i) {
      std::vector<std::byte> bytes = bench_.bytes(wanted.tensors()[i].tensor);
      zero_padding(wanted.tensors()[i], bytes);
      EXPECT_EQ(bench_.bytes(loaded_.tensors()[i].tensor), bytes) << path;
    }
  }

  static void zero_padding(const NamedTensor& named, std::vector<std::byte>& bytes) {
    if (named.tensor.shape() == Shape{8, 3})
      std::fill(bytes.begin() + 5 * 3 * 4, bytes.end(), std::byte{0});
  }

  TempDir dir_;
  UnsyncedDisk disk_;
  Workbench bench_;
  SampleState old_, new_, loaded_;
  std::string one_rank_;  // the checkpoint that one rank made of the new state
  SaveReport report_;
};

TEST_F(SavePartsTest, AnyNumberOfRanksWritesTheBytesOfOne) {
  const std::map<std::string, std::string> wanted = files(one_rank_);
  ASSERT_EQ(wanted.size(), 3u);
  int saves = 0;
  for (const Cutting& cutting : {Cutting(even), Cutting(backwards), Cutting(all_on_the_first),
                                 Cutting(all_on_the_last), Cutting(uneven)})
    for (const int ranks : {1, 2, 3, 4, 8}) {
      SCOPED_TRACE(concat(ranks, " ranks, save ", saves));
      for (const auto& error : save(disk_, dir_ / concat("ranks-", ++saves), ranks, cutting))
        EXPECT_FALSE(error) << error->what();
      EXPECT_EQ(files(report_.path), wanted);
      EXPECT_EQ(report_.tensors, 5);
      EXPECT_EQ(report_.files, 2);
    }
}

TEST_F(SavePartsTest, AllRanksGetTheReport) {
  save(disk_, dir_ / "run", 3, even);
  EXPECT_EQ(report_.path, dir_ / "run/step-00000020");
  EXPECT_EQ(report_.removed, (std::vector<std::string>{"step-00000010"}));
  EXPECT_TRUE(report_.broken.empty());
}

TEST_F(SavePartsTest, AnyNumberOfRanksLoadsWhatAnotherWrote) {
  const Manifest manifest = read_manifest(disk_, one_rank_);
  for (const Cutting& cutting : {Cutting(even), Cutting(all_on_the_last), Cutting(uneven)})
    for (const int ranks : {1, 2, 3, 4, 8})
      run_ranks(
          ranks,
          [&](Communicator& world) {
            Workbench bench;
            SampleState wanted(bench, "new"), fresh(bench, "fresh");
            std::vector<NamedTensor> parts = cut(fresh.tensors(), ranks, world.rank(), cutting);
            load_tensors(disk_, one_rank_, manifest, parts, bench.stream(), LoadWhat::All);
            for (size_t i = 0; i < parts.size(); ++i) {
              if (!parts[i].tensor) continue;
              std::vector<std::byte> bytes = bench.bytes(wanted.tensors()[i].tensor);
              zero_padding(wanted.tensors()[i], bytes);
              const int64_t begin = parts[i].first * size_of(parts[i].tensor.dtype());
              EXPECT_EQ(bench.bytes(parts[i].tensor),
                        std::vector<std::byte>(bytes.begin() + begin,
                                               bytes.begin() + begin + parts[i].tensor.bytes()))
                  << parts[i].name << " rank " << world.rank() << " of " << ranks;
            }
          },
          kSoon);
}

TEST_F(SavePartsTest, AReplicaPassesNothing) {
  run_ranks(
      4,
      [&](Communicator& world) {
        Workbench bench;
        SampleState state(bench, "new");
        // The second of two replicas of two ranks.
        std::vector<NamedTensor> tensors;
        if (world.rank() >= 2) tensors = cut(state.tensors(), 2, world.rank() - 2, even);
        save_checkpoint(world, disk_, dir_ / "run", state_at(20), tensors, bench.stream());
      },
      kSoon);
  EXPECT_EQ(files(dir_ / "run/step-00000020"), files(one_rank_));
}

TEST_F(SavePartsTest, LargeTensorsTravelInPieces) {
  const int64_t columns = kPassBytes / 4 + 1;
  std::vector<int32_t> numbers(static_cast<size_t>(3 * columns));
  std::iota(numbers.begin(), numbers.end(), 0);
  const Tensor large = bench_.make<int32_t>({3, columns}, numbers);
  const std::string wanted =
      save_alone(disk_, dir_ / "one", state_at(0), {{"large", large, 2}}, bench_.stream()).path;
  run_ranks(
      3,
      [&](Communicator& world) {
        Workbench bench;
        const Range range = uneven(3 * columns, 3, world.rank());
        std::vector<NamedTensor> tensors{
            {"large", large.view(Shape{3 * columns}).slice(range.begin, range.end), 2,
             Shape{3, columns}, range.begin}};
        save_checkpoint(world, disk_, dir_ / "run", state_at(0), tensors, bench.stream());
      },
      kSoon);
  EXPECT_EQ(files(dir_ / "run/step-00000000"), files(wanted));
}

TEST_F(SavePartsTest, AHoleOrAnOverlapIsRefusedOnAllRanks) {
  const std::vector<std::pair<Cutting, std::string>> wrong = {
      {[](int64_t total, int ranks, int rank) {
         Range range = even(total, ranks, rank);
         if (rank == 1 && total == 24) ++range.begin;
         return range;
       },
       "tensor embedding.tokens.weight: elements 8 ... 8 of 15 are on no rank"},
      {[](int64_t total, int ranks, int rank) {
         Range range = even(total, ranks, rank);
         if (rank == 0 && total == 24) ++range.end;
         return range;
       },
       "tensor embedding.tokens.weight: elements 8 ... 8 are on rank 0 and on rank 1"}};
  for (const auto& [cutting, text] : wrong) {
    const auto errors = save(disk_, dir_ / "run", 3, cutting);
    for (size_t rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(errors[rank]);
      EXPECT_EQ(errors[rank]->fault(), Fault::Internal);
      EXPECT_NE(std::string(errors[rank]->what()).find(text), std::string::npos)
          << errors[rank]->what();
    }
    EXPECT_EQ(disk_.list(dir_ / "run"), (std::vector<std::string>{"latest", "step-00000010"}));
  }
}

TEST_F(SavePartsTest, AnyOperationOfRankZeroMayFailAndAllRanksLearnOfIt) {
  int failures = 0;
  for (int op = 0; op < kStorageOps; ++op)
    for (int64_t nth = 1, failed = 1; failed; ++nth) {
      SCOPED_TRACE(concat("op ", op, " nth ", nth));
      const std::string directory = dir_ / concat("op-", op, "-", nth);
      save_alone(disk_, directory, state_at(10), old_.tensors(), bench_.stream());
      FaultyStorage faulty(disk_, {static_cast<StorageOp>(op), nth, "No space left on device",
                                   nth % 2 * 11, AfterFault::Recovers});
      const auto errors = save(faulty, directory, 3, even);
      for (size_t rank = 0; rank < 3; ++rank) {
        ASSERT_EQ(errors[rank].has_value(), errors[0].has_value());
        if (!errors[rank]) continue;
        EXPECT_EQ(errors[rank]->fault(), Fault::Failure);
        EXPECT_EQ(errors[rank]->what(),
                  concat(rank == 0 ? "" : "rank 0 could not save: ", errors[0]->what()));
        EXPECT_NE(std::string(errors[rank]->what()).find("No space left"), std::string::npos);
        ++failures;
      }
      failed = faulty.has_failed();
      expect_old_or_new(directory);
    }
  EXPECT_GT(failures, 60);
}

TEST_F(SavePartsTest, ARankThatIsLostLeavesTheOldCheckpoint) {
  EXPECT_ERROR(
      run_ranks(
          3,
          [&](Communicator& world) {
            Workbench bench;
            SampleState state(bench, "new");
            const std::vector<NamedTensor> tensors = cut(state.tensors(), 3, world.rank(), even);
            if (world.rank() == 2) {
              exchange_parts(world, tensors);
              SXT_FAIL(Failure, "lost");
            }
            save_checkpoint(world, disk_, dir_ / "run", state_at(20), tensors, bench.stream());
          },
          kSoon),
      Failure, "lost");
  EXPECT_EQ(disk_.list(dir_ / "run"), (std::vector<std::string>{"latest", "step-00000010"}));
  expect_old_or_new(dir_ / "run");
}

TEST_F(SavePartsTest, ARankThatCannotGiveItsPartStopsAll) {
  std::vector<std::optional<Error>> errors(3);
  run_ranks(
      3,
      [&](Communicator& world) {
        Workbench bench;
        SampleState state(bench, "new");
        const std::vector<NamedTensor> tensors = cut(state.tensors(), 3, world.rank(), even);
        try {
          if (world.rank() == 2) {
            exchange_parts(world, tensors);
            follow_orders(world, {}, bench.stream());  // what was promised is not there
          } else {
            save_checkpoint(world, disk_, dir_ / "run", state_at(20), tensors, bench.stream());
          }
        } catch (const Error& error) {
          errors[static_cast<size_t>(world.rank())] = error;
        }
      },
      kSoon);
  for (const auto& error : errors) ASSERT_TRUE(error);
  EXPECT_EQ(errors[2]->fault(), Fault::Internal);
  for (const size_t rank : {0u, 1u}) {
    EXPECT_EQ(errors[rank]->fault(), Fault::Peer);
    EXPECT_NE(std::string(errors[rank]->what()).find(errors[2]->what()), std::string::npos);
  }
  EXPECT_EQ(disk_.list(dir_ / "run"), (std::vector<std::string>{"latest", "step-00000010"}));
}

// A clock that several ranks read while one sets it.
class SharedClock final : public Clock {
 public:
  double now() const override {
    const double seconds = seconds_;
    ++looks_;
    return seconds;
  }
  double wall() const override { return seconds_; }
  // Goes on once a rank that waits has seen the new time, or none does any more.
  void advance(double seconds) {
    seconds_ = seconds_ + seconds;
    const int64_t before = looks_;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (looks_ < before + 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  }

 private:
  std::atomic<double> seconds_{0};
  mutable std::atomic<int64_t> looks_{0};
};

// Takes a while to read a file and to write to one.
class SlowDisk final : public UnsyncedDisk {
 public:
  explicit SlowDisk(SharedClock& clock) : clock_(clock) {}
  std::unique_ptr<FileReader> open(const std::string& path) override {
    clock_.advance(7);
    return UnsyncedDisk::open(path);
  }
  std::unique_ptr<FileWriter> create(const std::string& path, OpenMode mode) override {
    return std::make_unique<Writer>(UnsyncedDisk::create(path, mode), clock_);
  }

 private:
  class Writer final : public FileWriter {
   public:
    Writer(std::unique_ptr<FileWriter> under, SharedClock& clock)
        : under_(std::move(under)), clock_(clock) {}
    void write(std::span<const std::byte> bytes) override {
      clock_.advance(1);
      under_->write(bytes);
    }
    void sync() override { under_->sync(); }
    int64_t offset() const override { return under_->offset(); }

   private:
    std::unique_ptr<FileWriter> under_;
    SharedClock& clock_;
  };

  SharedClock& clock_;
};

TEST_F(SavePartsTest, TheOthersWaitWhileRankZeroIsBusyWithoutThem) {
  for (const Cutting& cutting : {Cutting(even), Cutting(all_on_the_first)}) {
    SharedClock clock;
    SlowDisk slow(clock);
    ThreadWorld world(2, clock, {.timeout_s = 10});
    world.run([&](Communicator& rank) {
      Workbench bench;
      SampleState state(bench, "new");
      save_checkpoint(rank, slow, dir_ / "run", state_at(20),
                      cut(state.tensors(), 2, rank.rank(), cutting), bench.stream());
    });
    EXPECT_GT(clock.now(), 30);  // longer than the deadline, in all
  }
}

}  // namespace
}  // namespace sextant
