// Every element encodes the set of its sources: element c of rank r starts as bit 4 r + c of an
// integer. Copies keep the bit, a sum of different elements is their union, so the picture is drawn
// from the real results.
#include "bench/collective_pictures.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <functional>

#include "base/error.h"
#include "base/range.h"
#include "comm/run_ranks.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

constexpr int kRanks = 4;
constexpr int64_t kUnset = 0;

// What a rank holds: `values` are rows first, first + 1, ... of the whole vector.
struct Held {
  int64_t first = 0;
  std::vector<int64_t> values;
};
using Holdings = std::array<Held, kRanks>;

enum class Labels { Letters, LettersAndNumbers };  // "A", or "A2" if a rank has several elements

struct Scene {
  std::string name;
  std::string title;
  Labels labels = Labels::LettersAndNumbers;
  Holdings before, after;
};

int64_t element(int rank, int64_t index) {
  return int64_t{1} << (kRanks * rank + index);
}

// One rank's tensors during a collective.
class RankBuffers {
 public:
  explicit RankBuffers(Communicator& world)
      : world_(world), arena_(Device{}, Stream::scratch_bytes(1) + 4096), stream_(arena_, 1) {}

  int rank() const { return world_.rank(); }
  Communicator& world() { return world_; }
  Stream& stream() { return stream_; }
  // `count` elements of this rank, numbered first, first + 1, ...
  Tensor own(int64_t count, int64_t first = 0) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(element(rank(), first + i));
    return upload(values);
  }
  Tensor unset(int64_t count) {
    return upload(std::vector<int64_t>(static_cast<size_t>(count), kUnset));
  }
  Held read(const Tensor& tensor, int64_t first = 0) {
    Held held{first, std::vector<int64_t>(static_cast<size_t>(tensor.elements()))};
    copy_to_host<int64_t>(stream_, held.values, tensor);
    return held;
  }

 private:
  Tensor upload(const std::vector<int64_t>& values) {
    Tensor tensor =
        arena_.allocate(Category::Communication, DType::I64, {static_cast<int64_t>(values.size())});
    copy_from_host<int64_t>(stream_, tensor, values);
    return tensor;
  }

  Communicator& world_;
  Arena arena_;
  Stream stream_;
};

// A rank's tensors before and after.
struct Outcome {
  Held before, after;
};
using Act = std::function<Outcome(RankBuffers&)>;

Scene play(const std::string& name, const std::string& title, Labels labels, const Act& act) {
  Scene scene{name, title, labels, {}, {}};
  run_ranks(kRanks, [&](Communicator& world) {
    RankBuffers rank(world);
    const Outcome outcome = act(rank);
    scene.before[static_cast<size_t>(world.rank())] = outcome.before;
    scene.after[static_cast<size_t>(world.rank())] = outcome.after;
  });
  return scene;
}

Outcome broadcast(RankBuffers& rank) {
  Tensor data = rank.rank() == 0 ? rank.own(kRanks) : rank.unset(kRanks);
  const Held before = rank.read(data);
  rank.world().broadcast(rank.stream(), data, 0);
  return {before, rank.read(data)};
}

Outcome scatter(RankBuffers& rank) {
  const bool is_root = rank.rank() == 0;
  const Tensor in = rank.own(is_root ? kRanks : 0);
  Tensor out = rank.unset(1);
  rank.world().scatter(rank.stream(), out, in, kRanks, 0);
  return {rank.read(in), rank.read(out, rank.rank())};
}

Outcome gather(RankBuffers& rank) {
  const Tensor in = rank.own(1, rank.rank());
  Tensor out = rank.unset(rank.rank() == 0 ? kRanks : 0);
  rank.world().gather(rank.stream(), out, in, kRanks, 0);
  return {rank.read(in, rank.rank()), rank.read(out)};
}

Outcome reduce(RankBuffers& rank) {
  Tensor data = rank.own(kRanks);
  const Held before = rank.read(data);
  rank.world().reduce(rank.stream(), data, ReduceOp::Sum, 0);
  return {before, rank.read(data)};
}

Outcome all_gather(RankBuffers& rank) {
  const Tensor in = rank.own(1, rank.rank());
  Tensor out = rank.unset(kRanks);
  rank.world().all_gather(rank.stream(), out, in);
  return {rank.read(in, rank.rank()), rank.read(out)};
}

Outcome reduce_scatter(RankBuffers& rank) {
  const Tensor in = rank.own(kRanks);
  Tensor out = rank.unset(1);
  rank.world().reduce_scatter(rank.stream(), out, in, ReduceOp::Sum);
  return {rank.read(in), rank.read(out, rank.rank())};
}

Outcome all_reduce(RankBuffers& rank) {
  Tensor data = rank.own(kRanks);
  const Held before = rank.read(data);
  rank.world().all_reduce(rank.stream(), data, ReduceOp::Sum);
  return {before, rank.read(data)};
}

Outcome all_to_all(RankBuffers& rank) {
  const Tensor in = rank.own(kRanks);
  Tensor out = rank.unset(kRanks);
  rank.world().all_to_all(rank.stream(), out, in);
  return {rank.read(in), rank.read(out)};
}

// From every even rank to the next one.
Outcome send_receive(RankBuffers& rank) {
  const bool is_sender = rank.rank() % 2 == 0;
  Tensor data = is_sender ? rank.own(kRanks) : rank.unset(kRanks);
  const Held before = rank.read(data);
  if (is_sender)
    rank.world().send(rank.stream(), data, rank.rank() + 1);
  else
    rank.world().receive(rank.stream(), data, rank.rank() - 1);
  return {before, rank.read(data)};
}

