#include "data/pattern.h"

#include "base/error.h"

namespace sextant {

struct PatternCode {};
struct PatternSpace {};

void PatternFree::operator()(PatternCode* code) const {
  delete code;
}

void PatternFree::operator()(PatternSpace* space) const {
  delete space;
}

PatternScratch make_pattern_scratch() {
  return PatternScratch(new PatternSpace);
}

bool has_patterns() {
  return false;
}

Pattern::Pattern(std::string_view, const std::string& what) {
  SXT_FAIL(Failure, what, ": this build has no PCRE2, which tokenizer patterns need; install ",
           "libpcre2-dev and build again, or use the tokenizer 'bytes'");
}

std::optional<Pattern::Match> Pattern::find(PatternSpace&, std::string_view, size_t) const {
  SXT_FAIL(Internal, "a pattern in a build that has none");
}

}  // namespace sextant
