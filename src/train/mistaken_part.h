#pragma once
#include "data/loader.h"
#include "fault/inject.h"

namespace sextant {

// Faults of ranks that share the sequences: what is easily got wrong about a rank's tokens.
bool is_of_sequence(InjectionKind kind);
// Makes one of them in what a rank has taken of a batch; others change nothing.
void mistake_part(HostBatch& part, InjectionKind kind);

}  // namespace sextant
