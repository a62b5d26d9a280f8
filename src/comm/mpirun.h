#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"

namespace sextant {

// mpirun with the flags that running as root, more ranks than cores and threaded ranks need.
//   command  program and its arguments
//   flags    the user's own, as in a shell: "--host a:2,b:2 --mca plm_rsh_agent 'ssh -p 2'"; where
//            they settle something, ours stay out
std::vector<std::string> mpirun_command(int ranks, const std::vector<std::string>& command,
                                        const std::string& flags);

// Words of a text as a shell would split it; quotes keep blanks. An open quote is Error(Config).
std::vector<std::string> split_words(const std::string& text);

// Runs mpirun_command as a child, with this process's output as its own, and gives the exit code of
// the run: that of the first rank that failed of itself; 5 when a rank was killed, with a line
// about it on stderr.
//
// The first SIGINT or SIGTERM that comes meanwhile goes to all ranks as SIGUSR1, for them to save
// and stop (6); any further one ends them. mpirun hangs when it cannot reach a host any more: once
// a rank has reported its failure, it gets `kMpirunGrace` seconds to end, and is killed then.
inline constexpr double kMpirunGrace = 5;
int run_mpirun(int ranks, const std::vector<std::string>& command, const std::string& flags,
               const Clock& clock);

// What a failed rank says to the `sextant` that waits for its mpirun, on stderr, which mpirun hands
// on from all hosts. That one takes it out of the stream.
enum class Cause : uint8_t { ThisRank, AnotherRank };
void report_exit(int code, Cause cause);

// Takes out of a stream what is not meant for people: reports of ranks, an error that another rank
// has told already, and the boxes of text that mpirun draws when a run fails. Gives back the rest.
// What a rank says of another's failure is kept to the end, for the case that the other one is
// mute.
class MpirunOutput {
 public:
  // What of `text`, the next piece of the stream, is to be shown now.
  std::string take(const std::string& text);
  std::string rest();  // at the end of the stream
  bool has_report() const { return code_ >= 0; }
  int code() const { return code_; }                   // the best report's
  const std::string& boxes() const { return boxes_; }  // what mpirun said
  bool has_ended_rank() const;      // it said that a rank ended with a code of its own
  std::string killed_rank() const;  // "rank 2 on node7": the one that it saw killed, or ""

 private:
  std::string take_line(const std::string& line);
  void take_report(const std::string& text);
  // What is to be shown of an error: "" when it was, or another rank may yet say it better.
  std::string take_error(const std::string& line);

  std::string partial_;  // the begin of a line
  std::string boxes_;
  std::set<std::string> errors_;   // lines that were shown
  std::vector<std::string> told_;  // of ranks that heard of another's failure
  bool in_box_ = false;
  int code_ = -1;
  Cause cause_ = Cause::AnotherRank;
};

}  // namespace sextant
