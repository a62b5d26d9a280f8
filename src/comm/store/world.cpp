#include <chrono>
#include <exception>
#include <new>
#include <numeric>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/parse.h"
#include "comm/store/communicator.h"
#include "comm/store/server.h"
#include "comm/store_world.h"

namespace sextant {
namespace {

// Where torchrun's agent keeps a store of its own at MASTER_PORT, as it says by a variable, ours is
// at one of the next ports.
constexpr int kPortsBesideAgent = 16;
constexpr int kLargestPort = 65535;

std::vector<store::Address> addresses_of(const Environment& environment) {
  const std::string host = environment("MASTER_ADDR").value_or("");
  const std::string text = environment("MASTER_PORT").value_or("");
  const std::optional<int64_t> port = parse_int(text);
  SXT_CHECK(!host.empty(), Config,
            "MASTER_ADDR is not set: the store needs the host of rank 0, as torchrun sets it");
  SXT_CHECK(port && *port > 0 && *port <= kLargestPort, Config, "MASTER_PORT='", text,
            "' in the environment: must be a port, 1 to ", kLargestPort);
  const int first = static_cast<int>(*port);
  if (environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") != "True") return {{host, first}};
  std::vector<store::Address> addresses;
  for (int next = first + 1; next <= std::min(first + kPortsBesideAgent, kLargestPort); ++next)
    addresses.push_back({host, next});
  SXT_CHECK(!addresses.empty(), Config, "MASTER_PORT=", first,
            " leaves no port for the store: torchrun's agent has that one; choose a lower port");
  return addresses;
}

// By this a rank knows the store of its run among those of others on the same host.
std::string job_of(const Environment& environment) {
  std::string job = "sextant";
  for (const char* name :
       {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"})
    job += ' ' + environment(name).value_or("-");
  return job;
}

store::Socket listen_at_one(const std::vector<store::Address>& addresses) {
  if (addresses.size() == 1) return store::listen_at(addresses.front());
  for (const store::Address& address : addresses)
    if (store::Socket socket = store::try_to_listen_at(address)) return socket;
  SXT_FAIL(Config, "the ports ", addresses.front().port, " to ", addresses.back().port, " of ",
           addresses.front().host, " are all in use: choose another --master-port");
}

}  // namespace

struct StoreWorld::State {
  State(const Launch& launch, const Environment& environment, const Clock& clock,
        const WorldOptions& options)
      : ledger(clock) {
    ledger.spans = options.spans;
    ledger.rank = launch.rank;
    const std::vector<store::Address> addresses = addresses_of(environment);
    const std::string job = job_of(environment);
    store::Accepted connection;
    if (launch.rank == 0) {
      store::SocketPair pair = store::make_pair();
      server.emplace(listen_at_one(addresses), std::move(pair.one), job, launch.size, clock,
                     options.timeout_s);
      connection.socket = std::move(pair.other);
      store::introduce(connection.socket, job, 0, launch.size);
    } else {
      connection = store::find_store(addresses, job, launch.rank, launch.size,
                                     Deadline(clock, options.timeout_s));
    }
    client.emplace(std::move(connection), launch.rank, options.timeout_s, ledger);
    client->await_welcome();
    std::vector<int> ranks(static_cast<size_t>(launch.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    world = std::make_unique<store::StoreCommunicator>(*client, numbers, ledger, "world",
                                                       std::move(ranks), launch.rank, 0);
  }

  // The launcher ends all ranks when the first one exits: that should be the one that failed.
  void fail(const std::string& reason) {
    client->fail(reason);
    if (client->was_told()) std::this_thread::sleep_for(std::chrono::seconds(1));
  }

  Ledger ledger;
  store::GroupNumbers numbers;
  std::optional<store::Server> server;  // of rank 0
  std::optional<store::Client> client;
  std::unique_ptr<store::StoreCommunicator> world;
};

StoreWorld::StoreWorld(const Launch& launch, const Environment& environment, const Clock& clock,
                       const WorldOptions& options) {
  SXT_CHECK(options.timeout_s > 0, Usage, "a deadline of ", options.timeout_s, " s");
  state_ = std::make_unique<State>(launch, environment, clock, options);
}

StoreWorld::~StoreWorld() = default;

Communicator& StoreWorld::world() {
  return *state_->world;
}

void StoreWorld::run(const std::function<void(Communicator&)>& f) {
  try {
    f(world());
    world().control().barrier();
    state_->client->leave();
  } catch (const Error& error) {
    state_->fail(error.what());
    throw;
  } catch (const std::bad_alloc&) {
    state_->fail("out of memory");
    throw;
  } catch (const std::exception& error) {
    state_->fail(error.what());
    throw;
  } catch (...) {
    state_->fail("something that is no error was thrown");
    throw;
  }
}

}  // namespace sextant
