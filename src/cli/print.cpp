#include "cli/print.h"

#include <signal.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace sextant::cli {

void print(std::string_view text) {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written && errno == EPIPE) {
    ::signal(SIGPIPE, SIG_DFL);
    ::raise(SIGPIPE);
  }
  SXT_CHECK(written, Failure, "cannot write to standard output: ", std::strerror(errno));
}

void print_line(std::string_view text) {
  print(text);
  print("\n");
}

void print_json(const nlohmann::ordered_json& document) {
  print_line(document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace sextant::cli
