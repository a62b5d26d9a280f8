#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>
#include <sstream>
#include <thread>
#include <vector>

namespace sextant {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File temporary_file() {
  return File(std::tmpfile(), &std::fclose);
}

std::string text_of(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int ch = std::fgetc(file); ch != EOF; ch = std::fgetc(file))
    text.push_back(static_cast<char>(ch));
  return text;
}

void say_everything(Log& log) {
  log.error("e");
  log.warning("w");
  log.info("i");
  log.detail("d");
  log.progress("p");
}

TEST(Log, TheLevelDecidesWhatIsShown) {
  const std::vector<std::pair<LogLevel, std::string>> cases = {
      {LogLevel::Quiet, "error: e\n"},
      {LogLevel::Normal, "error: e\nwarning: w\ni\n"},
      {LogLevel::Verbose, "error: e\nwarning: w\ni\nd\n"}};
  for (const auto& [level, expected] : cases) {
    const File file = temporary_file();
    Log log(level, Color::Auto, file.get());
    say_everything(log);
    EXPECT_EQ(text_of(file.get()), expected);
    EXPECT_FALSE(log.is_terminal());
  }
}

TEST(Log, ColourIsForTerminalsUnlessAskedFor) {
  const File file = temporary_file();
  EXPECT_FALSE(wants_color(Color::Auto, file.get()));
  EXPECT_TRUE(wants_color(Color::Always, file.get()));
  EXPECT_FALSE(wants_color(Color::Never, file.get()));
  Log log(LogLevel::Normal, Color::Always, file.get());
  log.error("e");
  EXPECT_EQ(text_of(file.get()), "\x1b[31merror:\x1b[0m e\n");
}

// A pseudo-terminal stands for a person's.
TEST(Log, ProgressIsRedrawnOnATerminalAndClearedBeforeALine) {
  const int leader = ::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (leader < 0 || ::grantpt(leader) != 0 || ::unlockpt(leader) != 0)
    GTEST_SKIP() << "no pseudo-terminals here";
  const File file(std::fopen(::ptsname(leader), "w"), &std::fclose);
  ASSERT_NE(file, nullptr);
  ::unsetenv("NO_COLOR");
  EXPECT_TRUE(wants_color(Color::Auto, file.get()));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(wants_color(Color::Auto, file.get()));
  Log log(LogLevel::Normal, Color::Auto, file.get());
  EXPECT_TRUE(log.is_terminal());
  log.progress("half");
  log.info("line");
  ::unsetenv("NO_COLOR");
  std::string shown;
  char buffer[256];
  for (ssize_t size = 0; (size = ::read(leader, buffer, sizeof buffer)) > 0;)
    shown.append(buffer, static_cast<size_t>(size));
  ::close(leader);
  EXPECT_EQ(shown, "\r\x1b[Khalf\r\x1b[Kline\r\n");
}

TEST(Log, LinesOfSeveralThreadsStayWhole) {
  const File file = temporary_file();
  Log log(LogLevel::Normal, Color::Never, file.get());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank)
    threads.emplace_back([&log, rank] {
      for (int i = 0; i < 200; ++i) log.info(std::string(20, static_cast<char>('a' + rank)));
    });
  for (std::thread& thread : threads) thread.join();
  std::istringstream lines(text_of(file.get()));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    ASSERT_EQ(line, std::string(20, line.at(0)));
  EXPECT_EQ(count, 800);
}

}  // namespace
}  // namespace sextant
