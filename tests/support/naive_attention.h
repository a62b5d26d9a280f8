#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "ops/heads.h"

namespace sextant {

// Attention as the formula says it, with the whole row of probabilities, in double. Without `ends`
// a token sees up to itself; without `kv` the keys and values are those of qkv.
struct NaiveAttention {
  Heads heads;
  std::vector<double> qkv;
  std::vector<int32_t> starts;
  std::vector<double> out, lse, dqkv;
  std::vector<int32_t> ends = {};
  std::vector<double> kv = {}, dkv = {};
  int64_t kv_seq = 0;

  int64_t first(int64_t row, int64_t token) const {
    const int64_t start = starts[row * heads.seq + token];
    return heads.window == 0 ? start : std::max(start, token + 1 - heads.window);
  }
  int64_t end(int64_t row, int64_t token) const {
    return ends.empty() ? token + 1 : ends[row * heads.seq + token];
  }

  int64_t q_at(int64_t row, int64_t token, int64_t head) const {
    const int64_t group = heads.group();
    return (row * heads.seq + token) * heads.qkv_width() +
           (head / group * (group + 2) + head % group) * heads.head_dim;
  }
  int64_t k_at(int64_t row, int64_t token, int64_t head) const {
    if (kv_seq > 0)
      return (row * kv_seq + token) * heads.kv_width() + head / heads.group() * 2 * heads.head_dim;
    return q_at(row, token, head / heads.group() * heads.group()) + heads.group() * heads.head_dim;
  }
  int64_t v_at(int64_t row, int64_t token, int64_t head) const {
    return k_at(row, token, head) + heads.head_dim;
  }
  int64_t out_at(int64_t row, int64_t token, int64_t head) const {
    return (row * heads.seq + token) * heads.out_width() + head * heads.head_dim;
  }

  // Probabilities of the keys that the token sees; writes lse.
  std::vector<double> probabilities(int64_t row, int64_t token, int64_t head) {
    const double scale = 1 / std::sqrt(static_cast<double>(heads.head_dim));
    std::vector<double> p;
    for (int64_t key = first(row, token); key < end(row, token); ++key)
      p.push_back(scale * inner(&qkv[q_at(row, token, head)], &keys()[k_at(row, key, head)]));
    const double most = p.empty() ? 0 : *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (const double score : p) sum += std::exp(score - most);
    const double log_sum = most + std::log(sum);
    lse[(row * heads.heads + head) * heads.seq + token] = log_sum;
    for (double& score : p) score = std::exp(score - log_sum);
    return p;
  }

  void forward() {
    out.assign(heads.tokens() * heads.out_width(), 0);
    lse.assign(heads.batch * heads.heads * heads.seq, 0);
    const std::vector<double>& x = keys();
    for_each([&](int64_t row, int64_t token, int64_t head) {
      const std::vector<double> p = probabilities(row, token, head);
      const int64_t from = first(row, token);
      for (int64_t key = from; key < end(row, token); ++key)
        for (int64_t i = 0; i < heads.head_dim; ++i)
          out[out_at(row, token, head) + i] += p[key - from] * x[v_at(row, key, head) + i];
    });
  }

  void backward(const std::vector<double>& dout) {
    const double scale = 1 / std::sqrt(static_cast<double>(heads.head_dim));
    dqkv.assign(qkv.size(), 0);
    dkv.assign(kv.size(), 0);
    const std::vector<double>& x = keys();
    std::vector<double>& dx = kv_seq > 0 ? dkv : dqkv;
    for_each([&](int64_t row, int64_t token, int64_t head) {
      const std::vector<double> p = probabilities(row, token, head);
      const int64_t from = first(row, token), o = out_at(row, token, head);
      const int64_t q = q_at(row, token, head);
      const double delta = inner(&dout[o], &out[o]);
      for (int64_t key = from; key < end(row, token); ++key) {
        const int64_t k = k_at(row, key, head), v = v_at(row, key, head);
        const double ds = p[key - from] * (inner(&dout[o], &x[v]) - delta);
        for (int64_t i = 0; i < heads.head_dim; ++i) {
          dx[v + i] += p[key - from] * dout[o + i];
          dx[k + i] += scale * ds * qkv[q + i];
          dqkv[q + i] += scale * ds * x[k + i];
        }
      }
    });
  }

 private:
  const std::vector<double>& keys() const { return kv_seq > 0 ? kv : qkv; }
  double inner(const double* a, const double* b) const {
    double sum = 0;
    for (int64_t i = 0; i < heads.head_dim; ++i) sum += a[i] * b[i];
    return sum;
  }
  template <class F>
  void for_each(F&& f) {
    for (int64_t row = 0; row < heads.batch; ++row)
      for (int64_t token = 0; token < heads.seq; ++token)
        for (int64_t head = 0; head < heads.heads; ++head) f(row, token, head);
  }
};

// First index of its document for every token: a new document begins with chance 1 / `mean`.
inline std::vector<int32_t> random_starts(const Heads& heads, int mean, uint64_t seed) {
  const Random random(seed, "documents");
  std::vector<int32_t> starts(heads.tokens(), 0);
  for (int64_t i = 0; i < heads.tokens(); ++i) {
    const int64_t token = i % heads.seq;
    if (token > 0) starts[i] = starts[i - 1];
    if (token > 0 && random.below(mean, i) == 0) starts[i] = static_cast<int32_t>(token);
  }
  return starts;
}

}  // namespace sextant
