#pragma once
#include <functional>

namespace sextant {

// Runs work(0) ... work(count - 1) on all cores of this process, in any order. None begins
// after an exception; the one of the lowest number is rethrown.
void on_all_cores(int count, const std::function<void(int)>& work);

}  // namespace sextant
