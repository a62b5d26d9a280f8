// Experts in runs that verify compares: see ChosenExperts.
#include <algorithm>
#include <cmath>
#include <vector>

#include "model/chosen_experts.h"
#include "model/experts.h"
#include "ops/moe_capacity.h"
#include "tensor/copy.h"
#include "tensor/unrecorded.h"

namespace sextant {
namespace {

// The gates of a token with these experts, as moe_route defines them.
std::vector<float> gates_of(std::span<const float> logits, std::span<const int32_t> experts,
                            const Routing& routing) {
  const bool is_sigmoid = routing.router == Router::Sigmoid;
  double largest = logits[0], all = 0, chosen = 0;
  for (const float logit : logits) largest = std::max(largest, static_cast<double>(logit));
  const auto score = [&](float logit) {
    return is_sigmoid ? 1 / (1 + std::exp(-static_cast<double>(logit)))
                      : std::exp(static_cast<double>(logit) - largest);
  };
  for (const float logit : logits) all += score(logit);
  for (const int32_t expert : experts) chosen += score(logits[static_cast<size_t>(expert)]);
  double factor = 1 / (routing.router == Router::SoftmaxBefore ? all : chosen);
  if (is_sigmoid) factor = routing.normalize ? routing.scale * factor : routing.scale;
  std::vector<float> gates;
  for (const int32_t expert : experts)
    gates.push_back(static_cast<float>(factor * score(logits[static_cast<size_t>(expert)])));
  return gates;
}

}  // namespace

// Only tokens whose experts change get other gates: those of the others keep their bits.
void Experts::follow_choices(Stream& stream, const Micro& micro, Saved& saved,
                             Tensor& counts) const {
  const Unrecorded unrecorded(stream.arena());
  const auto chosen = static_cast<size_t>(parts_.chosen);
  const Range own = parts_.ranks->own(micro.size());
  const Range known = overlap(own, {0, static_cast<int64_t>(micro.token_numbers.size())});
  if (known.size() == 0) return;
  const auto tokens = micro.token_numbers.subspan(static_cast<size_t>(known.begin),
                                                  static_cast<size_t>(known.size()));
  std::vector<int32_t> choices(static_cast<size_t>(saved[Slot::Choice].elements()));
  copy_to_host<int32_t>(stream, choices, saved[Slot::Choice]);
  const std::vector<int32_t> before = choices;
  if (!micro.chosen_experts->exchange(parts_.router->name, tokens,
                                      std::span(choices).first(tokens.size() * chosen)))
    return;
  copy_from_host<int32_t>(stream, saved[Slot::Choice], choices);
  std::vector<float> logits(static_cast<size_t>(experts()));
  for (size_t token = 0; token < tokens.size(); ++token) {
    const auto of_token = std::span<const int32_t>(choices).subspan(token * chosen, chosen);
    if (std::equal(of_token.begin(), of_token.end(),
                   before.begin() + static_cast<int64_t>(token * chosen)))
      continue;
    const auto row = static_cast<int64_t>(token);
    copy_floats_to_host(stream, logits, saved[Slot::Logits].slice(row, row + 1));
    Tensor gates = saved[Slot::Gates].slice(row, row + 1);
    copy_floats_from_host(stream, gates, gates_of(logits, of_token, parts_.routing));
  }
  moe_count(stream, counts, saved[Slot::Choice]);
}

}  // namespace sextant
