#include "cli/print.h"

#include <signal.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/wrap.h"

namespace sextant::cli {

void print_unchanged(std::string_view text) {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written && errno == EPIPE) {
    ::signal(SIGPIPE, SIG_DFL);
    ::raise(SIGPIPE);
  }
  SXT_CHECK(written, Failure, "cannot write to standard output: ", std::strerror(errno));
}

void print(std::string_view text) {
  const size_t width = terminal_width(stdout);
  print_unchanged(width > 0 ? wrapped(text, width) : std::string(text));
}

void print_line(std::string_view text) {
  print(std::string(text) + "\n");
}

void print_json(const nlohmann::ordered_json& document) {
  print_unchanged(document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                  "\n");
}

}  // namespace sextant::cli
