#pragma once
#include <functional>

namespace sextant {

// work(0) ... work(count - 1), on all cores of this process, in any order. Throws what the first of
// them threw, after all have ended.
void on_all_cores(int count, const std::function<void(int)>& work);

}  // namespace sextant
