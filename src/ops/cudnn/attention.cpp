// cuDNN is given the fused qkv as it lies in memory, by strides. It wants one stride from head to
// head, which queries in groups do not have: then each row of the batch is a call of its own, in
// which the groups are the batch and share one key-value head each. Such calls alternate between
// two lanes, the caller's CUDA stream and another: while the last blocks of one call run, those of
// the next fill the GPU. A plan is a graph of cuDNN for one shape. Plans are kept with a handle of
// the library, which one thread uses at a time.
#include "ops/attention_library.h"

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "ops/cuda/library_pool.h"
#include "ops/cuda/second_queue.h"

// cudnn_frontend calls the library through this, so that programs start where it is not installed.
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace sextant::cudnn {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr int64_t kMostLanes = 2;
constexpr int64_t kMargin = int64_t{32} << 20;  // of work memory, for what cuDNN does not document

bool has_window(const Heads& heads) {
  return heads.in_window(heads.seq) < heads.seq;
}

bool takes(const Heads& heads, DType dtype) {
  return (dtype == DType::BF16 || dtype == DType::F16) && heads.head_dim % 8 == 0 &&
         heads.seq > 1 && !has_window(heads);
}

// How a batch is cut into calls.
struct Split {
  int64_t calls, batch, heads, kv_heads;  // the last three of one call
  std::array<int64_t, 3> qkv, out;        // strides of batch, heads and tokens
};

void check(bool is_good, const std::string& text) {
  SXT_CHECK(is_good, Failure, "attention: cuDNN: ", text);
}

bool rows_are_apart(const Heads& heads) {
  return heads.group() > 1 && heads.kv_heads > 1;
}

Split split_of(const Heads& heads) {
  const int64_t dim = heads.head_dim, group = heads.group();
  const int64_t row = heads.seq * heads.qkv_width(), out_row = heads.seq * heads.out_width();
  if (rows_are_apart(heads))
    return {heads.batch,
            heads.kv_heads,
            group,
            1,
            {(group + 2) * dim, dim, heads.qkv_width()},
            {group * dim, dim, heads.out_width()}};
  return {1,
          heads.batch,
          heads.heads,
          heads.kv_heads,
          {row, group == 1 ? 3 * dim : dim, heads.qkv_width()},
          {out_row, dim, heads.out_width()}};
}

int64_t lanes_of(const Split& split) {
  return std::min(kMostLanes, split.calls);
}

// The tensors of a graph, by their numbers in it.
enum Id : int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv, kQueries, kKeys };

enum class Pass { Forward, Backward };
using Key = std::array<int64_t, 7>;

struct Plan {
  std::shared_ptr<fe::graph::Graph> graph;  // null when the library refused
  int64_t workspace = 0;
  std::string refusal;
};

