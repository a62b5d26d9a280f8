#pragma once
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace sextant {

enum class LogLevel { Quiet, Normal, Verbose };
enum class Color { Auto, Always, Never };

// Whether text for `file` should carry colour: Auto means a terminal and NO_COLOR unset.
bool wants_color(Color color, std::FILE* file);

// Columns of the terminal that `file` is; 0 if it is none.
size_t terminal_width(std::FILE* file);

// Human-readable lines and one progress line on stderr; never data. On a terminal lines are wrapped
// to its width. Owned by the command and passed down. Thread-safe: lines are written whole.
class Log {
 public:
  Log(LogLevel level, Color color, std::FILE* file = stderr);

  void error(std::string_view text);    // always shown, "error: " in front
  void explain(std::string_view text);  // always shown: lines that belong to an error
  void warning(std::string_view text);  // shown unless quiet, "warning: " in front
  void info(std::string_view text);     // shown unless quiet
  void detail(std::string_view text);   // shown when verbose
  // Redraws one line in place on a terminal (text cut to its width); nothing elsewhere.
  void progress(std::string_view text);
  // Removes that line; lines of the log do so themselves, data on stdout needs it before.
  void end_progress();

  LogLevel level() const { return level_; }
  bool is_terminal() const { return terminal_; }

 private:
  void write(std::string_view prefix, std::string_view text);

  LogLevel level_;
  std::FILE* file_;
  bool color_;
  bool terminal_;
  bool progress_shown_ = false;
  std::mutex mutex_;
};

}  // namespace sextant
