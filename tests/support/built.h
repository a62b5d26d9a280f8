#pragma once
#include <string>

// Where the sources and programs of this build lie. Compiled into one file, so that all other tests
// are the same in every clone and come from the compiler's cache.
namespace sextant {

std::string source_dir();
std::string sextant_program();
std::string sextant_bench_program();

}  // namespace sextant
