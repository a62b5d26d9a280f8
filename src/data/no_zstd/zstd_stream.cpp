#include "data/zstd_stream.h"

#include "base/error.h"

namespace sextant {

struct ZstdState {};

void ZstdFree::operator()(ZstdState* state) const {
  delete state;
}

bool has_zstd() {
  return false;
}

ZstdStream::ZstdStream(std::span<const std::byte>, const std::string& name) {
  SXT_FAIL(Failure, name, ": this build has no zstd; install libzstd-dev and build again, or ",
           "decompress the file");
}

size_t ZstdStream::read(std::span<char>) {
  SXT_FAIL(Internal, "a zstd stream in a build that has none");
}

size_t ZstdStream::taken() const {
  return 0;
}

}  // namespace sextant
