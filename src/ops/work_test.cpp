// What the ops write into a trace, held against what they do: each op is run again and again with
// other bytes in its tensors.
#include "tensor/work.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "ops/add.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/layernorm.h"
#include "ops/matmul.h"
#include "ops/rmsnorm.h"
#include "ops/rope.h"
#include "ops/split_heads.h"
#include "ops/sum.h"
#include "ops/work_cases.h"
#include "support/built.h"
#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

// The tensors of a case, with their values.
std::vector<Tensor> make_tensors(const WorkCase& c, Workbench& bench) {
  std::vector<Tensor> tensors;
  for (const CaseTensor& t : c.tensors) {
    const std::string name = std::to_string(tensors.size());
    if (t.dtype == DType::F32)
      tensors.push_back(bench.random<float>(t.shape, name, t.scale, t.offset));
    else if (t.dtype == DType::F64)
      tensors.push_back(bench.random<double>(t.shape, name, t.scale, t.offset));
    else if (t.dtype == DType::I32)
      tensors.push_back(bench.make<int32_t>(t.shape, t.whole));
    else  // only written
      tensors.push_back(bench.arena().allocate(Category::Activations, t.dtype, t.shape));
    if (is_fp8(t.dtype))
      copy_floats_from_host(bench.stream(), tensors.back(),
                            bench.read<float>(bench.random<float>(t.shape, name)));
  }
  return tensors;
}

// A trace as text, a line for each op.
std::vector<std::string> lines_of(const Trace& trace) {
  std::vector<std::string> lines;
  for (const TraceOp& op : trace.ops) {
    std::ostringstream line;
    line << op.name << " flops=" << op.flops << " read=" << op.read << " written=" << op.written;
    for (const TraceOperand& o : trace.operands_of(op))
      line << (o.is_written ? " w" : " r") << o.begin << "-" << o.end << " " << name_of(o.dtype)
           << Shape(std::span(o.shape).first(o.dims));
    lines.push_back(line.str());
  }
  return lines;
}

Trace trace_of(const WorkCase& c, DeviceKind device) {
  Workbench bench(2, device);
  TraceRecorder recorder;
  bench.arena().set_recorder(&recorder);
  {
    std::vector<Tensor> tensors = make_tensors(c, bench);
    c.call(bench.stream(), tensors);
  }
  bench.arena().set_recorder(nullptr);
  return recorder.take();
}

TEST(Work, APhantomDeviceRecordsWhatTheCpuDoes) {
  for (const WorkCase& c : work_cases()) {
    SCOPED_TRACE(c.name);
    const Trace cpu = trace_of(c, DeviceKind::Cpu), phantom = trace_of(c, DeviceKind::Phantom);
    EXPECT_EQ(lines_of(cpu), lines_of(phantom));
    EXPECT_EQ(cpu.memory, phantom.memory);
  }
}

TEST(Work, EveryImplementationIsRecordedByACase) {
  std::set<std::string> recorded;
  for (const WorkCase& c : work_cases())
    for (const TraceOp& op : trace_of(c, DeviceKind::Phantom).ops) recorded.insert(op.name);
  const std::regex backend(R"(SXT_BACKENDS\((\w+)\))");
  const auto folder = std::filesystem::path(source_dir()) / "src/ops";
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    for (std::sregex_iterator match(text.begin(), text.end(), backend), end; match != end;
         ++match) {
      std::string name = (*match)[1];
      if (name.ends_with("_in"))
        name.resize(name.size() - 3);  // in memory that the caller provides
      EXPECT_TRUE(recorded.contains(name)) << name << " has no case";
    }
    found += std::regex_search(text, backend);
  }
  EXPECT_GT(found, 15);
}

using State = std::vector<std::vector<std::byte>>;  // the bytes of each tensor

// An op on the CPU that can be run from any state of its tensors.
class Experiment {
 public:
  explicit Experiment(const WorkCase& c) : tensors_(make_tensors(c, bench_)), call_(c.call) {
    for (const Tensor& tensor : tensors()) initial_.push_back(bench_.bytes(tensor));
    TraceRecorder recorder;
    bench_.arena().set_recorder(&recorder);
    call_(bench_.stream(), tensors_);
    bench_.arena().set_recorder(nullptr);
    trace_ = recorder.take();
    is_read_.resize(tensors().size());
    is_written_.resize(tensors().size());
    for (const TraceOperand& operand : trace_.operand_list)
      (operand.is_written ? is_written_ : is_read_)[index_of(operand)] = true;
  }

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Trace& trace() const { return trace_; }
  const State& initial() const { return initial_; }
  bool is_read(size_t i) const { return is_read_[i]; }
  bool is_written(size_t i) const { return is_written_[i]; }
  size_t size_at(size_t i) const { return static_cast<size_t>(size_of(tensors()[i].dtype())); }

