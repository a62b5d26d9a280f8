#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// The whole text must be valid: spaces, trailing characters, overflow and non-finite values give
// nullopt.
std::optional<int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);
std::optional<bool> parse_bool(std::string_view text);  // true, false

// "512", "16MiB", "1.5GB", "24 GiB": bytes.
std::optional<int64_t> parse_bytes(std::string_view text);
// "950", "124.4M", "7B", "1e9": a number of things.
std::optional<int64_t> parse_count(std::string_view text);
// 1536 -> "1.5 KiB"; 0 -> "0 B".
std::string format_bytes(int64_t bytes);
// 124439808 -> "124.4M"; 950 -> "950".
std::string format_count(double count);
// 3725.4 -> "1:02:05"; 65 -> "1:05".
std::string format_duration(double seconds);

// The candidate nearest to `word` in edit distance, if near enough for a typo.
std::optional<std::string> nearest_name(std::string_view word,
                                        std::span<const std::string> candidates);
// ", did you mean 'x'?" or "".
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);
// A word of a command line as a shell reads it.
std::string shell_quoted(const std::string& word);
bool is_utf8(std::string_view text);

}  // namespace sextant
