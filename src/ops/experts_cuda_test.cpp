#include <algorithm>
#include <numeric>

#include "ops/grouped_linear.h"
#include "ops/moe_capacity.h"
#include "ops/moe_permute.h"
#include "ops/moe_route.h"
#include "support/cuda_cases.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

using T = std::span<Tensor>;
using Ints = std::vector<int32_t>;

class ExpertsCuda : public CudaTest {};

enum class LogitKind { Different, Equal, NotNumbers };

std::vector<float> logits_of_kind(int64_t count, LogitKind kind) {
  std::vector<float> values(static_cast<size_t>(count));
  const Random random(5, "logits");
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(random.normal(i));
    if (kind != LogitKind::Different) values[i] = std::round(values[i]);  // many equal ones
    if (kind == LogitKind::NotNumbers && i % 5 == 0)
      values[i] = i % 3 == 0 ? std::numeric_limits<float>::quiet_NaN()
                             : -std::numeric_limits<float>::infinity();
  }
  return values;
}

// Everything between the logits and the places of the rows.
struct RoutedOn {
  Ints choice, counts, places;
  std::vector<std::vector<float>> floats;  // gates, gradients
  std::vector<double> losses;
};

// With many equal ones.
std::vector<float> biases_of(int64_t experts) {
  std::vector<float> values(static_cast<size_t>(experts));
  const Random random(8, "bias");
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::round(2 * random.normal(i)) / 8);
  return values;
}

RoutedOn route_on(Workbench& bench, const Shape& shape, int64_t chosen, const Routing& routing,
                  LogitKind kind) {
  Stream& stream = bench.stream();
  const int64_t tokens = shape[0], experts = shape[1];
  const Tensor logits = bench.make<float>(shape, logits_of_kind(tokens * experts, kind));
  Tensor choice = bench.empty<int32_t>({tokens, chosen}), counts = bench.empty<int32_t>({experts});
  Tensor gates = bench.empty<float>({tokens, chosen});
  Tensor places = bench.empty<int32_t>({tokens * chosen});
  const Tensor bias = bench.make<float>({experts}, biases_of(experts));
  moe_route(stream, choice, gates, counts, logits,
            routing.router == Router::Sigmoid ? bias : Tensor(), routing);
  moe_places(stream, places, choice, counts);
  const Tensor dgates = bench.random<float>({tokens, chosen}, "dgates");
  Tensor dlogits = bench.random<float>(shape, "before");
  moe_route_backward(stream, dlogits, dgates, choice, logits, routing);
  RoutedOn out{bench.read<int32_t>(choice),
               bench.read<int32_t>(counts),
               bench.read<int32_t>(places),
               {bench.read<float>(gates), bench.read<float>(dlogits)},
               {}};
  const RouterUnit unit{tokens + 5, chosen};
  Tensor sums = bench.random<double>({2 + experts}, "sums");
  const Tensor scale = bench.make<double>({1}, {1.5});
  moe_losses(stream, sums, logits, counts, counts, unit, routing.router);
  moe_losses_backward(stream, dlogits, logits, counts, unit, {0.3, 0.7}, scale, routing.router);
  // The load of other tokens in place of the counts.
  const RouterUnit of_step{tokens + 5, chosen, 1000};
  const Tensor load = bench.random<float>({experts}, "load", 100);
  moe_losses(stream, sums, logits, load, counts, of_step, routing.router);
  moe_losses_backward(stream, dlogits, logits, load, of_step, {0.2, 0}, scale, routing.router);
  out.floats.push_back(bench.read<float>(dlogits));
  out.losses = bench.read<double>(sums);
  stream.check_data();
  return out;
}

