#include "bench/attention_pictures.h"

#include <fmt/format.h>

#include <algorithm>

#include "blueprint/context_part.h"

namespace sextant {
namespace {

constexpr int kRanks = 4;
constexpr int64_t kTokens = 16;

// The rank that holds each token, and so its query.
std::vector<int> owners_of(SequenceCut cut, int ranks, int64_t seq) {
  std::vector<int> owners(static_cast<size_t>(seq));
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<Range> runs = cut == SequenceCut::Zigzag
                                        ? tokens_of(ContextPart{ranks, rank}, seq)
                                        : std::vector<Range>{even_part(seq, ranks, rank)};
    for (const Range& run : runs)
      std::fill(owners.begin() + run.begin, owners.begin() + run.end, rank);
  }
  return owners;
}

bool is_seen(int64_t query, int64_t key) {
  return key <= query;
}

// Sizes in pixels.
constexpr int kMargin = 12, kCell = 15, kMatrix = kCell * static_cast<int>(kTokens);
constexpr int kHead = 34, kPanelHead = 44, kSide = 34;  // side: the query's rank
constexpr int kBarRow = 26, kBarName = 52, kBarCount = 64, kFoot = 46;
constexpr int kPanel = kSide + kMatrix + 70, kBarLength = kPanel - kBarName - kBarCount - 10;
constexpr int kWidth = 2 * kMargin + 2 * kPanel;
constexpr int kMatrixTop = kMargin + kHead + kPanelHead;
constexpr int kBarsTop = kMatrixTop + kMatrix + 36;
constexpr int kHeight = kBarsTop + kRanks * kBarRow + kFoot;

std::string words(const char* kind, int x, int y, const std::string& text) {
  return fmt::format("<text{} x=\"{}\" y=\"{}\">{}</text>\n",
                     *kind == 0 ? "" : fmt::format(" class=\"{}\"", kind), x, y, text);
}

std::string draw_matrix(const std::vector<int>& owners, int left) {
  std::string out = words("name", left + kMatrix / 2, kMatrixTop - 8, "keys");
  for (int64_t query = 0; query < kTokens; ++query) {
    const int y = kMatrixTop + kCell * static_cast<int>(query);
    const int rank = owners[static_cast<size_t>(query)];
    out += fmt::format("<rect class=\"s{}\" x=\"{}\" y=\"{}\" width=\"8\" height=\"{}\"/>\n", rank,
                       left - 12, y, kCell - 1);
    for (int64_t key = 0; key < kTokens; ++key) {
      const int x = left + kCell * static_cast<int>(key);
      if (is_seen(query, key))
        out += fmt::format("<rect class=\"s{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
                           rank, x, y, kCell - 1, kCell - 1);
      else
        out += fmt::format(
            "<rect class=\"hidden\" x=\"{}.5\" y=\"{}.5\" width=\"{}\" height=\"{}\"/>\n", x, y,
            kCell - 2, kCell - 2);
    }
  }
  const int middle = kMatrixTop + kMatrix / 2;
  return out + fmt::format(
                   "<text class=\"name\" transform=\"translate({} {}) rotate(-90)\">queries, and "
                   "who has them</text>\n",
                   left - 20, middle);
}

// A bar per rank, divided by ring step.
std::string draw_bars(const std::vector<int64_t>& pairs,
                      const std::vector<std::vector<int64_t>>& steps, int64_t longest, int left) {
  std::string out =
      words("", left, kBarsTop - 8, "pairs of a query and a key, step by step of a ring");
  for (int rank = 0; rank < kRanks; ++rank) {
    const int y = kBarsTop + rank * kBarRow;
    const auto end_of = [&](int64_t count) {
      return left + kBarName + static_cast<int>(count * kBarLength / longest);
    };
    out += words("", left, y + 14, fmt::format("rank {}", rank));
    int64_t done = 0;
    for (const int64_t step : steps[static_cast<size_t>(rank)]) {
      const int begin = end_of(done), end = end_of(done + step);
      out += fmt::format("<rect class=\"s{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"18\"/>\n",
                         rank, begin, y, end - begin - 1);
      out += words("label", (begin + end) / 2, y + 13, std::to_string(step));
      done += step;
    }
    out += words("", end_of(done) + 8, y + 14, std::to_string(pairs[static_cast<size_t>(rank)]));
  }
  return out;
}

// Pairs per ring step and rank; for contiguous parts, of a ring over those.
std::vector<std::vector<int64_t>> steps_of(SequenceCut cut) {
  const std::vector<int> owners = owners_of(cut, kRanks, kTokens);
  std::vector<std::vector<int64_t>> steps(kRanks, std::vector<int64_t>(kRanks));
  for (int64_t query = 0; query < kTokens; ++query)
    for (int64_t key = 0; key < kTokens; ++key) {
      const int rank = owners[static_cast<size_t>(query)], from = owners[static_cast<size_t>(key)];
      if (is_seen(query, key))
        ++steps[static_cast<size_t>(rank)][static_cast<size_t>((rank - from + kRanks) % kRanks)];
    }
  for (std::vector<int64_t>& of_rank : steps) std::erase(of_rank, 0);
  return steps;
}

std::string draw_panel(SequenceCut cut, int64_t longest, int left) {
  const std::vector<int64_t> pairs = pairs_of_ranks(cut, kRanks, kTokens);
  const auto [least, most] = std::ranges::minmax(pairs);
  std::string out = picture_title(
      cut == SequenceCut::Zigzag
          ? fmt::format("zigzag: chunks r and {} − r of {}", 2 * kRanks - 1, 2 * kRanks)
          : fmt::format("contiguous: chunk r of {}", kRanks),
      left, kMargin + kHead + 14);
  out += draw_matrix(owners_of(cut, kRanks, kTokens), left + kSide);
  out += draw_bars(pairs, steps_of(cut), longest, left);
  return out + words("", left, kBarsTop + kRanks * kBarRow + 18,
                     least == most
                         ? fmt::format("{} pairs on every rank: no rank waits", most)
                         : fmt::format("all wait for {} pairs, {:.2f} times the even share", most,
                                       static_cast<double>(most * kRanks * 2) /
                                           static_cast<double>(kTokens * (kTokens + 1))));
}

std::string draw() {
  const std::string title =
      fmt::format("A causal sequence of {} tokens on {} ranks", kTokens, kRanks);
  std::string out = picture_header(title, kWidth, kHeight);
  out += "<style>.hidden { fill: none; stroke: #8c959f; stroke-opacity: 0.35; }</style>\n";
  out += picture_title(title, kMargin, kMargin + 14);
  const std::vector<int64_t> worst = pairs_of_ranks(SequenceCut::Contiguous, kRanks, kTokens);
  const int64_t longest = *std::ranges::max_element(worst);
  out += draw_panel(SequenceCut::Contiguous, longest, kMargin);
  out += draw_panel(SequenceCut::Zigzag, longest, kMargin + kPanel);
  return out + "</svg>\n";
}

}  // namespace

std::vector<int64_t> pairs_of_ranks(SequenceCut cut, int ranks, int64_t seq) {
  const std::vector<int> owners = owners_of(cut, ranks, seq);
  std::vector<int64_t> pairs(static_cast<size_t>(ranks));
  for (int64_t query = 0; query < seq; ++query)
    for (int64_t key = 0; key < seq; ++key)
      if (is_seen(query, key)) ++pairs[static_cast<size_t>(owners[static_cast<size_t>(query)])];
  return pairs;
}

std::vector<Picture> draw_attention() {
  return {{"contiguous_and_zigzag", draw()}};
}

}  // namespace sextant
