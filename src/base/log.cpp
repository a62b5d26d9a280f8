#include "base/log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/wrap.h"

namespace sextant {
namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";

}  // namespace

size_t terminal_width(std::FILE* file) {
  constexpr size_t kUsual = 80;  // of a terminal that does not say
  if (isatty(fileno(file)) == 0) return 0;
  winsize size{};
  if (ioctl(fileno(file), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

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

void Log::explain(std::string_view text) {
  write("", text);
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
      std::string(kClearLine) + std::string(cut_to(text, terminal_width(file_) - 1));
  std::fwrite(line.data(), 1, line.size(), file_);
  std::fflush(file_);
  progress_shown_ = true;
}

void Log::end_progress() {
  const std::lock_guard lock(mutex_);
  if (!progress_shown_) return;
  progress_shown_ = false;
  std::fwrite(kClearLine.data(), 1, kClearLine.size(), file_);
  std::fflush(file_);
}

void Log::write(std::string_view prefix, std::string_view text) {
  const std::lock_guard lock(mutex_);
  std::string line = progress_shown_ ? std::string(kClearLine) : "";
  progress_shown_ = false;
  const std::string whole = std::string(prefix).append(text);
  line += terminal_ ? wrapped(whole, terminal_width(file_)) : whole;
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), file_);
  std::fflush(file_);
}

}  // namespace sextant
