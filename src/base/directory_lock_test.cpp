#include "base/directory_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

class DirectoryLockTest : public testing::Test {
 protected:
  std::unique_ptr<DirectoryLock> take(const std::string& host = "here", double wait = 0.05,
                                      double refresh = 0.05) {
    return std::make_unique<DirectoryLock>(
        dir_ / "", [this](const std::string& text) { said_.push_back(text); },
        DirectoryLock::Options{wait, refresh, host});
  }
  std::string file() const { return dir_ / DirectoryLock::kName; }
  std::string token() const {
    std::ifstream in(file());
    std::string text;
    std::getline(in, text);
    return text;
  }
  void write(const std::string& text) { std::ofstream(file()) << text; }

  TempDir dir_;
  std::vector<std::string> said_;
};

TEST_F(DirectoryLockTest, IsHeldByOneAtATimeAndFreeAfterwards) {
  auto first = take();
  EXPECT_ERROR(take(), Failure, "is in use by process " + std::to_string(::getpid()) + " on here");
  first->check();
  first.reset();
  EXPECT_EQ(token(), "");
  take()->check();
  EXPECT_TRUE(said_.empty());
}

TEST_F(DirectoryLockTest, WaitsForAHolderThatIsAboutToEnd) {
  auto first = take();
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    first.reset();
  });
  take("here", 30)->check();
  ends.join();
}

TEST_F(DirectoryLockTest, OfAKilledProcessIsTakenOverAndSaid) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = take();
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  take()->check();
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("took over the lock of process " + std::to_string(child) + " on here"),
            std::string::npos)
      << said_[0];
}

// Another host's kernel lock is not seen here: the file alone tells.
TEST_F(DirectoryLockTest, OfAnotherHostIsTakenOnceItIsNotRefreshedAnyMore) {
  write("process 7 on far, started 1");
  take()->check();
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("process 7 on far"), std::string::npos);
}

TEST_F(DirectoryLockTest, OfAnotherHostThatIsRefreshedIsRefused) {
  write("process 7 on far, started 1");
  std::atomic<bool> ends = false;
  std::thread far([&] {
    while (!ends.load()) {
      std::filesystem::last_write_time(file(), std::filesystem::file_time_type::clock::now());
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  EXPECT_ERROR(take("here", 0.05, 5), Failure, "is in use by process 7 on far");
  ends = true;
  far.join();
}

TEST_F(DirectoryLockTest, ThatWasTakenByAnotherIsNoticed) {
  const auto lock = take();
  write("process 9 on far, started 3");
  EXPECT_ERROR(lock->check(), Failure, "process 9 on far has taken it");
  std::remove(file().c_str());
  EXPECT_ERROR(lock->check(), Failure, "its lock was removed");
}

TEST_F(DirectoryLockTest, KnowsItsDirectoryUnderAnyPath) {
  TempDir other;
  const auto lock = take();
  EXPECT_TRUE(lock->is_in(dir_.path()) && lock->is_in(dir_ / "./") && lock->is_in(dir_ / "."));
  EXPECT_FALSE(lock->is_in(other.path()) || lock->is_in(dir_ / "none"));
}

TEST_F(DirectoryLockTest, NeedsADirectory) {
  EXPECT_ERROR(DirectoryLock(dir_ / "none", [](const std::string&) {}), Data, "cannot open");
}

}  // namespace
}  // namespace sextant
