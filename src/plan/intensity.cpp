#include "plan/intensity.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr double kBytes = 2;  // of an element

OpIntensity linear(const char* name, double rows, double in, double out) {
  return {name, 2 * rows * in * out, kBytes * (rows * in + in * out + rows * out)};
}

}  // namespace

std::vector<OpIntensity> op_intensities(const Case& asked) {
  const ModelShape& s = asked.shape;
  const Layout& l = asked.layout;
  const double tokens = static_cast<double>(l.micro * s.seq) / l.cp, tp = l.tp;
  const double hidden = static_cast<double>(s.hidden), dim = static_cast<double>(s.head_dim);
  const double heads = static_cast<double>(s.heads) / tp;
  const double kv = std::max(static_cast<double>(s.kv_heads) / tp, 1.0);
  const double up = s.gated ? 2 : 1;
  std::vector<OpIntensity> out;
  if (s.kv_rank == 0)
    out.push_back(linear("queries, keys, values", tokens, hidden, (heads + 2 * kv) * dim));
  // Fused: scores never reach memory; with the causal mask half of the pairs.
  const double seq = static_cast<double>(s.seq);
  out.push_back({"attention", 4 * tokens * heads * dim * seq / 2,
                 kBytes * tokens * (2 * heads + 2 * kv) * dim});
  out.push_back(linear("attention output", tokens, heads * dim, hidden));
  if (s.experts > 0) {
    const double rows =
        tokens * static_cast<double>(s.experts_per_token * l.ep) / static_cast<double>(s.experts);
    const double width = static_cast<double>(s.expert_ffn) / l.etp;
    out.push_back(linear("an expert, up", rows, hidden, up * width));
    out.push_back(linear("an expert, down", rows, width, hidden));
  } else {
    const double width = static_cast<double>(s.ffn) / tp;
    out.push_back(linear("MLP, up", tokens, hidden, up * width));
    out.push_back(linear("MLP, down", tokens, width, hidden));
  }
  const double shared = l.sequence ? tp : 1;
  out.push_back({"norm", 4 * tokens * hidden / shared, 2 * kBytes * tokens * hidden / shared});
  out.push_back(linear("head", tokens, hidden, static_cast<double>(s.vocab) / tp));
  return out;
}

std::string bound_of(const OpIntensity& op, const Hardware& hardware) {
  return op.intensity() >= ridge_point(hardware) ? "compute" : "memory";
}

}  // namespace sextant
