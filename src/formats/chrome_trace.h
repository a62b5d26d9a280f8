#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/span_log.h"

namespace sextant {

// Spans as a Chrome trace, which chrome://tracing and Perfetto open: one process per rank, with a
// row for its own thread, one for its progress thread and one for each queue of its GPU, or for
// each lane that spans name; "comm" spans have their bytes, and arrows lead from sends to their
// receives and from the end of a span to those that wait for it. Facts of a span are its "args".
// Times count from the first span, whose own time is kept beside them ("otherData"), so that traces
// of several processes of a machine fit together.
std::string chrome_trace(std::span<const Span> spans);

// The spans of such a trace, times as they were (to the microsecond's fraction that was written);
// events of other kinds are passed over. A kind that Span does not know is "". Error(Data) in one
// line that begins with `what`, the file's name, for what is no trace.
std::vector<Span> read_chrome_trace(std::string_view text, const std::string& what);

}  // namespace sextant
