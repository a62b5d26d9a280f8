#include "fault/inject.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "base/parse.h"

namespace sextant {
namespace {

constexpr std::array<std::pair<std::string_view, InjectionKind>, 13> kKinds = {{
    {"drop_bucket", InjectionKind::DropBucket},
    {"scale_shard", InjectionKind::ScaleShard},
    {"skip_gather", InjectionKind::SkipGather},
    {"skip_twin", InjectionKind::SkipDuplicate},
    {"skip_copies", InjectionKind::SkipCopies},
    {"count_copies", InjectionKind::CountCopies},
    {"local_positions", InjectionKind::LocalPositions},
    {"local_targets", InjectionKind::LocalTargets},
    {"swapped_halves", InjectionKind::SwappedHalves},
    {"same_mask", InjectionKind::SameMask},
    {"overflow", InjectionKind::Overflow},
    {"stall", InjectionKind::Stall},
    {"die", InjectionKind::Die},
}};

InjectionKind parse_kind(std::string_view name) {
  for (const auto& [known, kind] : kKinds)
    if (known == name) return kind;
  std::string names;
  for (const auto& [known, kind] : kKinds)
    names += concat(kind == kKinds.front().second  ? ""
                    : kind == kKinds.back().second ? " or "
                                                   : ", ",
                    known);
  SXT_FAIL(Config, "fault.inject: no fault ", name, "; ", names, ", such as drop_bucket:group=1");
}

void set_place(Injection& injection, std::string_view place) {
  const size_t equal = place.find('=');
  const std::string_view name = place.substr(0, equal);
  const std::optional<int64_t> value =
      equal == std::string_view::npos ? std::nullopt : parse_int(place.substr(equal + 1));
  SXT_CHECK(value && *value >= 0 && *value <= 1'000'000'000, Config, "fault.inject: '", place,
            "': takes group=, rank=, step= or micro= with a number");
  if (name == "group")
    injection.group = static_cast<int>(*value);
  else if (name == "rank")
    injection.rank = static_cast<int>(*value);
  else if (name == "step")
    injection.step = *value;
  else if (name == "micro")
    injection.micro = static_cast<int>(*value);
  else
    SXT_FAIL(Config, "fault.inject: '", place,
             "': takes group=, rank=, step= or micro= with a number");
}

}  // namespace

Injection parse_injection(std::string_view text) {
  Injection injection;
  if (text.empty()) return injection;
  const size_t colon = text.find(':');
  injection.kind = parse_kind(text.substr(0, colon));
  if (colon == std::string_view::npos) return injection;
  for (std::string_view rest = text.substr(colon + 1);;) {
    const size_t comma = rest.find(',');
    set_place(injection, rest.substr(0, comma));
    if (comma == std::string_view::npos) return injection;
    rest = rest.substr(comma + 1);
  }
}

}  // namespace sextant
