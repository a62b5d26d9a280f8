#include "base/log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace sextant {
namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";

size_t terminal_width(std::FILE* file) {
  winsize size{};
  if (ioctl(fileno(file), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

bool wants_color(Color color, std::FILE* file) {
  if (color != Color::Auto) return color == Color::Always;
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(fileno(file)) && (no_color == nullptr || *no_color == '\0');
}

Log::Log(LogLevel level, Color color, std::FILE* file)
    : level_(level),
      file_(file),
      color_(wants_color(color, file)),
      terminal_(isatty(fileno(file)) != 0) {}

void Log::error(std::string_view text) {
  write(color_ ? "\x1b[31merror:\x1b[0m " : "error: ", text);
}

void Log::warning(std::string_view text) {
  if (level_ != LogLevel::Quiet) write(color_ ? "\x1b[33mwarning:\x1b[0m " : "warning: ", text);
}

void Log::info(std::string_view text) {
  if (level_ != LogLevel::Quiet) write("", text);
}

void Log::detail(std::string_view text) {
  if (level_ == LogLevel::Verbose) write("", text);
}

void Log::progress(std::string_view text) {
  if (!terminal_ || level_ == LogLevel::Quiet) return;
  const std::lock_guard lock(mutex_);
  const std::string line =
      std::string(kClearLine) + std::string(text.substr(0, terminal_width(file_) - 1));
  std::fwrite(line.data(), 1, line.size(), file_);
  std::fflush(file_);
  progress_shown_ = true;
}

void Log::write(std::string_view prefix, std::string_view text) {
  const std::lock_guard lock(mutex_);
  std::string line = progress_shown_ ? std::string(kClearLine) : "";
  progress_shown_ = false;
  line.append(prefix).append(text).push_back('\n');
  std::fwrite(line.data(), 1, line.size(), file_);
  std::fflush(file_);
}

}  // namespace sextant
