#include "data/zstd_stream.h"

#include <zstd.h>

#include "base/error.h"

namespace sextant {

struct ZstdState {
  ZSTD_DStream* stream;
  ZSTD_inBuffer in;
  bool is_inside_frame;
  std::string name;
};

void ZstdFree::operator()(ZstdState* state) const {
  ZSTD_freeDStream(state->stream);
  delete state;
}

bool has_zstd() {
  return true;
}

ZstdStream::ZstdStream(std::span<const std::byte> compressed, const std::string& name)
    : state_(new ZstdState{
          ZSTD_createDStream(), {compressed.data(), compressed.size(), 0}, false, name}) {
  SXT_CHECK(state_->stream, Memory, "no memory to decompress ", name);
}

size_t ZstdStream::read(std::span<char> out) {
  ZstdState& state = *state_;
  ZSTD_outBuffer target{out.data(), out.size(), 0};
  while (target.pos < target.size) {
    const size_t before_in = state.in.pos, before_out = target.pos;
    if (state.in.pos == state.in.size && !state.is_inside_frame) break;
    const size_t result = ZSTD_decompressStream(state.stream, &target, &state.in);
    SXT_CHECK(!ZSTD_isError(result), Data, state.name, ": not zstd or damaged at byte ", before_in,
              ": ", ZSTD_getErrorName(result));
    state.is_inside_frame = result != 0;
    const bool stuck = state.in.pos == before_in && target.pos == before_out;
    SXT_CHECK(!(stuck && state.is_inside_frame), Data, state.name, ": zstd file is cut at byte ",
              state.in.size);
    if (stuck) break;
  }
  return target.pos;
}

size_t ZstdStream::taken() const {
  return state_->in.pos;
}

}  // namespace sextant
