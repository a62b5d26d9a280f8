#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace sextant {

struct ZstdState;
struct ZstdFree {
  void operator()(ZstdState* state) const;
};

// Whether this build has libzstd; a ZstdStream needs it.
bool has_zstd();

// Decompresses zstd frames from memory, piece by piece.
class ZstdStream {
 public:
  // Throws Error(Failure) in a build without zstd. `compressed` must outlive the stream.
  ZstdStream(std::span<const std::byte> compressed, const std::string& name);

  // Fills `out` from the front; returns the bytes written, 0 at the end. Error(Data) for invalid or
  // truncated input.
  size_t read(std::span<char> out);
  size_t taken() const;  // bytes of the input read so far

 private:
  std::unique_ptr<ZstdState, ZstdFree> state_;
};

}  // namespace sextant
