// Counts the heap allocations of all threads of this program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "comm/run_ranks.h"
#include "support/on_devices.h"
#include "support/workbench.h"

namespace {
std::atomic<int64_t> heap_calls{0};
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  ++heap_calls;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace sextant {
namespace {

void call_everything(Communicator& world, Stream& stream, std::vector<Tensor>& tensors) {
  Tensor &whole = tensors[0], &other = tensors[1], &part = tensors[2], &message = tensors[3];
  const int next = (world.rank() + 1) % world.size();
  const int before = (world.rank() + world.size() - 1) % world.size();
  for (const When when : {When::Now, When::Later}) {
    Pending a = world.all_reduce(stream, whole, ReduceOp::Sum, when);
    Pending b = world.reduce_scatter(stream, part, other, ReduceOp::Sum, when);
    a.wait();
    b.wait();
    Pending c = world.all_gather(stream, whole, part, when);
    Pending d = world.broadcast(stream, other, 1, when);
    Pending out = world.send(stream, part, next, When::Later);
    Pending in = world.receive(stream, message, before, When::Later);
    in.wait();
    out.wait();
    d.wait();
    c.wait();
  }
  world.control().barrier();
  double loss = 1;
  world.control().all_reduce(std::span(&loss, 1), ReduceOp::Sum);
}

class Steady : public OnDevices {};
SXT_ON_CPU_AND_GPU(Steady);

// Pools grow until they suffice for how far ranks and progress threads happen to be apart, so some
// rounds may still allocate; a call that always allocates would do so in all rounds.
TEST_P(Steady, CallsAskNothingOfTheHeapOnceTheyHaveRun) {
  for (const int ranks : {2, 4}) {
    std::atomic<int64_t> before{0};
    std::atomic<bool> quiet{false};
    run_ranks(ranks, [&](Communicator& world) {
      Workbench bench(1, GetParam());
      std::vector<Tensor> tensors;
      for (const int64_t size : {120, 120, 120 / world.size(), 120 / world.size()})
        tensors.push_back(
            bench.make<float>({size}, std::vector<float>(static_cast<size_t>(size), 1.0F)));
      for (int round = 0; round < 20; ++round) {
        world.control().barrier();
        if (world.rank() == 0) before = heap_calls.load();
        world.control().barrier();
        for (int i = 0; i < 20; ++i) call_everything(world, bench.stream(), tensors);
        world.control().barrier();
        if (world.rank() == 0 && heap_calls == before) quiet = true;
      }
    });
    EXPECT_TRUE(quiet) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace sextant
