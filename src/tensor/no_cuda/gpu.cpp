#include "tensor/gpu.h"

#include "base/error.h"

namespace sextant::gpu {
namespace {

constexpr const char* kNoCuda = "this build has no CUDA (nvcc and cuBLAS were not both found)";

[[noreturn]] void refuse() {
  throw Error(Fault::Config, kNoCuda);
}

}  // namespace

struct Staging::State {};

std::string why_unusable(int) {
  return kNoCuda;
}

int count() {
  return 0;
}

std::string identity(int) {
  refuse();
}

void select(int) {
  refuse();
}

std::byte* allocate(int, int64_t) {
  refuse();
}

void release(int, std::byte*) noexcept {}

std::byte* allocate_pinned(int, int64_t) {
  refuse();
}

void release_pinned(int, std::byte*) noexcept {}

Memory memory_of(int) {
  refuse();
}

Event::Event(int) {
  refuse();
}
Event::~Event() = default;
void Event::record(Queue&) {}
bool Event::is_done() const {
  return true;
}

Queue::Queue(int index) : index_(index) {
  refuse();
}
Queue::~Queue() = default;
void Queue::wait_for(const Event&) {}
void Queue::copy(std::byte*, const std::byte*, int64_t) {}
void Queue::fill_zero(std::byte*, int64_t) {}
void Queue::synchronize() {}
void Queue::synchronize(const Event&) {}

Marks::Marks(int index, int) : index_(index) {
  refuse();
}
Marks::~Marks() = default;
int Marks::add(Queue&) {
  return used_;
}
double Marks::seconds_between(int, int) const {
  return 0;
}

Staging::Staging(Queue&) {
  refuse();
}
Staging::~Staging() = default;
void Staging::upload(std::byte*, std::span<const std::byte>) {}
void Staging::download(std::span<std::byte>, const std::byte*) {}
void Staging::download_later(std::span<std::byte>, const std::byte*) {}
void Staging::deliver() {}
void Staging::start_recording() {}
void Staging::stop_recording() {}
void Staging::repeat_recorded() {}

Graph::~Graph() = default;
void Graph::begin() {
  refuse();
}
void Graph::end() {}
void Graph::give_up() noexcept {}
void Graph::launch() {}

}  // namespace sextant::gpu
