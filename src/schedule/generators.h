#pragma once
#include <span>

#include "schedule/schedule.h"
#include "schedule/stage_cost.h"

namespace sextant {

// One function per schedule: the compute actions of every rank, without sends and receives (see
// add_comms.h). Arguments are taken as they are: make_schedule.h checks them and refuses what
// cannot be. `ranks` pipeline ranks, `micros` micro-batches a step, `chunks` stages a rank.

// Backward whole. Loop placement.
Schedule gpipe(int ranks, int micros);
Schedule one_f_one_b(int ranks, int micros);
// `group` micros pass through one chunk before the next chunk has its turn.
Schedule interleaved(int ranks, int micros, int chunks, int group);
Schedule looped_bfs(int ranks, int micros, int chunks);

// Backward split in input and weight halves. Loop placement.
Schedule zb_h1(int ranks, int micros);
Schedule zb_h2(int ranks, int micros);
Schedule interleaved_zb(int ranks, int micros, int chunks, int group);
// For given costs (one per stage), delay of a message and memory a rank may hold. Error(Config)
// when no order fits in it.
Schedule zb_auto(int micros, std::span<const StageCost> costs, double comm, double memory_limit);

// Backward split. V placement, two chunks a rank.
Schedule zb_v(int ranks, int micros);  // for equal times
// For given times, the same for all stages. Error(Config) when the limit is below what 2 * ranks
// forwards hold.
Schedule zb_v_greedy(int ranks, int micros, const StageCost& cost, double comm,
                     double memory_limit);
Schedule v_half(int ranks, int micros);
Schedule v_min(int ranks, int micros);

// Forwards joined with whole backwards; backward split at the ends. Dual and V placement.
Schedule dualpipe(int ranks, int micros);
Schedule dualpipe_v(int ranks, int micros);

}  // namespace sextant
