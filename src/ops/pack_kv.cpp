#include "ops/pack_kv.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(std::string_view op, const Tensor& kv, const Tensor& qkv, const Heads& heads) {
  check_heads(op, heads);
  check_float(op, "qkv", qkv);
  check_tensor(op, "qkv", qkv, qkv.dtype(), {heads.tokens(), heads.qkv_width()});
  check_tensor(op, "kv", kv, qkv.dtype(), {heads.tokens(), heads.kv_width()});
}

}  // namespace

SXT_BACKENDS(pack_kv)
SXT_BACKENDS(unpack_kv)

void pack_kv(Stream& stream, Tensor& kv, const Tensor& qkv, const Heads& heads) {
  check("pack_kv", kv, qkv, heads);
  SXT_DISPATCH(stream, Work("pack_kv").writes(kv).reads_some(qkv, kv.bytes()),
               pack_kv(stream, kv, qkv, heads));
}

void unpack_kv(Stream& stream, Tensor& dqkv, const Tensor& dkv, const Heads& heads) {
  check("unpack_kv", dkv, dqkv, heads);
  SXT_DISPATCH(stream, Work("unpack_kv").writes_some(dqkv, dkv.bytes()).reads(dkv),
               unpack_kv(stream, dqkv, dkv, heads));
}

}  // namespace sextant
