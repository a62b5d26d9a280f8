#include "support/built.h"

namespace sextant {

std::string source_dir() {
  return SXT_SOURCE_DIR;
}
std::string sextant_program() {
  return SXT_BINARY_DIR "/sextant";
}
std::string sextant_bench_program() {
  return SXT_BINARY_DIR "/sextant-bench";
}

}  // namespace sextant