std::vector<double> doubles_of(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// Choices, counts and places have the CPU's numbers, for equal logits and no numbers, too.
TEST_F(ExpertsCuda, RoutingIsThatOfTheCpu) {
  struct Size {
    int64_t tokens, experts, chosen;
  };
  for (const Size& size :
       {Size{1, 1, 1}, Size{1, 8, 2}, Size{0, 4, 2}, Size{7, 8, 8}, Size{5, 33, 3}, Size{200, 8, 1},
        Size{301, 16, 4}, Size{600, 128, 8}, Size{3, 64, 64}, Size{9000, 4, 2}, Size{4, 3000, 5}})
    for (const Routing& routing :
         {Routing{Router::SoftmaxAfter}, Routing{Router::SoftmaxBefore}, Routing{Router::Balanced},
          Routing{Router::Sigmoid, 1, 1, true, 2.5}, Routing{Router::Sigmoid, 1, 1, false, 0.7},
          Routing{Router::Sigmoid, 8, 4, true, 2.5}, Routing{Router::Sigmoid, 2, 1, true, 1},
          Routing{Router::Sigmoid, 1500, 3, true, 1}})
      for (const LogitKind kind : {LogitKind::Different, LogitKind::Equal, LogitKind::NotNumbers}) {
        const int64_t groups = routing.groups;
        if (groups > 1 && (size.experts % groups != 0 || size.experts / groups < 2 ||
                           routing.groups_chosen * (size.experts / groups) < size.chosen))
          continue;
        const std::string name = concat(size.tokens, " tokens, ", size.chosen, " of ", size.experts,
                                        " experts, router ", static_cast<int>(routing.router),
                                        " of ", groups, " groups, logits ", static_cast<int>(kind));
        const Shape shape = {size.tokens, size.experts};
        const RoutedOn cpu = route_on(on(DeviceKind::Cpu), shape, size.chosen, routing, kind);
        const RoutedOn gpu = route_on(on(DeviceKind::Cuda), shape, size.chosen, routing, kind);
        EXPECT_EQ(gpu.choice, cpu.choice) << name;
        EXPECT_EQ(gpu.counts, cpu.counts) << name;
        EXPECT_EQ(gpu.places, cpu.places) << name;
        // The CPU adds up the exponentials one by one, in f32.
        const double noise = 3e-6 + 2e-8 * static_cast<double>(size.experts);
        for (size_t i = 0; i < cpu.floats.size(); ++i)
          cuda_cases::expect_near(doubles_of(gpu.floats[i]), doubles_of(cpu.floats[i]), noise,
                                  concat(name, ", result ", i));
        cuda_cases::expect_near(gpu.losses, cpu.losses, noise, name + ", losses");
        if (kind != LogitKind::Different) continue;
        const RoutedOn again = route_on(on(DeviceKind::Cuda), shape, size.chosen, routing, kind);
        EXPECT_TRUE(gpu.floats == again.floats && gpu.losses == again.losses)
            << name << ": a second run gives other bits";
      }
}

// Of the pairs every third one is dropped, or none.
Ints shuffled_places(int64_t count, bool drops) {
  Ints places(static_cast<size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  const Random random(2, "places");
  for (size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[random.below(i, i)]);
  for (size_t i = 0; drops && i < places.size(); i += 3) places[i] = kDropped;
  return places;
}

// 2056: more than a block of threads reads at once.
TEST_F(ExpertsCuda, PermutationsAreThoseOfTheCpu) {
  for (const int64_t tokens : {1, 37})
    for (const int64_t chosen : {1, 2, 8})
      for (const int64_t hidden : {1, 8, 65, 768, 2056}) {
        const Shape few = {tokens, hidden}, many = {tokens * chosen, hidden};
        const CudaTensor places = whole({tokens * chosen}, shuffled_places(tokens * chosen, false));
        const CudaTensor gates = statistics({tokens, chosen}, Use::In, 0.5, 0.2);
        const CudaTensor dgates = statistics({tokens, chosen}, Use::Out);
        const std::string size =
            concat(" of ", chosen, " x ", tokens, " tokens of ", hidden, " columns");
        expect_like_cpu({"moe_permute" + size, {out(many), in(few), places}, [](Stream& s, T t) {
                           moe_permute(s, t[0], t[1], t[2]);
                         }});
        expect_like_cpu({"moe_permute_backward" + size,
                         {out(few), in(many), places},
                         [](Stream& s, T t) { moe_permute_backward(s, t[0], t[1], t[2]); }});
        expect_like_cpu({"moe_combine" + size,
                         {out(few), in(many), gates, places},
                         [](Stream& s, T t) { moe_combine(s, t[0], t[1], t[2], t[3]); }});
        expect_like_cpu(
            {"moe_combine_backward" + size,
             {out(many), dgates, in(few), in(many), gates, places},
             [](Stream& s, T t) { moe_combine_backward(s, t[0], t[1], t[2], t[3], t[4], t[5]); }});
        expect_like_cpu(
            {"moe_combine_backward in place" + size,
             {changed(many), dgates, in(few), gates, places},
             [](Stream& s, T t) { moe_combine_backward(s, t[0], t[1], t[2], t[0], t[3], t[4]); }});
      }
}

// Rows without a pair keep what they have.
TEST_F(ExpertsCuda, DroppedPairsAreLeftOutAsOnTheCpu) {
  for (const Shape& few : {Shape{1, 8}, Shape{37, 65}, Shape{50, 768}})
    for (const int64_t chosen : {1, 8}) {
      const Shape many = {few[0] * chosen, few[1]};
      const CudaTensor places = whole({many[0]}, shuffled_places(many[0], true));
      const CudaTensor gates = statistics({few[0], chosen}, Use::In, 0.5, 0.2);
      const std::string size = concat(" of ", chosen, " x ", few[0], " tokens, some dropped");
      expect_like_cpu({"moe_permute" + size, {changed(many), in(few), places}, [](Stream& s, T t) {
                         moe_permute(s, t[0], t[1], t[2]);
                       }});
      expect_like_cpu({"moe_permute_backward" + size,
                       {out(few), in(many), places},
                       [](Stream& s, T t) { moe_permute_backward(s, t[0], t[1], t[2]); }});
      expect_like_cpu({"moe_combine" + size,
                       {out(few), in(many), gates, places},
                       [](Stream& s, T t) { moe_combine(s, t[0], t[1], t[2], t[3]); }});
      expect_like_cpu(
          {"moe_combine_backward in place" + size,
           {changed(many), statistics({few[0], chosen}, Use::Out), in(few), gates, places},
           [](Stream& s, T t) { moe_combine_backward(s, t[0], t[1], t[2], t[0], t[3], t[4]); }});
    }
}

// Rows of several sources for some of all experts; more rows than the counts say are left alone.
TEST_F(ExpertsCuda, GroupsOfSourcesAreThoseOfTheCpu) {
  struct Size {
    int64_t sources, all;
    Range experts;
    uint64_t most;  // rows of a source and expert
  };
  for (const Size& size :
       {Size{1, 4, {0, 4}, 3}, Size{2, 4, {2, 4}, 5}, Size{4, 8, {2, 4}, 1},
        Size{8, 64, {8, 16}, 200}, Size{3, 2000, {500, 1900}, 2}, Size{2, 4, {0, 2}, 0}}) {
    Ints counts(static_cast<size_t>(size.sources * size.all));
    const Random random(3, "counts");
    int64_t rows = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      counts[i] = static_cast<int32_t>(random.below(size.most + 1, i));
      const auto expert = static_cast<int64_t>(i) % size.all;
      if (expert >= size.experts.begin && expert < size.experts.end) rows += counts[i];
    }
    const std::string name = concat(" of ", size.sources, " sources, ", rows, " rows");
    const CudaTensor all = whole({size.sources, size.all}, counts);
    const Range experts = size.experts;
    Ints offsets[2];
    for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
      Workbench& bench = on(device);
      Tensor result = bench.empty<int32_t>({experts.size() + 1});
      moe_offsets(bench.stream(), result, bench.make<int32_t>(all.shape, counts), experts);
      offsets[device == DeviceKind::Cuda] = bench.read<int32_t>(result);
    }
    EXPECT_EQ(offsets[1], offsets[0]) << name;
    EXPECT_EQ(offsets[1].back(), rows) << name;
    for (const int64_t hidden : {1, 24})
      for (const int64_t more : {0, 3}) {
        const Shape shape = {rows + more, hidden};
        expect_like_cpu({"moe_group" + name, {changed(shape), in(shape), all}, [=](Stream& s, T t) {
                           moe_group(s, t[0], t[1], t[2], experts);
                         }});
        expect_like_cpu({"moe_ungroup" + name,
                         {changed(shape), in(shape), all},
                         [=](Stream& s, T t) { moe_ungroup(s, t[0], t[1], t[2], experts); }});
      }
  }
}

