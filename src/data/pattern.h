#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sextant {

struct PatternCode;   // compiled form
struct PatternSpace;  // working memory of a search
struct PatternFree {
  void operator()(PatternCode* code) const;
  void operator()(PatternSpace* space) const;
};

// Working memory for searches of one thread, for any number of patterns.
using PatternScratch = std::unique_ptr<PatternSpace, PatternFree>;
PatternScratch make_pattern_scratch();

// Whether this build has PCRE2; a Pattern needs it.
bool has_patterns();

// A regular expression over UTF-8 text, in the dialect of tokenizer.json files (see
// pattern_syntax.h), with Unicode classes. Shared by threads, each with its own scratch.
class Pattern {
 public:
  struct Match {
    size_t begin, end;  // byte offsets in the text
  };
  // `what` names the pattern in messages. Error(Data) for an invalid pattern, Error(Failure) in a
  // build without PCRE2.
  Pattern(std::string_view regex, const std::string& what);

  // The first match that starts at `from` or later. `text` is valid UTF-8, `from` the start of a
  // character. Error(Data) when the search exceeds its step limit.
  std::optional<Match> find(PatternSpace& space, std::string_view text, size_t from) const;

 private:
  std::unique_ptr<PatternCode, PatternFree> code_;
  std::string what_;
};

}  // namespace sextant
