// The store with real processes on this machine: what the control plane gives, and what happens
// when ranks do not come, end, or disagree.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/store_world.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

// A port of the loop-back interface, held open as another program would.
class HeldPort {
 public:
  HeldPort() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(socket_, 4), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
  }
  ~HeldPort() { release(); }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;
  int port() const { return port_; }
  void release() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

 private:
  int socket_, port_ = 0;
};

int free_port() {
  return HeldPort().port();
}

struct Place {
  int rank = 0, size = 2, port = 0;
  double deadline = 10;
  bool has_agent = false;
};

Environment environment_of(const Place& place) {
  return [place](const std::string& name) -> std::optional<std::string> {
    if (name == "RANK" || name == "LOCAL_RANK") return std::to_string(place.rank);
    if (name == "WORLD_SIZE" || name == "LOCAL_WORLD_SIZE") return std::to_string(place.size);
    if (name == "MASTER_ADDR") return "127.0.0.1";
    if (name == "MASTER_PORT") return std::to_string(place.port);
    if (name == "TORCHELASTIC_USE_AGENT_STORE" && place.has_agent) return "True";
    return std::nullopt;
  };
}

// "" or the text of the error; the exit code of an Error is that of the command line.
struct End {
  int code = 0;
  std::string text;
};

// A rank in a process of its own.
class Process {
 public:
  Process(const Place& place, const std::function<void(Communicator&)>& f) {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe(pipe.data()), 0);
    id_ = ::fork();
    if (id_ == 0) {
      ::close(pipe[0]);
      ::_exit(run(place, f, pipe[1]));
    }
    ::close(pipe[1]);
    output_ = pipe[0];
  }
  ~Process() {
    if (id_ > 0) end();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void kill() const { ::kill(id_, SIGKILL); }
  End end() {
    End end;
    std::array<char, 512> piece{};
    for (ssize_t got = 0; (got = ::read(output_, piece.data(), piece.size())) > 0;)
      end.text.append(piece.data(), static_cast<size_t>(got));
    ::close(output_);
    int status = 0;
    ::waitpid(id_, &status, 0);
    id_ = -1;
    end.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return end;
  }

 private:
  static int run(const Place& place, const std::function<void(Communicator&)>& f, int output) {
    try {
      const SystemClock clock;
      const Environment environment = environment_of(place);
      StoreWorld(find_launch(environment), environment, clock, {.timeout_s = place.deadline})
          .run(f);
    } catch (const Error& error) {
      const std::string text = error.what();
      (void)!::write(output, text.data(), text.size());
      return exit_code(error.fault());
    }
    return testing::Test::HasFailure() ? 99 : 0;
  }

  pid_t id_ = -1;
  int output_ = -1;
};

std::vector<End> run_processes(const Place& place, const std::function<void(Communicator&)>& f) {
  std::vector<std::unique_ptr<Process>> processes;
  for (int rank = 0; rank < place.size; ++rank) {
    Place own = place;
    own.rank = rank;
    processes.push_back(std::make_unique<Process>(own, f));
  }
  std::vector<End> ends;
  for (const auto& process : processes) ends.push_back(process->end());
  return ends;
}

void expect_well(const std::vector<End>& ends) {
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].code, 0) << "rank " << rank << ": " << ends[rank].text;
}

void check_control(Communicator& world) {
  ControlPlane& control = world.control();
  const int rank = world.rank(), size = world.size();
  control.barrier();
  std::array<double, 2> sums = {1e17 * (rank == 0), rank + 0.5};
  control.all_reduce(sums, ReduceOp::Sum);
  ASSERT_EQ(sums[0], 1e17);
  ASSERT_EQ(sums[1], size * (size - 1) / 2.0 + size * 0.5);
  std::array<int64_t, 1> most = {rank};
  control.all_reduce(most, ReduceOp::Max);
  ASSERT_EQ(most[0], size - 1);
  const std::string text = control.broadcast_text(rank == 1 ? "from one" : "", 1);
  ASSERT_EQ(text, "from one");
  ASSERT_EQ(control.broadcast_text(rank == 0 ? std::string(300000, 'x') : "", 0).size(), 300000);
  std::vector<int64_t> sizes(static_cast<size_t>(size));
  std::iota(sizes.begin(), sizes.end(), 1);
  const std::vector<std::byte> own(static_cast<size_t>(rank + 1), std::byte(rank));
  std::vector<std::byte> all(rank == 0 ? static_cast<size_t>(size * (size + 1) / 2) : 0);
  control.gather(all, own, sizes, 0);
  size_t at = 0;
  for (int peer = 0; peer < size && rank == 0; ++peer)
    for (int i = 0; i <= peer; ++i) ASSERT_EQ(all[at++], std::byte(peer));
}

