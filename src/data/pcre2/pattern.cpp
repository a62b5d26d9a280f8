#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/pattern.h"

#include <pcre2.h>

#include "base/error.h"
#include "data/pattern_syntax.h"

namespace sextant {
namespace {

constexpr size_t kStackStart = 32 << 10, kStackLimit = 16 << 20;

std::string reason(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

PCRE2_SPTR units(std::string_view text) {
  // An empty view may have a null pointer, which PCRE2 rejects.
  return reinterpret_cast<PCRE2_SPTR>(text.empty() ? "" : text.data());
}

}  // namespace

struct PatternCode {
  pcre2_code* code;
};

struct PatternSpace {
  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

void PatternFree::operator()(PatternCode* code) const {
  pcre2_code_free(code->code);
  delete code;
}

void PatternFree::operator()(PatternSpace* space) const {
  pcre2_match_data_free(space->data);
  pcre2_match_context_free(space->context);
  pcre2_jit_stack_free(space->stack);
  delete space;
}

PatternScratch make_pattern_scratch() {
  PatternScratch space(new PatternSpace{pcre2_match_data_create(1, nullptr),
                                        pcre2_match_context_create(nullptr),
                                        pcre2_jit_stack_create(kStackStart, kStackLimit, nullptr)});
  SXT_CHECK(space->data && space->context && space->stack, Memory,
            "no memory for the tokenizer's pattern search");
  pcre2_jit_stack_assign(space->context, nullptr, space->stack);
  return space;
}

bool has_patterns() {
  return true;
}

Pattern::Pattern(std::string_view regex, const std::string& what) : what_(what) {
  const std::string translated = to_pcre2(regex, what);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Unicode classes; ^ and $ match at every line, as in the dialect.
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  SXT_CHECK(context, Memory, "no memory for ", what);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_code* code =
      pcre2_compile(units(translated), translated.size(), options, &error, &offset, context.get());
  SXT_CHECK(code, Data, what, ": pattern cannot be read, ", reason(error), " near character ",
            offset);
  code_.reset(new PatternCode{code});
  // Without a JIT, pcre2_match interprets; the matches are the same.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
}

std::optional<Pattern::Match> Pattern::find(PatternSpace& space, std::string_view text,
                                            size_t from) const {
  const int found = pcre2_match(code_->code, units(text), text.size(), from, PCRE2_NO_UTF_CHECK,
                                space.data, space.context);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  SXT_CHECK(found >= 0, Data, what_, ": search gave up at byte ", from, " of a text, ",
            reason(found));
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(space.data);
  // \K and lookbehinds could end a match before its start.
  SXT_CHECK(range[0] >= from && range[1] >= range[0], Data, what_,
            ": pattern gives a match that runs backwards");
  return Match{range[0], range[1]};
}

}  // namespace sextant
