#pragma once
#include <map>
#include <string>
#include <vector>

#include "plan/search.h"

namespace sextant {

struct ScheduleChoice {
  ScheduleKind kind = ScheduleKind::OneFOneB;
  int chunks = 1;
};

// The axes that a search may combine: those that divide the model and the cluster, that the user
// left open, and that the configuration check accepts.
class SearchSpace {
 public:
  explicit SearchSpace(const PlanRequest& request);

  // How a stage is divided: tp, sequence, cp and its kind, ep, etp, offload. The rest is 1.
  const std::vector<Layout>& stage_layouts() const { return layouts_; }
  // Those that exist for so many ranks and micro-batches; some order for pp = 1.
  std::vector<ScheduleChoice> schedules(int64_t pp, int64_t micros) const;
  // Why combinations of axes were left out, and how many.
  const std::map<std::string, int64_t>& refused() const { return refused_; }

 private:
  void add_tensor_ranks(int64_t tp);
  void add_context(Layout layout);
  void add_experts(Layout layout);
  void add_offload(const Layout& layout);
  bool accepts(const Layout& layout);
  bool can_offload(Offload offload);
  void refuse(const std::string& reason) { ++refused_[reason]; }

  const PlanRequest& request_;
  std::vector<Layout> layouts_;
  std::vector<Offload> offloads_ = {Offload::None};
  std::map<std::string, bool> checked_;  // by layout
  std::map<std::string, int64_t> refused_;
};

std::vector<int64_t> divisors(int64_t n);

inline constexpr int64_t kMicros[] = {1, 2, 4, 8, 16, 32};

// Which fixed axis leaves no layout, whatever the others are, and why; "" if none does.
std::string excluding_axis(const PlanRequest& request);

// Whether the user left an axis open, or fixed it to this value.
template <class Fixed, class Value>
bool is_open(const std::optional<Fixed>& fixed, const Value& value) {
  return !fixed || *fixed == value;
}

}  // namespace sextant
