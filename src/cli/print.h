#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace sextant::cli {

// Data for standard output; a line ends with "\n" by itself. On a terminal long lines are wrapped
// to its width. Throws Error(Failure) when the output cannot be written (a full disk). A reader
// that has gone, such as `head`, ends the process as it does others: by SIGPIPE, without a word.
void print(std::string_view text);
void print_line(std::string_view text);
// A text whose bytes somebody else chose: on a terminal, which would obey them, control characters
// other than tabs and line ends are shown as "�".
void print_foreign(std::string_view text);
// "1 rank", "2 ranks".
std::string counted(int64_t count, std::string_view one, std::string_view many);
// Text whose lines are not ours to break: what a model wrote, scripts, Markdown.
void print_unchanged(std::string_view text);
// The document of --json, on one line. Bytes that are no UTF-8 become the replacement character.
void print_json(const nlohmann::ordered_json& document);

}  // namespace sextant::cli
