#pragma once
#include <span>
#include <string>

#include "base/trace.h"

namespace sextant {

// Spans as a Chrome trace, which chrome://tracing and Perfetto open: one process per rank, with a
// row for its own thread and one for its courier. Times count from the first span.
std::string chrome_trace(std::span<const Span> spans);

}  // namespace sextant