// Experts without rows, all rows on one, rows that belong to none, sizes that are no multiples of a
// tile, more experts than a warp has threads.
TEST_F(ExpertsCuda, GroupedProductsAreThoseOfTheCpu) {
  struct Size {
    Ints offsets;
    int64_t rows, out, in;
  };
  std::vector<Size> sizes = {{{0, 1}, 1, 1, 1},
                             {{0, 2, 2, 5}, 5, 3, 4},
                             {{0, 40, 40, 97}, 97, 33, 70},
                             {{0, 0, 97, 97}, 97, 40, 72},
                             {{0, 20, 60, 80}, 97, 24, 136},
                             {{0, 130, 131, 301}, 301, 136, 200},
                             {{0, 128, 256, 256}, 256, 128, 256},
                             {{0, 0, 0, 700}, 700, 264, 512},
                             {{0, 0, 0}, 0, 16, 8}};
  Size many{{0}, 0, 16, 24};
  const Random random(4, "rows");
  for (uint64_t e = 0; e < 70; ++e)
    many.offsets.push_back(many.offsets.back() +
                           static_cast<int32_t>(e % 3 == 0 ? 0 : random.below(200, e)));
  many.rows = many.offsets.back() + 2;
  sizes.push_back(many);
  for (const Size& size : sizes) {
    const auto experts = static_cast<int64_t>(size.offsets.size()) - 1;
    const Shape x = {size.rows, size.in}, y = {size.rows, size.out};
    const Shape weights = {experts * size.out, size.in};
    const CudaTensor offsets = whole({experts + 1}, size.offsets);
    const auto expect = [&](const std::string& op, const std::vector<CudaTensor>& tensors,
                            const std::function<void(Stream&, T)>& call) {
      CudaCase test{concat(op, " of ", size.rows, " rows, ", experts, " experts of ", size.out,
                           " x ", size.in),
                    tensors, call};
      test.noise = 1e-5;
      expect_like_cpu(test);
    };
    expect("grouped_linear", {changed(y), in(x), in(weights), offsets},
           [](Stream& s, T t) { grouped_linear(s, t[0], t[1], t[2], t[3]); });
    expect("grouped_linear_backward_input", {changed(x), in(y), in(weights), offsets},
           [](Stream& s, T t) { grouped_linear_backward_input(s, t[0], t[1], t[2], t[3]); });
    for (const Write write : {Write::Replace, Write::Add})
      expect(
          write == Write::Add ? "grouped_linear_backward_weight added"
                              : "grouped_linear_backward_weight",
          {gradient(weights, write == Write::Add ? Use::InOut : Use::Out), in(y), in(x), offsets},
          [=](Stream& s, T t) {
            grouped_linear_backward_weight(s, t[0], t[1], t[2], t[3], write);
          });
  }
}

