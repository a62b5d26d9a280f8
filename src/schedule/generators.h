#pragma once
#include <span>

#include "schedule/schedule.h"
#include "schedule/stage_cost.h"

namespace sextant {

// One function per schedule: the compute actions of every rank, without sends and receives
// (add_comms.h adds them). Arguments are not checked here but in make_schedule.h. `ranks`: pipeline
// ranks; `micros`: micro-batches per step; `chunks`: stages per rank.

// Whole backward. Loop placement.
Schedule gpipe(int ranks, int micros);
Schedule one_f_one_b(int ranks, int micros);
// `group`: micros that run through one chunk before the next chunk.
Schedule interleaved(int ranks, int micros, int chunks, int group);
Schedule looped_bfs(int ranks, int micros, int chunks);

// Backward split into input gradient and weight gradient. Loop placement.
Schedule zb_h1(int ranks, int micros);
Schedule zb_h2(int ranks, int micros);
Schedule interleaved_zb(int ranks, int micros, int chunks, int group);
// Searched for the given costs (one per stage), message latency and memory limit per rank.
// Error(Config) when no order fits the limit.
Schedule zb_auto(int micros, std::span<const StageCost> costs, double comm, double memory_limit);

// Split backward. V placement, two chunks per rank.
Schedule zb_v(int ranks, int micros);  // for equal times
// For given times, equal for all stages. Error(Config) when the limit is less than the memory of 2
// * ranks forwards.
Schedule zb_v_greedy(int ranks, int micros, const StageCost& cost, double comm,
                     double memory_limit);
Schedule v_half(int ranks, int micros);
Schedule v_min(int ranks, int micros);

// Forwards joined with whole backwards, split in warm-up and drain. Dual and V placement.
Schedule dualpipe(int ranks, int micros);
Schedule dualpipe_v(int ranks, int micros);

}  // namespace sextant
