#pragma once
#include "data/loader.h"
#include "fault/inject.h"

namespace sextant {

// Injected faults of context parallelism: typical mistakes about a rank's tokens and their keys.
bool is_of_sequence(InjectionKind kind);
// Applies such a fault to a rank's part of a batch; other kinds change nothing.
void mistake_part(HostBatch& part, InjectionKind kind);

}  // namespace sextant
