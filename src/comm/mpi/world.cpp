#include <unistd.h>

#include <chrono>
#include <exception>
#include <numeric>
#include <optional>
#include <thread>

#include "base/error.h"
#include "comm/mpi/communicator.h"
#include "comm/mpi_world.h"
#include "comm/mpirun.h"

namespace sextant {

struct MpiWorld::State {
  State(const Launch& launch, const Clock& clock, const WorldOptions& options)
      : launch(launch), ledger(clock), process(clock, options.timeout_s, ledger) {
    if (launch.has_parent) end_watch.emplace();  // without a parent, SIGTERM is a request to stop
    ledger.spans = options.spans;
    ledger.rank = process.rank();
    std::vector<int> ranks(static_cast<size_t>(process.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    world = std::make_unique<mpi::MpiCommunicator>(process, ledger, "world", std::move(ranks),
                                                   process.rank(), 0);
  }

  // A parent gets the exit code by report_exit. Other launchers use the code of the first rank that
  // exits, which should be the rank that caused the failure.
  void tell_launcher(int code) {
    if (launch.has_parent)
      report_exit(code, process.was_told() ? Cause::AnotherRank : Cause::ThisRank);
    else if (process.was_told())
      std::this_thread::sleep_for(std::chrono::seconds(1));
  }

  Launch launch;
  std::optional<mpi::EndWatch> end_watch;
  Ledger ledger;
  mpi::Process process;
  std::unique_ptr<mpi::MpiCommunicator> world;
  bool is_well = false;  // the last run succeeded
};

bool MpiWorld::is_built() {
  return true;
}

MpiWorld::MpiWorld(const Launch& launch, const Clock& clock, const WorldOptions& options) {
  SXT_CHECK(options.timeout_s > 0, Usage, "a deadline of ", options.timeout_s, " s");
  state_ = std::make_unique<State>(launch, clock, options);
  const mpi::Process& process = state_->process;
  SXT_CHECK(process.rank() == launch.rank && process.size() == launch.size, Config,
            "the launcher says rank ", launch.rank, " of ", launch.size, ", MPI says rank ",
            process.rank(), " of ", process.size(),
            ": start with mpirun of this MPI library, or srun --mpi=pmix");
}

MpiWorld::~MpiWorld() {
  if (!state_) return;
  state_->world.reset();
  if (!state_->is_well) return;
  try {
    state_->process.finalize();
  } catch (const Error&) {  // the run is over; its exit code stays
  }
}

Communicator& MpiWorld::world() {
  return *state_->world;
}

void MpiWorld::run(const std::function<void(Communicator&)>& f) {
  const auto fail = [&](const std::string& reason, Fault fault) {
    state_->process.fail(reason);
    state_->tell_launcher(exit_code(fault));
  };
  state_->is_well = false;
  try {
    f(world());
    world().control().barrier();
    state_->is_well = true;
  } catch (const Error& error) {
    fail(error.what(), error.fault());
    throw;
  } catch (const std::bad_alloc&) {
    fail("out of memory", Fault::Memory);
    throw;
  } catch (const std::exception& error) {
    fail(error.what(), Fault::Internal);
    throw;
  } catch (...) {
    fail("something that is no error was thrown", Fault::Internal);
    throw;
  }
}

}  // namespace sextant
