// sextant-bench: the commands of sextant with a global operator new that counts its calls, so that
// `bench step` can show that a steady step allocates nothing.
#include <atomic>
#include <cstdlib>
#include <new>

#include "cli/command.h"

namespace {

std::atomic<int64_t> calls{0};

// Null when there is no memory.
void* counted(std::size_t size) noexcept {
  calls.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}

void* counted(std::size_t size, std::align_val_t align) noexcept {
  calls.fetch_add(1, std::memory_order_relaxed);
  const auto alignment = static_cast<std::size_t>(align);
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// All forms: one left out would come from elsewhere and be freed here.
void* operator new(std::size_t size) {
  return or_throw(counted(size));
}
void* operator new[](std::size_t size) {
  return or_throw(counted(size));
}
void* operator new(std::size_t size, std::align_val_t align) {
  return or_throw(counted(size, align));
}
void* operator new[](std::size_t size, std::align_val_t align) {
  return or_throw(counted(size, align));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size);
}
void* operator new(std::size_t size, std::align_val_t align, const std::nothrow_t&) noexcept {
  return counted(size, align);
}
void* operator new[](std::size_t size, std::align_val_t align, const std::nothrow_t&) noexcept {
  return counted(size, align);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}

int main(int argc, char** argv) {
  return sextant::cli::run(argc, argv, [] { return calls.load(std::memory_order_relaxed); });
}
