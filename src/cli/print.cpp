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

std::string counted(int64_t count, std::string_view one, std::string_view many) {
  return concat(count, " ", count == 1 ? one : many);
}

void print_foreign(std::string_view text) {
  if (terminal_width(stdout) == 0) return print_unchanged(text);
  const auto byte_at = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned byte = byte_at(i), next = byte_at(i + 1);
    const bool is_plain = text[i] == '\n' || text[i] == '\t';
    const bool is_long = byte == 0xc2 && next >= 0x80 && next < 0xa0;  // U+0080 ... U+009F
    if (is_long) ++i;
    if (is_long || byte == 0x7f || (byte < 0x20 && !is_plain))
      out += "\uFFFD";
    else
      out += text[i];
  }
  print_unchanged(out);
}

void print_line(std::string_view text) {
  print(std::string(text) + "\n");
}

void print_json(const nlohmann::ordered_json& document) {
  print_unchanged(document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                  "\n");
}

}  // namespace sextant::cli