  // The first values, but `fill` in every byte of what is not listed as read.
  State state_with(std::byte fill) const {
    State state = initial_;
    for (size_t i = 0; i < state.size(); ++i)
      if (!is_read(i)) std::ranges::fill(state[i], fill);
    return state;
  }

  // Nothing where the op refuses what it found.
  std::optional<State> run(const State& from) {
    for (size_t i = 0; i < from.size(); ++i) {
      Tensor tensor = tensors()[i];
      copy_bytes_from_host(bench_.stream(), tensor, from[i]);
    }
    try {
      call_(bench_.stream(), tensors_);
      bench_.stream().check_data();
    } catch (const Error&) {
      return std::nullopt;
    }
    State after;
    for (const Tensor& tensor : tensors()) after.push_back(bench_.bytes(tensor));
    return after;
  }

 private:
  size_t index_of(const TraceOperand& operand) {
    for (size_t i = 0; i < tensors().size(); ++i)
      if (bench_.stream().operand_of(tensors()[i], operand.is_written) == operand) return i;
    ADD_FAILURE() << "an operand that is no tensor of the case";
    return 0;
  }

  Workbench bench_;
  std::vector<Tensor> tensors_;
  std::function<void(Stream&, std::span<Tensor>)> call_;
  State initial_;
  Trace trace_;
  std::vector<bool> is_read_, is_written_;
};

std::span<const std::byte> element(const State& state, size_t tensor, size_t at, size_t size) {
  return std::span(state[tensor]).subspan(at, size);
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::ranges::equal(a, b);
}

bool is_all(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [&](std::byte b) { return b == value; });
}

// Huge, almost zero, NaN; as integers out of any range.
constexpr std::byte kFills[] = {std::byte{0x7F}, std::byte{0x80}, std::byte{0xFF}};

// Bytes of a tensor that are written whatever lay there; what is not written must have stayed, what
// is written must not depend on the fill.
int64_t written_bytes(const Experiment& x, size_t i, const std::vector<State>& after) {
  int64_t count = 0;
  const size_t size = x.size_at(i);
  for (size_t at = 0; at < x.initial()[i].size(); at += size) {
    const auto first = element(after[0], i, at, size);
    bool is_equal = true, is_left = true;
    for (size_t f = 0; f < std::size(kFills); ++f) {
      const auto other = element(after[f], i, at, size);
      is_equal = is_equal && same(first, other);
      is_left = is_left && (x.is_read(i) ? same(other, element(x.initial(), i, at, size))
                                         : is_all(other, kFills[f]));
    }
    EXPECT_TRUE(is_equal || is_left)
        << "tensor " << i << " byte " << at << " depends on what is not listed as read";
    EXPECT_TRUE(is_left || x.is_written(i))
        << "tensor " << i << " byte " << at << " is written and not listed so";
    if (!is_left) count += static_cast<int64_t>(size);
  }
  return count;
}

TEST(Work, WhatIsWrittenIsListedAndDependsOnNothingButWhatIsListedAsRead) {
  for (const WorkCase& c : work_cases()) {
    SCOPED_TRACE(c.name);
    Experiment x(c);
    std::vector<State> after;
    for (const std::byte fill : kFills) {
      const std::optional<State> state = x.run(x.state_with(fill));
      ASSERT_TRUE(state) << "refuses values that are not listed as read";
      after.push_back(*state);
    }
    int64_t written = 0, listed = 0;
    for (size_t i = 0; i < x.tensors().size(); ++i) written += written_bytes(x, i, after);
    for (const TraceOp& op : x.trace().ops) listed += op.written;
    EXPECT_EQ(listed, written);
  }
}

// Whether any byte comes out otherwise when one element is changed; that element itself may keep
// the change.
bool matters(Experiment& x, const State& before, const State& after, size_t tensor, size_t at) {
  const size_t size = x.size_at(tensor);
  for (const std::byte change : {std::byte{0x41}, std::byte{0xC1}}) {  // as f32: 12, -24
    State changed = before;
    std::fill_n(changed[tensor].begin() + static_cast<std::ptrdiff_t>(at), size, change);
    std::optional<State> got = x.run(changed);
    if (!got) return true;
    if (is_all(element(*got, tensor, at, size), change))
      std::ranges::copy(element(after, tensor, at, size),
                        (*got)[tensor].begin() + static_cast<std::ptrdiff_t>(at));
    if (*got != after) return true;
  }
  return false;
}