// Sizes in pixels.
constexpr int kMargin = 12, kCellWidth = 136, kCellHeight = 24, kGap = 4, kBetweenRanks = 16;
constexpr int kSide = 56;   // "before", "after" on the left
constexpr int kHead = 30;   // title
constexpr int kName = 20;   // "rank 0" above each column
constexpr int kArrow = 34;  // between before and after
constexpr int kColumn = kRanks * (kCellHeight + kGap) - kGap;
constexpr int kWidth = 2 * kMargin + kSide + kRanks * kCellWidth + (kRanks - 1) * kBetweenRanks;
constexpr int kHeight = 2 * kMargin + kHead + kName + 2 * kColumn + kArrow;

int column_x(int rank) {
  return kMargin + kSide + rank * (kCellWidth + kBetweenRanks);
}

// The sources of a value, side by side in one cell.
std::string draw_cell(int x, int y, int64_t value, Labels labels) {
  if (value == kUnset)
    return fmt::format(
        "<rect class=\"empty\" x=\"{}.5\" y=\"{}.5\" width=\"{}\" height=\"{}\" rx=\"3\"/>\n", x, y,
        kCellWidth - 1, kCellHeight - 1);
  std::vector<std::pair<int, int>> parts;  // rank, number
  for (int rank = 0; rank < kRanks; ++rank)
    for (int number = 0; number < kRanks; ++number)
      if ((value & element(rank, number)) != 0) parts.emplace_back(rank, number);
  const int width = kCellWidth / static_cast<int>(parts.size());
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto [rank, number] = parts[i];
    const int left = x + static_cast<int>(i) * width;
    out += fmt::format(
        "<rect class=\"s{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>\n", rank,
        left, y, width, kCellHeight, parts.size() == 1 ? 3 : 0);
    const std::string text = std::string(1, static_cast<char>('A' + rank)) +
                             (labels == Labels::Letters ? std::string() : std::to_string(number));
    out += fmt::format("<text class=\"label\" x=\"{}\" y=\"{}\">{}</text>\n", left + width / 2,
                       y + kCellHeight / 2 + 4, text);
  }
  // A plus sign between the terms of a sum.
  for (size_t i = 1; i < parts.size(); ++i)
    out += fmt::format("<text class=\"label\" x=\"{}\" y=\"{}\">+</text>\n",
                       x + static_cast<int>(i) * width, y + kCellHeight / 2 + 4);
  return out;
}

std::string draw_holdings(const Holdings& holdings, int y, const char* side, Labels labels) {
  std::string out =
      fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", kMargin, y + kColumn / 2 + 4, side);
  for (int rank = 0; rank < kRanks; ++rank) {
    const Held& held = holdings[static_cast<size_t>(rank)];
    for (int64_t row = 0; row < kRanks; ++row) {
      const int64_t index = row - held.first;
      const bool is_held = index >= 0 && index < static_cast<int64_t>(held.values.size());
      out += draw_cell(column_x(rank), y + static_cast<int>(row) * (kCellHeight + kGap),
                       is_held ? held.values[static_cast<size_t>(index)] : kUnset, labels);
    }
  }
  return out;
}

std::string draw(const Scene& scene) {
  std::string out = picture_header(scene.title, kWidth, kHeight);
  out += picture_title(scene.title, kMargin, kMargin + 14);
  int y = kMargin + kHead;
  for (int rank = 0; rank < kRanks; ++rank)
    out += fmt::format("<text class=\"name\" x=\"{}\" y=\"{}\">rank {}</text>\n",
                       column_x(rank) + kCellWidth / 2, y + 12, rank);
  y += kName;
  out += draw_holdings(scene.before, y, "before", scene.labels);
  y += kColumn;
  const int middle = kMargin + kSide + (kWidth - 2 * kMargin - kSide) / 2;
  out += fmt::format("<path class=\"arrow\" d=\"M{0} {1} V{2} M{3} {4} L{0} {2} L{5} {4}\"/>\n",
                     middle, y + 8, y + kArrow - 8, middle - 5, y + kArrow - 14, middle + 5);
  out += draw_holdings(scene.after, y + kArrow, "after", scene.labels);
  return out + "</svg>\n";
}

}  // namespace

std::vector<Picture> draw_collectives() {
  using enum Labels;
  const std::vector<Scene> scenes = {
      play("broadcast", "broadcast: the root's vector on all ranks", LettersAndNumbers, broadcast),
      play("scatter", "scatter: the root's vector, a part to each rank", LettersAndNumbers,
           scatter),
      play("gather", "gather: a part from each rank, one vector on the root", Letters, gather),
      play("reduce", "reduce: the sum on the root", LettersAndNumbers, reduce),
      play("all_gather", "all_gather: a part from each rank, one vector on all", Letters,
           all_gather),
      play("reduce_scatter", "reduce_scatter: the sum, a part to each rank", LettersAndNumbers,
           reduce_scatter),
      play("all_reduce", "all_reduce: the sum on all ranks", LettersAndNumbers, all_reduce),
      play("all_to_all", "all_to_all: part r of every rank to rank r", LettersAndNumbers,
           all_to_all),
      play("send_receive", "send and receive: one rank's vector on another", LettersAndNumbers,
           send_receive),
  };
  std::vector<Picture> pictures;
  for (const Scene& scene : scenes) pictures.push_back({scene.name, draw(scene)});
  return pictures;
}

}  // namespace sextant
