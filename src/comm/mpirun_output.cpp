#include <unistd.h>

#include "base/error.h"
#include "base/parse.h"
#include "comm/mpirun.h"

namespace sextant {
namespace {

constexpr std::string_view kReport = "\x1esextant-rank-ended ";  // record separator
constexpr std::string_view kError = "error: ", kFailed = " failed: ";
constexpr std::string_view kForwarding = "mpirun: Forwarding signal ";
// Open MPI prints this when the sender of a message was killed; the receiving rank says more.
constexpr std::string_view kReadOfDead = "] Read -1, expected ";
constexpr std::string_view kBoxEdge =
    "--------------------------------------------------------------------------";

}  // namespace

// A single write, so that the line is not interleaved with others.
void report_exit(int code, Cause cause) {
  const std::string line =
      concat(kReport, code, cause == Cause::ThisRank ? " self" : " told", "\n");
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

std::string MpirunOutput::take(const std::string& text) {
  partial_ += text;
  std::string shown;
  size_t begin = 0;
  for (size_t end; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1)
    shown += take_line(partial_.substr(begin, end + 1 - begin));
  partial_.erase(0, begin);
  return shown;
}

std::string MpirunOutput::rest() {
  std::string shown = partial_.empty() ? "" : take_line(partial_);
  partial_.clear();
  for (const std::string& line : held_back_) {
    const size_t reason = line.find(kFailed) + kFailed.size();
    if (!errors_.contains(std::string(kError) + line.substr(reason)) && errors_.insert(line).second)
      shown += line;
  }
  held_back_.clear();
  return shown;
}

std::string MpirunOutput::take_line(const std::string& line) {
  const size_t report = line.find(kReport);
  if (report != std::string::npos) {
    take_report(line.substr(report + kReport.size()));
    return line.substr(0, report);  // may be the beginning of another rank's line
  }
  const size_t edge = line.find(kBoxEdge);
  if (edge != std::string::npos) {  // may follow an incomplete line of a rank
    in_box_ = !in_box_;
    return edge == 0 ? "" : line.substr(0, edge) + "\n";
  }
  if (line.starts_with(kForwarding)) return "";  // we asked for it
  if (line.starts_with('[') && line.find(kReadOfDead) != std::string::npos) return "";
  if (!in_box_) return line.starts_with(kError) ? take_error(line) : line;
  boxes_ += line;
  return "";
}

void MpirunOutput::take_report(const std::string& text) {
  const std::vector<std::string> words = split(text.substr(0, text.find('\n')), ' ');
  const std::optional<int64_t> code = parse_int(words[0]);
  const Cause cause = words.size() > 1 && words[1] == "self" ? Cause::ThisRank : Cause::AnotherRank;
  const bool better = code_ < 0 || (cause == Cause::ThisRank && cause_ == Cause::AnotherRank);
  if (!code || !better) return;
  code_ = static_cast<int>(*code);
  cause_ = cause;
}

// An error that names another rank reads "rank 3 failed: ...".
std::string MpirunOutput::take_error(const std::string& line) {
  if (line.starts_with("error: rank ") && line.find(kFailed) != std::string::npos) {
    held_back_.push_back(line);
    return "";
  }
  return errors_.insert(line).second ? line : "";
}

// "mpirun noticed that process rank 2 with PID 0 on node node7 exited on signal 9 (Killed)."
std::string MpirunOutput::killed_rank() const {
  constexpr std::string_view kRank = "process rank ", kNode = " on node ",
                             kEnd = " exited on signal ";
  const size_t begin = boxes_.find(kRank), end = boxes_.find(kEnd, begin);
  if (begin == std::string::npos || end == std::string::npos) return "";
  const std::string told = boxes_.substr(begin + kRank.size(), end - begin - kRank.size());
  const size_t node = told.find(kNode);
  const std::string number = told.substr(0, told.find(' '));
  if (!parse_int(number) || node == std::string::npos) return "";
  return concat("rank ", number, " on ", told.substr(node + kNode.size()));
}

bool MpirunOutput::has_ended_rank() const {
  return boxes_.find("processes exited with non-zero status") != std::string::npos;
}

}  // namespace sextant
