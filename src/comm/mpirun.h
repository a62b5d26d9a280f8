#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"

namespace sextant {

// The mpirun command line, with the flags needed for root, oversubscription and threaded ranks.
//   command  program and its arguments
//   flags    the user's own, as in a shell: "--host a:2,b:2 --mca plm_rsh_agent 'ssh -p 2'"; they
//            override ours
std::vector<std::string> mpirun_command(int ranks, const std::vector<std::string>& command,
                                        const std::string& flags);

// Splits a text into words as a shell does, with quotes. An unclosed quote is Error(Config).
std::vector<std::string> split_words(const std::string& text);

// Runs mpirun_command as a child that shares this process's output, and returns the exit code of
// the run: that of the first rank whose failure was its own; 5 when a rank was killed, with a line
// on stderr that names it.
//
// The first SIGINT or SIGTERM is forwarded to all ranks as SIGUSR1: they save and stop (exit 6). A
// second one ends them. mpirun hangs when a host becomes unreachable, so it is killed if it has not
// ended `kMpirunGrace` seconds after a rank reported its failure.
inline constexpr double kMpirunGrace = 5;
int run_mpirun(int ranks, const std::vector<std::string>& command, const std::string& flags,
               const Clock& clock);

// Reports the exit code of a failed rank to the `sextant` process that waits for mpirun, by a line
// on stderr, which mpirun forwards from all hosts. The parent removes the line from the stream.
enum class Cause : uint8_t { ThisRank, AnotherRank };
void report_exit(int code, Cause cause);

// Filters mpirun's stderr: removes exit reports, errors that another rank has printed already, and
// the boxes of text that mpirun prints when a run fails. An error about another rank's failure is
// held back until the end, in case that rank prints none itself.
class MpirunOutput {
 public:
  // Takes the next piece of the stream; returns the text to print now.
  std::string take(const std::string& text);
  std::string rest();  // at the end of the stream
  bool has_report() const { return code_ >= 0; }
  int code() const { return code_; }                   // reported; Cause::ThisRank is preferred
  const std::string& boxes() const { return boxes_; }  // text of mpirun's boxes
  bool has_ended_rank() const;                         // a box says that a rank exited with a code
  std::string killed_rank() const;  // "rank 2 on node7", killed according to a box; or ""

 private:
  std::string take_line(const std::string& line);
  void take_report(const std::string& text);
  // The text to print now for an error line: "" when it was printed before or is held back.
  std::string take_error(const std::string& line);

  std::string partial_;  // an incomplete line
  std::string boxes_;
  std::set<std::string> errors_;        // lines printed
  std::vector<std::string> held_back_;  // errors about another rank's failure
  bool in_box_ = false;
  int code_ = -1;
  Cause cause_ = Cause::AnotherRank;
};

}  // namespace sextant
