#include "bench/attention_unfused.h"

#include <algorithm>
#include <cmath>

#include "ops/matmul.h"

namespace sextant {
namespace {

constexpr int64_t kRows = 16;  // rows per task

// Row i of scores becomes softmax(scale * row[0 ... i]), then zeros.
void softmax_rows(Stream& stream, Tensor& scores, float scale) {
  const Access access(stream);
  const int64_t seq = scores.dim(0);
  stream.team().for_pieces(seq, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      float* row = scores.data<float>() + i * seq;
      const float most = *std::max_element(row, row + i + 1);
      float sum = 0;
      for (int64_t j = 0; j <= i; ++j) {
        row[j] = std::exp(scale * (row[j] - most));
        sum += row[j];
      }
      const float inverse = 1 / sum;
      for (int64_t j = 0; j <= i; ++j) row[j] *= inverse;
      std::fill(row + i + 1, row + seq, 0.0f);
    }
  });
}

// ds, holding dp, becomes scale * p * (dp - sum(p * dp)) in every row.
void softmax_rows_backward(Stream& stream, Tensor& ds, const Tensor& probabilities, float scale) {
  const Access access(stream);
  const int64_t seq = ds.dim(0);
  stream.team().for_pieces(seq, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      float* row = ds.data<float>() + i * seq;
      const float* p = probabilities.data<float>() + i * seq;
      float sum = 0;
      for (int64_t j = 0; j <= i; ++j) sum += p[j] * row[j];
      for (int64_t j = 0; j <= i; ++j) row[j] = scale * p[j] * (row[j] - sum);
      std::fill(row + i + 1, row + seq, 0.0f);
    }
  });
}

}  // namespace

UnfusedAttention::UnfusedAttention(Stream& stream, const Heads& heads)
    : stream_(stream), heads_(heads) {
  const auto make = [&](const Shape& shape) {
    return stream.arena().allocate(Category::Activations, DType::F32, shape);
  };
  const int64_t seq = heads.seq, queries = heads.batch * heads.heads;
  const int64_t keys = heads.batch * heads.kv_heads;
  for (Tensor* x : {&q, &dq, &out, &dout}) *x = make({queries, seq, heads.head_dim});
  for (Tensor* x : {&k, &v, &dk, &dv}) *x = make({keys, seq, heads.head_dim});
  probabilities = make({queries, seq, seq});
  dscores_ = make({seq, seq});
}

Tensor UnfusedAttention::matrix(const Tensor& stack, int64_t index) const {
  return stack.slice(index, index + 1).view({stack.dim(1), stack.dim(2)});
}

int64_t UnfusedAttention::kv_of(int64_t head) const {
  return head / heads_.heads * heads_.kv_heads + head % heads_.heads / heads_.group();
}

void UnfusedAttention::forward() {
  const float scale = 1 / std::sqrt(static_cast<float>(heads_.head_dim));
  for (int64_t head = 0; head < q.dim(0); ++head) {
    Tensor p = matrix(probabilities, head), o = matrix(out, head);
    matmul(stream_, p, matrix(q, head), Transpose::No, matrix(k, kv_of(head)), Transpose::Yes, {});
    softmax_rows(stream_, p, scale);
    matmul(stream_, o, p, Transpose::No, matrix(v, kv_of(head)), Transpose::No, {});
  }
}

void UnfusedAttention::backward() {
  const float scale = 1 / std::sqrt(static_cast<float>(heads_.head_dim));
  for (int64_t head = 0; head < q.dim(0); ++head) {
    const int64_t kv = kv_of(head);
    const Tensor p = matrix(probabilities, head), d = matrix(dout, head);
    Tensor key_gradient = matrix(dk, kv), value_gradient = matrix(dv, kv);
    Tensor query_gradient = matrix(dq, head);
    Epilogue onto_group;  // the first head of a group starts its sum
    onto_group.write = head % heads_.group() == 0 ? Write::Replace : Write::Add;
    matmul(stream_, value_gradient, p, Transpose::Yes, d, Transpose::No, onto_group);
    matmul(stream_, dscores_, d, Transpose::No, matrix(v, kv), Transpose::Yes, {});
    softmax_rows_backward(stream_, dscores_, p, scale);
    matmul(stream_, query_gradient, dscores_, Transpose::No, matrix(k, kv), Transpose::No, {});
    matmul(stream_, key_gradient, dscores_, Transpose::Yes, matrix(q, head), Transpose::No,
           onto_group);
  }
}

}  // namespace sextant
