// Calls of the ops of experts, for work_test.
#include "ops/grouped_linear.h"
#include "ops/grouped_quantize.h"
#include "ops/latent_heads.h"
#include "ops/moe_capacity.h"
#include "ops/moe_nodes.h"
#include "ops/moe_permute.h"
#include "ops/moe_route.h"
#include "ops/router_bias.h"
#include "ops/work_cases.h"

namespace sextant {
namespace {

using T = std::span<Tensor>;

// Integers that index others: of their bytes only valid values can be tried, so few change results.
WorkCase grouped_weight_case(const char* name, Write write) {
  return {name,
          {f32_case({4, 3}), f32_case({3, 2}), f32_case({3, 3}), i32_case({3}, {0, 1, 3})},
          [=](Stream& s, T t) { grouped_linear_backward_weight(s, t[0], t[1], t[2], t[3], write); },
          Reads::AtMost};
}

}  // namespace

std::vector<WorkCase> expert_cases() {
  const CaseTensor choice = i32_case({3, 2}, {1, 0, 2, 1, 0, 2}), counts = i32_case({3}, {2, 2, 2});
  const CaseTensor gates = f32_case({3, 2}), logits = f32_case({3, 3}), rows = f32_case({6, 2});
  const CaseTensor places = i32_case({6}, {2, 0, 4, 3, 1, 5}), offsets = i32_case({3}, {0, 1, 3});
  const CaseTensor matrix = i32_case({2, 3}, {1, 2, 0, 1, 1, 1}), x = f32_case({3, 2});
  const CaseTensor sums{DType::F64, {5}}, scale{DType::F64, {1}, 0.1, 2};
  constexpr Range kSome{1, 3};
  return {
      {"moe_route",
       {choice, gates, counts, logits},
       [](Stream& s, T t) { moe_route(s, t[0], t[1], t[2], t[3], {}, {Router::SoftmaxBefore}); }},
      {"moe_route by sigmoid",
       {choice, gates, counts, logits, f32_case({3})},
       [](Stream& s, T t) { moe_route(s, t[0], t[1], t[2], t[3], t[4], {Router::Sigmoid}); }},
      {"router_load_error",
       {f32_case({3}), i32_case({3}, {5, 0, 1})},
       [](Stream& s, T t) { router_load_error(s, t[0], t[1], Write::Add); }},
      {"router_bias_update",
       {f32_case({3}), f32_case({3}), CaseTensor{DType::F64, {kUpdateScalars}, 0.1, 2}},
       [](Stream& s, T t) {
         const RouterBiasPart part{t[0], t[1]};
         router_bias_update(s, {&part, 1}, t[2], 0.1);
       },
       Reads::AtMost},
      {"router_load_update",
       {f32_case({3}), f32_case({3}), CaseTensor{DType::F64, {kUpdateScalars}, 0.1, 2}},
       [](Stream& s, T t) {
         const RouterBiasPart part{t[0], t[1]};
         router_load_update(s, {&part, 1}, t[2]);
       },
       Reads::AtMost},
      {"moe_limit",
       {choice, choice},
       [](Stream& s, T t) { moe_limit(s, t[0], t[1], 1, 3); },
       Reads::AtMost},
      {"moe_count",
       {counts, choice},
       [](Stream& s, T t) { moe_count(s, t[0], t[1]); },
       Reads::AtMost},
      {"moe_count_dropped",
       {CaseTensor{DType::F64, {1}}, i32_case({6}, {2, 0, kDropped, 3, kDropped, 5})},
       [](Stream& s, T t) { moe_count_dropped(s, t[0], t[1]); },
       Reads::AtMost},
      {"moe_nodes",
       {i32_case({3, 3}, {0, 1, 2, 0, 1, 2, 0, 1, 2}), choice},
       [](Stream& s, T t) { moe_nodes(s, t[0], t[1], 3); },
       Reads::AtMost},
      {"moe_local_choice",
       {choice, choice},
       [=](Stream& s, T t) { moe_local_choice(s, t[0], t[1], kSome); },
       Reads::AtMost},
      {"moe_copy_rows",
       {rows, x, places, gates},
       [](Stream& s, T t) { moe_copy_rows(s, t[0], t[1], t[2], t[3]); },
       Reads::AtMost},
      {"moe_node_counts",
       {i32_case({2, 2}, {1, 2, 0, 1}), matrix},
       [=](Stream& s, T t) { moe_node_counts(s, t[0], t[1], kSome); },
       Reads::AtMost},
      {"join_latent_heads",
       {f32_case({2, 18}), f32_case({2, 6}), f32_case({2, 4}), f32_case({2, 2}),
        i32_case({2}, {0, 1}), f32_case({2, 1}), f32_case({2, 1})},
       [](Stream& s, T t) {
         join_latent_heads(s, t[0], t[1], t[2], t[3], t[4], t[5], t[6], {2, 2, 1, 2, 1});
       },
       Reads::AtMost},
      {"join_latent_heads_backward",
       {f32_case({2, 6}), f32_case({2, 4}), f32_case({2, 2}), f32_case({2, 18}),
        i32_case({2}, {0, 1}), f32_case({2, 1}), f32_case({2, 1})},
       [](Stream& s, T t) {
         join_latent_heads_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], t[6], {2, 2, 1, 2, 1});
       },
       Reads::AtMost},
      {"take_values",
       {f32_case({2, 2}), f32_case({2, 6})},
       [](Stream& s, T t) {
         take_values(s, t[0], t[1], {2, 2, 1, 2, 1});
       }},
      {"fill_values",
       {f32_case({2, 6}), f32_case({2, 2})},
       [](Stream& s, T t) {
         fill_values(s, t[0], t[1], {2, 2, 1, 2, 1});
       }},
      {"moe_route_backward",
       {logits, gates, choice, logits},
       [](Stream& s, T t) {
         moe_route_backward(s, t[0], t[1], t[2], t[3], {Router::SoftmaxBefore});
       },
       Reads::AtMost},
      {"moe_route_backward by sigmoid",
       {logits, gates, choice, logits},
       [](Stream& s, T t) { moe_route_backward(s, t[0], t[1], t[2], t[3], {Router::Sigmoid}); },
       Reads::AtMost},
      {"moe_losses",
       {sums, logits, counts, counts},
       [](Stream& s, T t) {
         moe_losses(s, t[0], t[1], t[2], t[3], {3, 2}, Router::SoftmaxAfter);
       }},
      {"moe_losses_backward",
       {logits, logits, counts, scale},
       [](Stream& s, T t) {
         moe_losses_backward(s, t[0], t[1], t[2], {3, 2}, {1, 1}, t[3], Router::SoftmaxAfter);
       },
       Reads::AtMost},
      {"moe_places",
       {places, choice, counts},
       [](Stream& s, T t) { moe_places(s, t[0], t[1], t[2]); },
       Reads::AtMost},
      {"moe_permute",
       {rows, x, places},
       [](Stream& s, T t) { moe_permute(s, t[0], t[1], t[2]); },
       Reads::AtMost},
      {"moe_permute_backward",
       {x, rows, places},
       [](Stream& s, T t) { moe_permute_backward(s, t[0], t[1], t[2]); },
       Reads::AtMost},
      {"moe_combine",
       {x, rows, gates, places},
       [](Stream& s, T t) { moe_combine(s, t[0], t[1], t[2], t[3]); },
       Reads::AtMost},
      {"moe_combine_backward",
       {rows, gates, x, rows, gates, places},
       [](Stream& s, T t) { moe_combine_backward(s, t[0], t[1], t[2], t[3], t[4], t[5]); },
       Reads::AtMost},
      {"moe_offsets",
       {offsets, matrix},
       [=](Stream& s, T t) { moe_offsets(s, t[0], t[1], kSome); },
       Reads::AtMost},
      {"moe_group",
       {f32_case({4, 2}), f32_case({4, 2}), matrix},
       [=](Stream& s, T t) { moe_group(s, t[0], t[1], t[2], kSome); },
       Reads::AtMost},
      {"moe_ungroup",
       {f32_case({4, 2}), f32_case({4, 2}), matrix},
       [=](Stream& s, T t) { moe_ungroup(s, t[0], t[1], t[2], kSome); },
       Reads::AtMost},
      {"grouped_linear",
       {f32_case({3, 2}), f32_case({3, 3}), f32_case({4, 3}), offsets},
       [](Stream& s, T t) { grouped_linear(s, t[0], t[1], t[2], t[3]); },
       Reads::AtMost},
      {"grouped_linear_backward_input",
       {f32_case({3, 3}), f32_case({3, 2}), f32_case({4, 3}), offsets},
       [](Stream& s, T t) { grouped_linear_backward_input(s, t[0], t[1], t[2], t[3]); },
       Reads::AtMost},
      {"grouped_amax",
       {f32_case({2, 1}), f32_case({3, 3}), offsets},
       [](Stream& s, T t) { grouped_amax(s, t[0], t[1], t[2], {}); },
       Reads::AtMost,
       RunsOn::Cpu},
      {"grouped_quantize",
       {{DType::F8E4M3, {3, 3}}, f32_case({3, 3}), f32_case({2, 1}), offsets},
       [](Stream& s, T t) { grouped_quantize(s, t[0], t[1], t[2], t[3], {}); },
       Reads::AtMost,
       RunsOn::Cpu},
      grouped_weight_case("grouped_linear_backward_weight", Write::Replace),
      grouped_weight_case("grouped_linear_backward_weight added", Write::Add),
  };
}

}  // namespace sextant