// What expert parallelism relies on: the result of a row does not depend on the rows beside it.
TEST_F(ExpertsCuda, ARowHasTheSameBitsInAnyTile) {
  Workbench bench(1, DeviceKind::Cuda);
  const int64_t rows = 300, in = 200, out = 72;
  for (const DType type : {DType::F32, DType::BF16, DType::F16}) {
    const auto make = [&](const Shape& shape, const char* name) {
      std::vector<float> values(static_cast<size_t>(shape.elements()));
      const Random random(6, name);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(random.normal(i));
      Tensor tensor = bench.arena().allocate(Category::Activations, type, shape);
      copy_floats_from_host(bench.stream(), tensor, values);
      return tensor;
    };
    const Tensor x = make({rows, in}, "x"), weight = make({2 * out, in}, "weight");
    const auto last = [&](int64_t first) {  // rows first ... of the second expert, of `rows`
      Tensor y = make({rows - first, out}, "y");
      grouped_linear(bench.stream(), y, x.slice(first, rows), weight,
                     bench.make<int32_t>({3}, {0, 9, static_cast<int32_t>(rows - first)}));
      return bench.bytes(y.slice(y.dim(0) - 20, y.dim(0)));
    };
    const std::vector<std::byte> wanted = last(0);
    for (const int64_t first : {1, 77, 128, 271})
      EXPECT_TRUE(last(first) == wanted) << name_of(type) << " from row " << first;
  }
}

