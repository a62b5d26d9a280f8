#include <malloc.h>

#include "cli/command.h"

namespace {

// A dry run takes and frees the same memory for each kind of rank: glibc keeps it, instead of
// returning the pages to the system each time.
void keep_freed_memory() {
  constexpr int kMiB = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);
  mallopt(M_TRIM_THRESHOLD, 256 * kMiB);
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  return sextant::cli::run(argc, argv);
}
