#include "comm/run_ranks.h"

#include <exception>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/threads/thread_communicator.h"
#include "comm/threads/world.h"

namespace sextant {
namespace {

struct Failure {
  int rank;
  Fault fault;
  std::string text;
};

Failure describe(int rank, std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return {rank, known.fault(), known.what()};
  } catch (const std::bad_alloc&) {
    return {rank, Fault::Memory, "out of memory"};
  } catch (const std::exception& other) {
    return {rank, Fault::Internal, other.what()};
  } catch (...) {
    return {rank, Fault::Internal, "something that is no error was thrown"};
  }
}

}  // namespace

struct ThreadWorld::State {
  State(int ranks, const Clock& clock, const WorldOptions& options) : world(ranks, clock, options) {
    std::vector<int> members;
    for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
    threads::Group& group = world.join({}, "world", members);
    for (const int rank : members)
      ends.push_back(std::make_unique<threads::ThreadCommunicator>(world, group, rank));
  }

  // Runs f as one rank. A failure is recorded and aborts the world.
  void run_rank(int rank, const std::function<void(Communicator&)>& f) {
    threads::RankState& state = world.rank(rank);
    try {
      f(*ends[static_cast<size_t>(rank)]);
      state.progress_thread.drain();
      ends[static_cast<size_t>(rank)]->await_readers();
    } catch (...) {
      Failure failure = describe(rank, std::current_exception());
      world.abort(rank, concat("rank ", rank, " failed: ", failure.text));
      const std::lock_guard lock(mutex);
      (state.echoed.load() ? echoes : failures).push_back(std::move(failure));
    }
    state.finished.store(true);
    world.ring_all();
  }

  threads::World world;
  std::vector<std::unique_ptr<threads::ThreadCommunicator>> ends;
  std::mutex mutex;
  std::vector<Failure> failures, echoes;  // in the order in which they happened
};

ThreadWorld::ThreadWorld(int ranks, const Clock& clock, const WorldOptions& options)
    : state_(std::make_unique<State>(ranks, clock, options)) {}

ThreadWorld::~ThreadWorld() = default;

int ThreadWorld::size() const {
  return state_->world.size();
}

Communicator& ThreadWorld::rank(int rank) {
  return *state_->ends[static_cast<size_t>(rank)];
}

void ThreadWorld::run(const std::function<void(Communicator&)>& f) {
  State& state = *state_;
  for (int rank = 0; rank < size(); ++rank) state.world.rank(rank).finished.store(false);
  std::vector<std::thread> ranks;
  try {
    for (int rank = 0; rank < size(); ++rank)
      ranks.emplace_back([&state, &f, rank] { state.run_rank(rank, f); });
  } catch (const std::system_error& error) {
    const size_t made = ranks.size();
    state.world.abort(0, concat("only ", made, " of ", size(), " ranks could be started"));
    for (std::thread& rank : ranks) rank.join();
    SXT_FAIL(Failure, "only ", made, " of ", size(), " ranks could be started: ", error.what());
  }
  for (std::thread& rank : ranks) rank.join();
  const std::vector<Failure>& failed = state.failures.empty() ? state.echoes : state.failures;
  if (failed.empty()) return;
  const Failure& first = failed.front();
  throw Error(first.fault,
              size() == 1 ? first.text : concat("rank ", first.rank, ": ", first.text));
}

void run_ranks(int ranks, const std::function<void(Communicator&)>& f,
               const WorldOptions& options) {
  const SystemClock clock;
  ThreadWorld(ranks, clock, options).run(f);
}

}  // namespace sextant
