#include "cli/print.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace sextant::cli {

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  SXT_CHECK(written && std::fflush(stdout) == 0, Failure,
            "cannot write to standard output: ", std::strerror(errno));
}

void print_line(std::string_view text) {
  print(text);
  print("\n");
}

}  // namespace sextant::cli
