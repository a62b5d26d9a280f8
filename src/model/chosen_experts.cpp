#include "model/chosen_experts.h"

#include <algorithm>

namespace sextant {

bool ChosenExperts::exchange(const std::string& router, std::span<const int32_t> tokens,
                             std::span<int32_t> choices) {
  if (tokens.empty()) return false;
  const size_t chosen = choices.size() / tokens.size();
  const auto row = [&](auto&& of, size_t index) {
    return of.begin() + static_cast<int64_t>(index * chosen);
  };
  const std::lock_guard lock(mutex_);
  Choices& own = own_[router];
  own.chosen = static_cast<int64_t>(chosen);
  const Choices* followed = nullptr;
  if (followed_ != nullptr && followed_->contains(router)) followed = &followed_->at(router);
  bool has_changed = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto token = static_cast<size_t>(tokens[i]);
    if (own.experts.size() < (token + 1) * chosen) own.experts.resize((token + 1) * chosen, -1);
    std::copy_n(row(choices, i), chosen, row(own.experts, token));
    if (followed == nullptr || followed->experts.size() < (token + 1) * chosen) continue;
    const auto told = row(followed->experts, token);
    if (*told < 0 || std::equal(told, told + static_cast<int64_t>(chosen), row(choices, i)))
      continue;
    std::copy_n(told, chosen, row(choices, i));
    has_changed = true;
  }
  return has_changed;
}

int64_t differing_tokens(const ChosenExperts::Choices& a, const ChosenExperts::Choices& b) {
  const auto chosen = static_cast<size_t>(a.chosen);
  const size_t size = std::min(a.experts.size(), b.experts.size());
  int64_t differing = 0;
  std::vector<int32_t> of_a(chosen), of_b(chosen);
  for (size_t at = 0; at + chosen <= size; at += chosen) {
    std::copy_n(a.experts.begin() + static_cast<int64_t>(at), chosen, of_a.begin());
    std::copy_n(b.experts.begin() + static_cast<int64_t>(at), chosen, of_b.begin());
    if (of_a[0] < 0 || of_b[0] < 0) continue;
    std::ranges::sort(of_a);
    std::ranges::sort(of_b);
    differing += of_a == of_b ? 0 : 1;
  }
  return differing;
}

}  // namespace sextant
