#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace sextant {

// What went wrong, in the classes that the exit codes tell apart.
enum class Fault {
  Internal,  // our own mistake                          exit 1
  Failure,   // a run that could not go on               exit 1
  Usage,     // a call or command line that makes no sense  exit 2
  Config,    // a setting that cannot be                 exit 2
  Memory,    // does not fit                             exit 3
  Data,      // a file, token or checkpoint that is bad  exit 4
  Peer,      // another rank failed or hung              exit 5
};

// The exit code of the command line contract.
int exit_code(Fault fault);

// The only exception type of the project; `what()` is one line that names the value and what would
// be right.
class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& text) : std::runtime_error(text), fault_(fault) {}
  Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

// All parts as one text, each as its operator<< writes it.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace sextant

// Always on. SXT_CHECK(rows > 0, Usage, "rmsnorm: rows=", rows, ", must be positive")
#define SXT_CHECK(condition, fault, ...)                                               \
  do {                                                                                 \
    if (!(condition)) [[unlikely]]                                                     \
      throw ::sextant::Error(::sextant::Fault::fault, ::sextant::concat(__VA_ARGS__)); \
  } while (false)

#define SXT_FAIL(fault, ...) \
  throw ::sextant::Error(::sextant::Fault::fault, ::sextant::concat(__VA_ARGS__))