TEST(Store, GivesTheControlPlaneToProcesses) {
  for (const int ranks : {2, 5})
    expect_well(run_processes({.size = ranks, .port = free_port()}, check_control));
}

TEST(Store, GivesGroupsTheirOwnControlPlane) {
  expect_well(run_processes({.size = 4, .port = free_port()}, [](Communicator& world) {
    const int side = world.rank() % 2;
    const auto group =
        world.subgroup(ranks_where(4, [&](int rank) { return rank % 2 == side; }), "side");
    const auto pair = duplicate(*group, "again");
    check_control(*pair);
    std::array<int64_t, 1> sum = {world.rank()};
    group->control().all_reduce(sum, ReduceOp::Sum);
    ASSERT_EQ(sum[0], side == 0 ? 2 : 4);
    check_control(world);
  }));
}

TEST(Store, LetsRanksMeetForACallAndASendersNoteArrives) {
  expect_well(run_processes({.size = 3, .port = free_port()}, [](Communicator& world) {
    const auto meetings = duplicate(world, "meetings");
    Call call = call_of(Operation::AllReduce, DType::BF16, 7);
    for (call.sequence = 1; call.sequence < 50; ++call.sequence) meetings->meet(call);
    std::array<std::byte, kNoteBytes> note{};
    Call message = call_of(world.rank() == 0 ? Operation::Send : Operation::Receive, DType::F32, 9);
    message.root = world.rank() == 0 ? 2 : 0;
    message.sequence = 1;
    if (world.rank() == 0) note.fill(std::byte{42});
    if (world.rank() != 1) meetings->meet(message, note.data());
    ASSERT_EQ(note[kNoteBytes - 1], std::byte(world.rank() == 1 ? 0 : 42));
  }));
}

TEST(Store, TellsAllRanksOfADifferentCall) {
  const auto ends = run_processes({.size = 3, .port = free_port()}, [](Communicator& world) {
    const auto meetings = duplicate(world, "dp");
    Call call = call_of(Operation::AllReduce, DType::F32, world.rank() == 1 ? 5 : 4);
    call.sequence = 1;
    meetings->meet(call);
  });
  for (const End& end : ends) {
    EXPECT_EQ(end.code, 5);
    EXPECT_EQ(end.text,
              "group dp, call 1: rank 0, 2 made all_reduce sum of 4 f32; "
              "rank 1 made all_reduce sum of 5 f32");
  }
}

TEST(Store, ComparesTheSplitsOfAnAllToAllPairByPair) {
  const auto ends = run_processes({.size = 2, .port = free_port()}, [](Communicator& world) {
    const auto meetings = duplicate(world, "ep");
    const std::array<int64_t, 2> sent = {1, 2}, received = {world.rank() == 0 ? 1 : 3, 2};
    Call call = call_of(Operation::AllToAll, DType::F32, 3);
    call.split_sizes = SplitSizes(sent);
    call.received = received[0] + received[1];
    call.receive_split_sizes = SplitSizes(received);
    call.sequence = 1;
    meetings->meet(call);
  });
  for (const End& end : ends) EXPECT_NE(end.text.find("group ep, call 1: rank 0"), end.text.npos);
}

TEST(Store, NamesTheRankThatNeverComes) {
  const int port = free_port();
  Process first({.rank = 0, .size = 3, .port = port, .deadline = 0.5}, check_control);
  Process second({.rank = 2, .size = 3, .port = port, .deadline = 0.5}, check_control);
  for (Process* process : {&first, &second}) {
    const End end = process->end();
    EXPECT_EQ(end.code, 5);
    EXPECT_EQ(end.text, "rank 1 of 3 did not come to the store of rank 0 within 0.5 s");
  }
}

TEST(Store, NamesItsAddressWhenRankZeroNeverComes) {
  const int port = free_port();
  const End end =
      Process({.rank = 1, .size = 2, .port = port, .deadline = 0.3}, check_control).end();
  EXPECT_EQ(end.code, 5);
  EXPECT_NE(end.text.find(concat("rank 1 found no store of rank 0 at 127.0.0.1:", port,
                                 " within 0.3 s (Connection refused)")),
            end.text.npos)
      << end.text;
}

TEST(Store, NamesTheRankThatDoesNotMakeTheCall) {
  const auto ends =
      run_processes({.size = 3, .port = free_port(), .deadline = 0.5}, [](Communicator& world) {
        world.control().barrier();
        if (world.rank() == 1) world.ledger().activity.set("B of stage 1, micro 0");
        while (world.rank() == 1 && !world.is_aborted()) std::this_thread::yield();
        world.control().broadcast_text("", 0);
      });
  EXPECT_EQ(ends[0].code, 5);
  EXPECT_NE(
      ends[0].text.find("group world, call 2: rank 1 did not call broadcast of 8 f8e4m3 from "
                        "0 within 0.5 s; rank 1 is at B of stage 1, micro 0, last: barrier #1"),
      std::string::npos)
      << ends[0].text;
  EXPECT_EQ(ends[0].text, ends[2].text);
}

