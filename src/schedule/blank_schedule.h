#pragma once
#include <string>

#include "schedule/schedule.h"

namespace sextant {

// A schedule without actions; generators fill its ranks.
inline Schedule blank_schedule(std::string name, int ranks, int micros, int chunks,
                               Placement placement) {
  Schedule out;
  out.name = std::move(name);
  out.stages = placement == Placement::Dual ? ranks : ranks * chunks;
  out.micros = micros;
  out.placement = placement;
  out.ranks.resize(static_cast<size_t>(ranks));
  return out;
}

}  // namespace sextant
