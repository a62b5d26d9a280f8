// Ranks over MPI that do what mpi_transport_test.cpp wants to see:  mpi_probe RANKS MODE [FLAGS]
#include <poll.h>

#include <csignal>
#include <iostream>

#include "base/error.h"
#include "base/parse.h"
#include "comm/mpi_world.h"
#include "comm/mpirun.h"
#include "mpi/scenarios.h"
#include "support/workbench.h"

namespace sextant {
namespace {

// Every scenario gives this rank the same bytes as over threads.
void compare_bits(Communicator& world) {
  for (const Scenario& scenario : all_scenarios()) {
    std::vector<std::byte> expected;
    const int own = world.rank();
    run_ranks(world.size(), [&](Communicator& threads) {
      std::vector<std::byte> bytes = scenario.run(threads);
      if (threads.rank() == own) expected = std::move(bytes);
    });
    const Traffic before = world.ledger().traffic.total();
    SXT_CHECK(scenario.run(world) == expected, Failure, scenario.name, ", rank ", own, " of ",
              world.size(), ": other bits than over threads");
    SXT_CHECK(expected.empty() || world.ledger().traffic.total().calls > before.calls, Failure,
              scenario.name, ": nothing was booked");
  }
  if (world.rank() == 0) std::cout << "same bits, " << all_scenarios().size() << " scenarios\n";
}

class Ranks {
 public:
  explicit Ranks(Communicator& world) : world_(world) {}

  void run(const std::string& mode) {
    Tensor data = bench_.empty<float>({64});
    const bool odd_one = world_.rank() == world_.size() - 1;
    if (mode == "bits") compare_bits(world_);
    if (mode == "operation") odd_one ? world_.control().barrier() : all_reduce(data);
    if (mode == "count") {
      Tensor less = bench_.empty<float>({63});
      all_reduce(odd_one ? less : data);
    }
    if (mode == "root") world_.broadcast(bench_.stream(), data, odd_one ? 1 : 0);
    if (mode == "sizes") swap_wrong_sizes();
    if (mode == "message") message_of_another_size(data);
    if (mode == "absent" && !odd_one) all_reduce(data);
    if (mode == "absent_later" && !odd_one) {
      Pending pending = world_.all_reduce(bench_.stream(), data, ReduceOp::Sum, When::Later);
      pending.wait();
    }
    if (mode == "absent_message" && !odd_one)
      world_.receive(bench_.stream(), data, world_.size() - 1);
    if (mode.starts_with("absent") && odd_one) wait_to_be_ended();
    if (mode == "error") {
      SXT_CHECK(!odd_one, Data, "this rank has bad data");
      all_reduce(data);
    }
    if (mode == "abort") {
      if (odd_one) world_.abort("enough");
      odd_one ? wait_to_be_ended() : all_reduce(data);
    }
    if (mode == "killed") {
      if (odd_one) std::raise(SIGKILL);
      all_reduce(data);
    }
    if (mode == "forever") all_reduce_forever(data);
  }

 private:
  void all_reduce(Tensor& data) { world_.all_reduce(bench_.stream(), data, ReduceOp::Sum); }
  void all_reduce_forever(Tensor& data) {
    for (int round = 0;; ++round) {
      all_reduce(data);
      if (round == 10 && world_.rank() == 0) std::cerr << "under way\n";
    }
  }
  void swap_wrong_sizes() {
    std::vector<int64_t> sent(static_cast<size_t>(world_.size()), 2);
    std::vector<int64_t> received = sent;
    if (world_.rank() == 0) received[1] = 3;
    const int64_t in = 2 * world_.size(), out = in + (world_.rank() == 0 ? 1 : 0);
    const Tensor from = bench_.empty<float>({in});
    Tensor to = bench_.empty<float>({out});
    world_.all_to_all(bench_.stream(), to, from, When::Now, SplitSizes(sent), SplitSizes(received));
  }
  void message_of_another_size(Tensor& data) {
    if (world_.rank() == 0) world_.send(bench_.stream(), data, 1);
    Tensor less = bench_.empty<float>({8});
    if (world_.rank() == 1) world_.receive(bench_.stream(), less, 0);
    world_.control().barrier();
  }
  // Does not come, but is there: longer than every deadline of the test.
  static void wait_to_be_ended() { ::poll(nullptr, 0, 60000); }

  Communicator& world_;
  Workbench bench_;
};

int run(const std::vector<std::string>& arguments) {
  const int ranks = static_cast<int>(parse_int(arguments.at(1)).value_or(0));
  const SystemClock clock;
  const Launch launch = find_launch(process_environment());
  check_mpi_launch(launch, ranks, arguments);
  if (launch.kind == LaunchKind::None)
    return run_mpirun(ranks, arguments, arguments.size() > 3 ? arguments[3] : "", clock);
  WorldOptions options;
  if (arguments[2].starts_with("absent")) options.timeout_s = 1;
  if (arguments[2] == "forever") options.timeout_s = 3;
  MpiWorld mpi(launch, clock, options);
  mpi.run([&](Communicator& world) { Ranks(world).run(arguments[2]); });
  return 0;
}

}  // namespace
}  // namespace sextant

int main(int argc, char** argv) {
  try {
    return sextant::run({argv, argv + argc});
  } catch (const sextant::Error& error) {
    std::cerr << sextant::concat("error: ", error.what(), "\n");  // in one piece
    return sextant::exit_code(error.fault());
  }
}