TEST(Store, NamesARankThatWasKilled) {
  const int port = free_port();
  for (const int victim : {0, 1}) {
    std::vector<std::unique_ptr<Process>> processes;
    for (int rank = 0; rank < 3; ++rank)
      processes.push_back(
          std::make_unique<Process>(Place{.rank = rank, .size = 3, .port = port, .deadline = 30},
                                    [victim](Communicator& world) {
                                      world.control().barrier();
                                      if (world.rank() == victim) ::kill(::getpid(), SIGKILL);
                                      world.control().barrier();
                                    }));
    for (int rank = 0; rank < 3; ++rank) {
      const End end = processes[static_cast<size_t>(rank)]->end();
      if (rank == victim) {
        EXPECT_EQ(end.code, -SIGKILL);
        continue;
      }
      EXPECT_EQ(end.code, 5);
      EXPECT_EQ(end.text.rfind(victim == 0 ? "rank 0, which keeps the store, has ended"
                                           : "rank 1 has ended in the middle of the run",
                               0),
                0)
          << end.text;
    }
  }
}

TEST(Store, TellsTheOthersWhyARankFailed) {
  const auto ends = run_processes({.size = 3, .port = free_port()}, [](Communicator& world) {
    if (world.rank() == 2) SXT_FAIL(Data, "token 7 is beyond the vocabulary");
    world.control().barrier();
  });
  EXPECT_EQ(ends[2].code, 4);
  EXPECT_EQ(ends[2].text, "token 7 is beyond the vocabulary");
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ends[static_cast<size_t>(rank)].code, 5);
    EXPECT_EQ(ends[static_cast<size_t>(rank)].text,
              "rank 2 failed: token 7 is beyond the vocabulary");
  }
}

TEST(Store, TellsOfARankThatFinishedEarly) {
  const auto ends = run_processes({.size = 2, .port = free_port()}, [](Communicator& world) {
    if (world.rank() == 0) world.control().broadcast_text("", 0);
  });
  for (const End& end : ends)
    EXPECT_EQ(end.text,
              "group world, call 1: rank 0 made broadcast of 8 f8e4m3 from 0; rank 1 made barrier");
}

TEST(Store, RefusesAPortThatIsInUse) {
  HeldPort held;
  const End end = Process({.rank = 0, .size = 2, .port = held.port()}, check_control).end();
  EXPECT_EQ(end.code, 2);
  EXPECT_EQ(end.text, concat("cannot listen at 127.0.0.1:", held.port(), ": MASTER_PORT=",
                             held.port(), " is in use by another program; choose a free port"));
}

TEST(Store, StandsBesideTheStoreOfTorchrunsAgent) {
  HeldPort agent;
  expect_well(run_processes({.size = 3, .port = agent.port(), .has_agent = true}, check_control));
}

TEST(Store, RefusesRanksOfAnotherWorldSize) {
  const int port = free_port();
  Process first({.rank = 0, .size = 2, .port = port, .deadline = 2}, check_control);
  Process second({.rank = 1, .size = 3, .port = port, .deadline = 2}, check_control);
  const End end = second.end();
  EXPECT_EQ(end.code, 2);
  EXPECT_EQ(end.text, "rank 1 was started with WORLD_SIZE=3, rank 0 with 2");
  EXPECT_EQ(first.end().code, 5);
}

TEST(Store, RefusesBadVariables) {
  const SystemClock clock;
  const auto start = [&](const std::string& host, const std::string& port) {
    const Environment environment = [=](const std::string& name) -> std::optional<std::string> {
      if (name == "MASTER_ADDR") return host;
      if (name == "MASTER_PORT") return port;
      return std::nullopt;
    };
    Launch launch;
    launch.kind = LaunchKind::Torchrun;
    launch.size = 2;
    StoreWorld(launch, environment, clock, {.timeout_s = 0.2});
  };
  EXPECT_ERROR(start("127.0.0.1", "none"), Config, "MASTER_PORT='none'");
  EXPECT_ERROR(start("127.0.0.1", "70000"), Config, "must be a port, 1 to 65535");
  EXPECT_ERROR(start("no.such.host.invalid", "29500"), Config,
               "MASTER_ADDR='no.such.host.invalid'");
}

}  // namespace
}  // namespace sextant
