#include <algorithm>

#include "base/error.h"
#include "base/parse.h"
#include "bench/collectives.h"

namespace sextant {
namespace {

constexpr int kMostRanks = 64;
constexpr int64_t kLeastBytes = 64;
constexpr int64_t kMostBytes = int64_t{4} << 30;

// Parses each entry of "a,b,c" with `read`, which returns nullopt for unknown entries.
template <class T, class Read>
std::vector<T> read_list(std::string_view text, Read&& read) {
  std::vector<T> out;
  for (const std::string& entry : split(text, ',')) out.push_back(read(entry));
  return out;
}

}  // namespace

std::vector<Operation> timed_operations() {
  return {Operation::AllReduce, Operation::ReduceScatter, Operation::AllGather, Operation::AllToAll,
          Operation::Broadcast, Operation::Scatter,       Operation::Gather,    Operation::Reduce,
          Operation::Send,      Operation::Receive,       Operation::Barrier};
}

bool has_limit(Operation operation) {
  return operation == Operation::AllReduce || operation == Operation::ReduceScatter ||
         operation == Operation::AllGather || operation == Operation::AllToAll ||
         operation == Operation::Broadcast;
}

std::vector<Operation> parse_operations(std::string_view text) {
  std::vector<std::string> names;
  for (const Operation operation : timed_operations()) names.push_back(name_of(operation));
  return read_list<Operation>(text, [&](const std::string& entry) {
    const auto found = std::find(names.begin(), names.end(), entry);
    SXT_CHECK(found != names.end(), Usage, "--ops '", entry, "' is none of ", join(names, ", "),
              did_you_mean(entry, names));
    return timed_operations()[static_cast<size_t>(found - names.begin())];
  });
}

std::vector<int> parse_ranks(std::string_view text) {
  return read_list<int>(text, [](const std::string& entry) {
    const std::optional<int64_t> ranks = parse_int(entry);
    SXT_CHECK(ranks && *ranks >= 1 && *ranks <= kMostRanks, Usage, "--ranks '", entry,
              "': takes whole numbers from 1 to ", kMostRanks, ", such as 2,4,8");
    return static_cast<int>(*ranks);
  });
}

std::vector<int64_t> parse_sizes(std::string_view text) {
  return read_list<int64_t>(text, [](const std::string& entry) {
    const std::optional<int64_t> bytes = parse_bytes(entry);
    SXT_CHECK(bytes && *bytes >= kLeastBytes && *bytes <= kMostBytes, Usage, "--sizes '", entry,
              "': takes bytes from ", format_bytes(kLeastBytes), " to ", format_bytes(kMostBytes),
              ", such as 1KiB,16MiB");
    return *bytes;
  });
}

std::vector<int64_t> default_sizes(int64_t largest) {
  std::vector<int64_t> sizes;
  for (const int64_t kib : {1, 16, 256, 1024, 4096, 16384, 65536, 262144})
    if (kib * 1024 <= largest) sizes.push_back(kib * 1024);
  return sizes;
}

}  // namespace sextant
