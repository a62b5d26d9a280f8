#include "ops/cuda/library_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace sextant {
namespace {

std::atomic<int> made{0}, destroyed{0};

struct Handle {
  Handle() { ++made; }
  ~Handle() { ++destroyed; }
  void start() { ++starts; }
  int starts = 0;
};

using Pool = cuda::LibraryPool<Handle>;

TEST(LibraryPool, AThreadKeepsItsOwnAndTheNextOneTakesItUndestroyed) {
  std::set<Handle*> seen;
  for (int turn = 1; turn <= 3; ++turn)
    std::thread([&] {
      Handle& own = Pool::of_thread(0);
      EXPECT_EQ(&Pool::of_thread(0), &own);
      EXPECT_EQ(own.starts, turn);
      EXPECT_NE(&Pool::of_thread(1), &own) << "of another GPU";
      seen.insert(&own);
    }).join();
  EXPECT_EQ(seen.size(), 1u);
  EXPECT_EQ(made.load(), 2);
  EXPECT_EQ(destroyed.load(), 0);
}

TEST(LibraryPool, ThreadsThatRunAtOnceShareNothing) {
  constexpr int kThreads = 4;
  std::array<Handle*, kThreads> own{};
  std::atomic<int> arrived{0};
  std::vector<std::thread> threads;
  for (Handle*& place : own)
    threads.emplace_back([&] {
      place = &Pool::of_thread(0);
      ++arrived;
      while (arrived.load() < kThreads) std::this_thread::yield();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<Handle*>(own.begin(), own.end()).size(), size_t{kThreads});
}

}  // namespace
}  // namespace sextant