// Where tokens were dropped, the memory behind the rows of experts holds anything.
TEST_F(ExpertsCuda, RowsOfNoExpertMayHoldAnything) {
  Workbench& bench = on(DeviceKind::Cuda);
  const int64_t rows = 150, in = 40, out = 24;
  const Tensor offsets = bench.make<int32_t>({4}, {0, 37, 37, 101});
  const auto gradients = [&](float behind) {
    const auto make = [&](int64_t width, const char* name) {
      std::vector<float> values = bench.read<float>(bench.random<float>({rows, width}, name));
      std::fill(values.begin() + 101 * width, values.end(), behind);
      Tensor tensor = bench.empty<bf16>({rows, width});
      copy_floats_from_host(bench.stream(), tensor, values);
      return tensor;
    };
    Tensor dweight = bench.empty<bf16>({3 * out, in}), dx = bench.empty<bf16>({rows, in});
    const Tensor dy = make(out, "dy"), x = make(in, "x");
    grouped_linear_backward_weight(bench.stream(), dweight, dy, x, offsets, Write::Replace);
    grouped_linear_backward_input(bench.stream(), dx, dy,
                                  bench.random<bf16>({3 * out, in}, "weight"), offsets);
    return std::pair{bench.bytes(dweight), bench.bytes(dx.slice(0, 101))};
  };
  EXPECT_TRUE(gradients(0) == gradients(std::numeric_limits<float>::quiet_NaN()));
}

TEST_F(ExpertsCuda, BadWholeNumbersAreReportedAsOnTheCpu) {
  for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
    Workbench bench(1, device);
    Stream& stream = bench.stream();
    const Tensor choice = bench.make<int32_t>({3, 2}, {0, 1, 1, 7, -1, 0});
    Tensor places = bench.empty<int32_t>({6});
    moe_places(stream, places, choice, bench.make<int32_t>({3}, {2, 2, 0}));
    EXPECT_ERROR(stream.check_data(), Internal, "moe_places: expert 7 of pair 3, there are 3");
    EXPECT_EQ(bench.read<int32_t>(places), (Ints{0, 2, 3, 0, kDropped, 1}));
    const Tensor logits = bench.random<float>({3, 3}, "logits");
    Tensor dlogits = bench.empty<float>({3, 3});
    moe_route_backward(stream, dlogits, bench.random<float>({3, 2}, "dgates"), choice, logits,
                       {Router::SoftmaxAfter});
    EXPECT_ERROR(stream.check_data(), Internal,
                 "moe_route_backward: expert 7 of token 1, there are 3");
    Tensor x = bench.random<float>({2, 8}, "x"), rows = bench.random<float>({4, 8}, "rows");
    moe_permute(stream, rows, x, bench.make<int32_t>({4}, {0, 9, 2, -1}));
    EXPECT_ERROR(stream.check_data(), Internal, "moe_permute: place 9 of pair 1, there are 4");
    Tensor y = bench.empty<float>({4, 2});
    grouped_linear(stream, y, rows, bench.random<float>({4, 8}, "weight"),
                   bench.make<int32_t>({3}, {0, 3, 9}));
    EXPECT_ERROR(stream.check_data(), Internal,
                 "grouped_linear: rows 3 to 9 of expert 1, there are 4");
  }
}

}  // namespace
}  // namespace sextant
