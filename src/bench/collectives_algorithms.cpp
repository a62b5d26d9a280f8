#include "bench/collectives_algorithms.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/parse.h"
#include "comm/run_ranks.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

constexpr double kDeadline = 120;  // seconds, timeout for another rank

AlgorithmRow run(Algorithm algorithm, int ranks, int64_t bytes, int repeats, const Clock& clock) {
  const int64_t elements = std::max<int64_t>(1, bytes / size_of(DType::F32));
  AlgorithmRow row{
      algorithm, ranks, elements * size_of(DType::F32),         steps_of(algorithm, ranks),
      0,         0,     std::numeric_limits<double>::infinity()};
  std::vector<int64_t> sent(static_cast<size_t>(ranks));
  ThreadWorld world(ranks, clock, {.timeout_s = kDeadline});
  world.run([&](Communicator& rank) {
    Arena arena(Device{}, 2 * row.bytes + Stream::scratch_bytes(1));
    Stream stream(arena, 1);
    Tensor data = arena.allocate(Category::Communication, DType::F32, {elements});
    fill_zero(stream, data);
    for (int i = 0; i <= repeats; ++i) {  // one more, to touch the pages
      rank.ledger().reset();
      rank.control().barrier();
      const double begin = clock.now();
      all_reduce_by(stream, rank, data, algorithm);
      sent[static_cast<size_t>(rank.rank())] = rank.ledger().traffic.total().elements;
      rank.control().barrier();
      if (rank.rank() == 0 && i > 0) row.seconds = std::min(row.seconds, clock.now() - begin);
    }
  });
  for (const int64_t one : sent) {
    row.busiest = std::max(row.busiest, one);
    row.total += one;
  }
  return row;
}

}  // namespace

std::vector<Algorithm> parse_algorithms(std::string_view text) {
  std::vector<std::string> names;
  for (const Algorithm algorithm : all_algorithms()) names.push_back(name_of(algorithm));
  std::vector<Algorithm> out;
  for (const std::string& entry : split(text, ',')) {
    const std::optional<Algorithm> found = find_algorithm(entry);
    SXT_CHECK(found, Usage, "--algorithm '", entry, "' is none of ", join(names, ", "),
              did_you_mean(entry, names));
    out.push_back(*found);
  }
  return out;
}

std::vector<AlgorithmRow> bench_algorithms(const std::vector<Algorithm>& algorithms,
                                           const std::vector<int>& ranks,
                                           const std::vector<int64_t>& sizes, int repeats,
                                           const Clock& clock) {
  SXT_CHECK(repeats > 0, Usage, "bench collectives: repeats=", repeats, ", must be at least 1");
  std::vector<AlgorithmRow> rows;
  for (const int count : ranks)
    for (const int64_t bytes : sizes)
      for (const Algorithm algorithm : algorithms)
        rows.push_back(run(algorithm, count, bytes, repeats, clock));
  return rows;
}

}  // namespace sextant
