#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace sextant {

// Classes of errors, which determine the exit code.
enum class Fault {
  Internal,  // a bug in sextant                         exit 1
  Failure,   // the run cannot continue                  exit 1
  Usage,     // invalid call or command line             exit 2
  Config,    // invalid setting                          exit 2
  Memory,    // out of memory                            exit 3
  Data,      // invalid file, token or checkpoint        exit 4
  Peer,      // another rank failed or hung              exit 5
};

// The exit code of the command line contract.
int exit_code(Fault fault);

// The only exception type of the project; `what()` is one line that gives the value and what would
// be valid.
class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& text) : std::runtime_error(text), fault_(fault) {}
  Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

// The parts as one string, each formatted by its operator<<.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace sextant

// Active in all builds. SXT_CHECK(rows > 0, Usage, "rmsnorm: rows=", rows, ", must be positive")
#define SXT_CHECK(condition, fault, ...)                                               \
  do {                                                                                 \
    if (!(condition)) [[unlikely]]                                                     \
      throw ::sextant::Error(::sextant::Fault::fault, ::sextant::concat(__VA_ARGS__)); \
  } while (false)

#define SXT_FAIL(fault, ...) \
  throw ::sextant::Error(::sextant::Fault::fault, ::sextant::concat(__VA_ARGS__))