// Makes the graph of one call.
class Builder {
 public:
  Builder(const Heads& heads, DType dtype) : heads_(heads), split_(split_of(heads)) {
    graph_->set_io_data_type(dtype == DType::BF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  Plan build(cudnnHandle_t handle, Pass pass) {
    if (pass == Pass::Forward)
      add_forward();
    else
      add_backward();
    Plan plan;
    fe::error_t error = graph_->validate();
    if (error.is_good()) error = graph_->build_operation_graph(handle);
    if (error.is_good()) error = graph_->create_execution_plans({fe::HeurMode_t::A});
    if (error.is_good()) error = graph_->check_support();
    if (error.is_good()) error = graph_->build_plans();
    if (error.is_good()) error = graph_->get_workspace_size(plan.workspace);
    if (error.is_good())
      plan.graph = graph_;
    else
      plan.refusal = error.get_message();
    return plan;
  }

 private:
  using Sizes = std::vector<int64_t>;

  Sizes queries() const { return {split_.batch, split_.heads, heads_.seq, heads_.head_dim}; }
  Sizes keys() const { return {split_.batch, split_.kv_heads, heads_.seq, heads_.head_dim}; }
  static Sizes strides(const std::array<int64_t, 3>& s) { return {s[0], s[1], s[2], 1}; }

  Tensor input(const char* name, Id id, const Sizes& dims, const Sizes& steps) {
    return graph_->tensor(
        fe::graph::Tensor_attributes().set_name(name).set_uid(id).set_dim(dims).set_stride(steps));
  }
  Tensor lengths(const char* name, Id id) {
    return graph_->tensor(fe::graph::Tensor_attributes()
                              .set_name(name)
                              .set_uid(id)
                              .set_dim({split_.batch, 1, 1, 1})
                              .set_stride({1, 1, 1, 1})
                              .set_data_type(fe::DataType_t::INT32));
  }
  static void output(const Tensor& tensor, Id id, const Sizes& dims, const Sizes& steps) {
    tensor->set_output(true).set_uid(id).set_dim(dims).set_stride(steps);
  }
  Sizes lse_dims() const { return {split_.batch, split_.heads, heads_.seq, 1}; }
  Sizes lse_strides() const { return {split_.heads * heads_.seq, heads_.seq, 1, 1}; }

  template <class Options>
  Options options(const char* name) {
    Options out;
    out.set_name(name)
        .set_attn_scale(static_cast<float>(1 / std::sqrt(static_cast<double>(heads_.head_dim))))
        .set_causal_mask(true)
        .set_padding_mask(true)
        .set_seq_len_q(lengths("queries", kQueries))
        .set_seq_len_kv(lengths("keys", kKeys));
    return out;
  }

  void add_forward() {
    const Tensor q = input("q", kQ, queries(), strides(split_.qkv));
    const Tensor k = input("k", kK, keys(), strides(split_.qkv));
    const Tensor v = input("v", kV, keys(), strides(split_.qkv));
    auto how = options<fe::graph::SDPA_attributes>("attention");
    how.set_generate_stats(true);
    const auto [out, lse] = graph_->sdpa(q, k, v, how);
    output(out, kOut, queries(), strides(split_.out));
    output(lse, kLse, lse_dims(), lse_strides());
    lse->set_data_type(fe::DataType_t::FLOAT);
  }

  void add_backward() {
    const Tensor q = input("q", kQ, queries(), strides(split_.qkv));
    const Tensor k = input("k", kK, keys(), strides(split_.qkv));
    const Tensor v = input("v", kV, keys(), strides(split_.qkv));
    const Tensor out = input("out", kOut, queries(), strides(split_.out));
    const Tensor dout = input("dout", kDout, queries(), strides(split_.out));
    const Tensor lse = input("lse", kLse, lse_dims(), lse_strides());
    lse->set_data_type(fe::DataType_t::FLOAT);
    const auto [dq, dk, dv] =
        graph_->sdpa_backward(q, k, v, out, dout, lse,
                              options<fe::graph::SDPA_backward_attributes>("attention_backward"));
    output(dq, kDq, queries(), strides(split_.qkv));
    output(dk, kDk, keys(), strides(split_.qkv));
    output(dv, kDv, keys(), strides(split_.qkv));
  }

  Heads heads_;
  Split split_;
  std::shared_ptr<fe::graph::Graph> graph_ = std::make_shared<fe::graph::Graph>();
};

// Loads the library; "" or why that failed. The frontend looks for CUDA's runtime by its name, so
// the one of this build is loaded by its path before.
std::string load() {
  static std::once_flag once;
  static std::string problem;
  std::call_once(once, [] {
    (void)::dlopen(SXT_CUDART_LIBRARY, RTLD_NOW);
    for (const char* name : {SXT_CUDNN_LIBRARY, "libcudnn.so.9"})
      if (fe::cudnn_dlhandle == nullptr) fe::cudnn_dlhandle = ::dlopen(name, RTLD_NOW);
    if (fe::cudnn_dlhandle == nullptr) problem = concat("cannot be loaded: ", ::dlerror());
  });
  return problem;
}

// A handle of the library on the current GPU, and the plans made so far. Of one thread at a time.
class Library {
 public:
  Library() : problem_(load()) {
    if (!problem_.empty()) return;
    if (const cudnnStatus_t status = fe::detail::create_handle(&handle_);
        status != CUDNN_STATUS_SUCCESS)
      problem_ = concat("cudnnCreate: ", fe::detail::get_error_string(status));
  }
  ~Library() {
    plans_.clear();
    if (handle_ != nullptr) fe::detail::destroy_handle(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void start() {}  // calls say all that they depend on
  const Plan& plan(const Heads& heads, DType dtype, Pass pass) {
    const Key key = {static_cast<int64_t>(pass),
                     static_cast<int64_t>(dtype),
                     rows_are_apart(heads) ? 0 : heads.batch,
                     heads.seq,
                     heads.heads,
                     heads.kv_heads,
                     heads.head_dim};
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    Plan made;
    if (problem_.empty())
      made = Builder(heads, dtype).build(handle_, pass);
    else
      made.refusal = problem_;
    return plans_.emplace(key, std::move(made)).first->second;
  }
  void run(const Plan& plan, cudaStream_t queue, void* workspace,
           std::unordered_map<int64_t, void*>& addresses) {
    const cudnnStatus_t status = fe::detail::set_stream(handle_, queue);
    check(status == CUDNN_STATUS_SUCCESS, fe::detail::get_error_string(status));
    fe::error_t error = plan.graph->execute(handle_, addresses, workspace);
    check(error.is_good(), error.get_message());
  }
  cuda::SecondQueue& second_queue() {
    if (!second_queue_) second_queue_.emplace();
    return *second_queue_;
  }

 private:
  std::string problem_;
  cudnnHandle_t handle_ = nullptr;
  std::optional<cuda::SecondQueue> second_queue_;
  std::map<Key, Plan> plans_;
};

Library& library_of_gpu() {
  int gpu = 0;
  SXT_CHECK(fe::detail::cuda_get_device(&gpu) == cudaSuccess, Failure, "cudaGetDevice failed");
  return cuda::LibraryPool<Library>::of_thread(gpu);
}

// Ops have no Log.
void tell_once(const Call& call, const std::string& why) {
  static std::once_flag once;
  std::call_once(once, [&] {
    std::fprintf(
        stderr,
        "warning: attention with head_dim %lld and seq %lld runs without cuDNN, slower: %s\n",
        static_cast<long long>(call.heads.head_dim), static_cast<long long>(call.heads.seq),
        why.c_str());
  });
}

std::byte* bytes_at(const void* address, int64_t elements) {
  return static_cast<std::byte*>(const_cast<void*>(address)) + 2 * elements;
}

// Runs all calls of a batch; add_addresses(map, row) adds what depends on the pass.
template <class F>
bool run(const Call& call, Pass pass, const void* qkv, F&& add_addresses) {
  const Heads& heads = call.heads;
  if (!takes(heads, call.dtype)) {
    if (call.dtype != DType::F32 && has_window(heads))
      tell_once(call, "sliding windows have kernels of Sextant's own");
    return false;
  }
  if (const std::string problem = load(); !problem.empty()) {
    tell_once(call, problem);
    return false;
  }
  Library& library = library_of_gpu();
  const Plan& plan = library.plan(heads, call.dtype, pass);
  const Split split = split_of(heads);
  const int64_t lanes = lanes_of(split);
  const int64_t workspace = static_cast<int64_t>(call.workspace.size()) / lanes / 256 * 256;
  if (!plan.graph || plan.workspace > workspace) {
    tell_once(call, plan.graph ? concat("it needs ", plan.workspace, " bytes of work memory, ",
                                        workspace, " are there")
                               : plan.refusal);
    return false;
  }
  cuda::SecondQueue* second = lanes > 1 ? &library.second_queue() : nullptr;
  if (second != nullptr) second->branch_off(call.queue);
  const int64_t key = heads.group() * heads.head_dim;
  for (int64_t row = 0; row < split.calls; ++row) {
    const int64_t at = row * heads.seq * heads.qkv_width();
    auto* lengths = const_cast<int32_t*>(call.lengths) + row * split.batch;
    std::unordered_map<int64_t, void*> addresses = {{kQ, bytes_at(qkv, at)},
                                                    {kK, bytes_at(qkv, at + key)},
                                                    {kV, bytes_at(qkv, at + key + heads.head_dim)},
                                                    {kQueries, lengths},
                                                    {kKeys, lengths}};
    add_addresses(addresses, row);
    const int64_t lane = row % lanes;
    library.run(plan, lane == 0 ? call.queue : second->queue(),
                call.workspace.data() + lane * workspace, addresses);
  }
  if (second != nullptr) second->join(call.queue);
  return true;
}

}  // namespace

std::string why_unusable() {
  const std::string problem = load();
  return problem.empty() ? "" : "cuDNN " + problem;
}

int64_t workspace_bytes(const Heads& heads, DType dtype) {
  if (!takes(heads, dtype)) return 0;
  // dq and rowsum(dout * out) in f32; dk and dv of every query head where heads share keys.
  const Split split = split_of(heads);
  const int64_t seq = (heads.seq + 127) / 128 * 128, dim = (heads.head_dim + 15) / 16 * 16;
  const int64_t element = 4 * dim + 4 + (heads.group() > 1 ? 2 * size_of(dtype) * dim : 0);
  return lanes_of(split) * (split.batch * split.heads * seq * element + kMargin);
}

int64_t lengths_per_row(const Heads& heads) {
  return rows_are_apart(heads) ? heads.kv_heads : 1;
}

bool attention(const Call& call, void* out, float* lse, const void* qkv) {
  const Heads& heads = call.heads;
  return run(call, Pass::Forward, qkv, [&](auto& addresses, int64_t row) {
    addresses[kOut] = bytes_at(out, row * heads.seq * heads.out_width());
    addresses[kLse] = lse + row * heads.heads * heads.seq;
  });
}

bool attention_backward(const Call& call, void* dqkv, const void* dout, const void* out,
                        const float* lse, const void* qkv) {
  const Heads& heads = call.heads;
  const int64_t key = heads.group() * heads.head_dim;
  return run(call, Pass::Backward, qkv, [&](auto& addresses, int64_t row) {
    const int64_t at = row * heads.seq * heads.qkv_width();
    addresses[kOut] = bytes_at(out, row * heads.seq * heads.out_width());
    addresses[kDout] = bytes_at(dout, row * heads.seq * heads.out_width());
    addresses[kLse] = const_cast<float*>(lse) + row * heads.heads * heads.seq;
    addresses[kDq] = bytes_at(dqkv, at);
    addresses[kDk] = bytes_at(dqkv, at + key);
    addresses[kDv] = bytes_at(dqkv, at + key + heads.head_dim);
  });
}

}  // namespace sextant::cudnn
