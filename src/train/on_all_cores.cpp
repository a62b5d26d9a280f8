#include "train/on_all_cores.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "tensor/device.h"

namespace sextant {

void on_all_cores(int count, const std::function<void(int)>& work) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  std::atomic<int> next{0};
  std::atomic<bool> has_failed{false};
  const auto take_turns = [&] {
    for (int i = next++; i < count && !has_failed; i = next++) {
      try {
        work(i);
      } catch (...) {
        errors[static_cast<size_t>(i)] = std::current_exception();
        has_failed = true;
      }
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < std::min(available_cores(), count); ++i) others.emplace_back(take_turns);
  take_turns();
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace sextant