TEST(Work, WhatIsListedAsReadDecidesAboutTheResult) {
  for (const WorkCase& c : work_cases()) {
    SCOPED_TRACE(c.name);
    Experiment x(c);
    const State before = x.state_with(kFills[0]);
    const std::optional<State> after = x.run(before);
    ASSERT_TRUE(after);
    int64_t read = 0, listed = 0;
    for (size_t i = 0; i < x.tensors().size(); ++i) {
      if (!x.is_read(i)) continue;
      int64_t bytes = 0;
      for (size_t at = 0; at < before[i].size(); at += x.size_at(i))
        if (matters(x, before, *after, i, at)) bytes += static_cast<int64_t>(x.size_at(i));
      EXPECT_GT(bytes, 0) << "tensor " << i << " is listed as read for nothing";
      read += bytes;
    }
    for (const TraceOp& op : x.trace().ops) listed += op.read;
    if (c.reads == Reads::AtMost || x.trace().ops.size() > 1)
      EXPECT_LE(read, listed);
    else
      EXPECT_EQ(read, listed);
  }
}

TraceOp last_op(const std::string& name) {
  TraceOp last;
  for (const WorkCase& c : work_cases())
    if (c.name == name) last = trace_of(c, DeviceKind::Phantom).ops.back();
  return last;
}

double flops_of(const std::string& name) {
  double sum = 0;
  for (const WorkCase& c : work_cases())
    if (c.name == name)
      for (const TraceOp& op : trace_of(c, DeviceKind::Phantom).ops) sum += op.flops;
  return sum;
}

TEST(Work, CountsReadsThatCannotBeSeenFromOutside) {
  // 3 rows of 5 and of 4; added to [5, 4] and to the sums of 5 columns.
  EXPECT_EQ(last_op("linear_backward_weight").read, (15 + 12) * 4);
  EXPECT_EQ(last_op("linear_backward_weight added").read, (15 + 12 + 20 + 5) * 4);
  // 2 new tokens of 32, and the 3 before and these of keys and values, 2 heads of 4.
  EXPECT_EQ(last_op("attention_cached of some").read, (2 * 32 + 2 * 5 * 2 * 4) * 4);
}

TEST(Work, CountsTheFlopsOfProducts) {
  // m = 3, n = 5, k = 4: 120, and 15 for each step on an element.
  EXPECT_EQ(flops_of("matmul"), 120);
  EXPECT_EQ(flops_of("matmul chained"), 120);
  EXPECT_EQ(flops_of("matmul added"), 135);
  // Bias, activation and Add.
  EXPECT_EQ(flops_of("linear"), 120 + 15 * (1 + 10 + 1));
  // m = 3, n = 4, k = 5; a derivative and the product with it.
  EXPECT_EQ(flops_of("linear_backward_input"), 120 + 12 * (10 + 1));
  // [5, 4] over 3 rows, and the sums of 5 columns.
  EXPECT_EQ(flops_of("linear_backward_weight"), 120 + 15);
}

TEST(Work, CountsTheFlopsOfAttentionByItsPairs) {
  // 2 rows, 4 heads of 4; 3 tokens have 6 causal pairs.
  EXPECT_EQ(flops_of("attention"), 4 * 6 * 4 * 4 * 2);
  EXPECT_EQ(flops_of("attention in a window"), 4 * 5 * 4 * 4 * 2);  // 1, 2 and 2 keys
  EXPECT_EQ(flops_of("attention_cached in a window"), 4 * (2 + 2) * 4 * 4);
  EXPECT_EQ(flops_of("attention_backward"), 10 * 6 * 4 * 4 * 2);
  // 3 queries and 5 keys, as if all met.
  EXPECT_EQ(flops_of("attention_ranges"), 4 * 15 * 4 * 4 * 2);
  EXPECT_EQ(flops_of("attention_ranges_backward"), 10 * 15 * 4 * 4 * 2);
  // One row, 3 tokens before: the new ones see 4, or 4 and 5.
  EXPECT_EQ(flops_of("attention_cached of one"), 4 * 4 * 4 * 4);
  EXPECT_EQ(flops_of("attention_cached of some"), 4 * 9 * 4 * 4);
}

