#pragma once

namespace sextant {

// Texts of the DataFaults that ops report, the same on every device.
inline constexpr char kBadTarget[] =
    "target % at position % is outside the vocabulary of % and not -1";
inline constexpr char kBadTokenIndex[] = "token index % at row %, must not be negative";
inline constexpr char kBadStep[] = "step=%, must not be negative";
inline constexpr char kBadTokenId[] = "token id % at position % is outside the vocabulary of %";
inline constexpr char kBadPosition[] = "position % of token %, the table has %";
inline constexpr char kBadExpertOfToken[] = "expert % of token %, there are %";
inline constexpr char kBadExpertOfPair[] = "expert % of pair %, there are %";
inline constexpr char kBadPlace[] = "place % of pair %, there are %";
inline constexpr char kBadExpertRows[] = "rows % to % of expert %, there are %";

}  // namespace sextant