// The CPU's scratch is the phantom's too. Sizes that no real memory has to be found for.
TEST(Work, APhantomDeviceRefusesWhatDoesNotFitInTheScratch) {
  Workbench bench(1, DeviceKind::Phantom, int64_t{1} << 40);
  Stream& s = bench.stream();
  Tensor out = bench.empty<double>({1});
  const int64_t most = (int64_t{1} << 21) * 16384;
  sum(s, out, bench.empty<float>({most}), Write::Replace);
  EXPECT_ERROR(sum(s, out, bench.empty<float>({most + 1}), Write::Replace), Usage,
               "has too many elements for one sum");
  const Tensor many[] = {bench.empty<float>({most + 1})};
  EXPECT_ERROR(sum_of_squares(s, out, many), Usage, "has too many elements for one sum");
  const int64_t rows = (16 << 20) / 8, wide = (2 << 20) / 4 + 1;
  Tensor table = bench.empty<float>({3, 2}), broad = bench.empty<float>({3, wide});
  EXPECT_ERROR(embedding_backward(s, table, bench.empty<float>({rows + 1, 2}),
                                  bench.empty<int32_t>({rows + 1}), Write::Replace),
               Usage, "2097153 rows at once, must be at most 2097152");
  EXPECT_ERROR(embedding_backward(s, broad, bench.empty<float>({1, wide}),
                                  bench.empty<int32_t>({1}), Write::Replace),
               Usage, "rows of 524289 elements do not fit in the scratch");
  const int64_t hidden = (16 << 20) / 4 + 1;
  Tensor x = bench.empty<float>({2, hidden}), weight = bench.empty<float>({hidden});
  Tensor bias = bench.empty<float>({hidden});
  const Tensor row = bench.empty<float>({2}), none;
  EXPECT_ERROR(rmsnorm_backward(s, x, weight, x, x, row, weight, none, Write::Replace), Usage,
               "rmsnorm_backward: rows of 4194305 elements are too wide to be summed");
  EXPECT_ERROR(layernorm_backward(s, x, weight, bias, x, x, row, row, weight, none, Write::Replace),
               Usage, "layernorm_backward: rows of 8388610 elements are too wide to be summed");
}

TEST(Work, APhantomDeviceRefusesWhatTheCpuRefusesAndRecordsNothingOfIt) {
  const Heads heads{2, 3, 4, 2, 4};
  for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Phantom}) {
    Workbench bench(1, device);
    Stream& s = bench.stream();
    Tensor a = bench.random<float>({3, 4}, "a"), b = bench.random<float>({4, 3}, "b");
    Tensor c = bench.random<float>({4, 4}, "c"), wide = bench.random<double>({3, 4}, "d");
    Tensor qkv = bench.random<float>({6, 32}, "e"), lse = bench.random<float>({2, 4, 3}, "f");
    Tensor starts = bench.make<int32_t>({2, 3}, std::vector<int32_t>(6));
    TraceRecorder recorder;
    bench.arena().set_recorder(&recorder);
    EXPECT_ERROR(add(s, a, a, b), Usage, "add: b is f32 [4, 3], must be f32 [3, 4]");
    EXPECT_ERROR(add(s, a, a, wide), Usage, "add: b is f64 [3, 4], must be f32 [3, 4]");
    EXPECT_ERROR(matmul(s, c, a, Transpose::No, b, Transpose::No, {}), Usage, "matmul: c is");
    EXPECT_ERROR(matmul(s, a, a, Transpose::No, c, Transpose::No, {}), Usage,
                 "matmul: c is also an operand");
    EXPECT_ERROR(attention(s, a, lse, qkv, starts, heads), Usage, "attention: out is");
    EXPECT_ERROR(attention_backward(s, qkv, a, a, lse, qkv, starts, heads), Usage,
                 "attention_backward: out is");
    EXPECT_ERROR(rope(s, qkv, starts, a, a, heads, RopeDirection::Forward), Usage,
                 "rope: positions is");
    EXPECT_ERROR(split_heads(s, a, c), Usage, "split_heads: parts is [3, 4], must have 3 dims");
    EXPECT_ERROR(sum(s, wide, a, Write::Chain), Usage, "sum: out is");
    EXPECT_TRUE(recorder.trace().ops.empty());
    bench.arena().set_recorder(nullptr);
  }
}

}  // namespace
}  // namespace sextant
