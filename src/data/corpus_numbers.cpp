// Lines that follow a rule, so that a model can learn the rule instead of the lines.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "data/corpus_draw.h"
#include "data/corpus_words.h"

namespace sextant {
namespace {

using namespace corpus;

std::string sum_line(Draw& draw, int limit) {
  const int a = draw.between(0, limit), b = draw.between(0, limit);
  switch (draw.below(6)) {
    case 0:
      return concat(a, " + ", b, " = ", a + b, "\n");
    case 1:
      return concat(std::max(a, b), " - ", std::min(a, b), " = ", std::max(a, b) - std::min(a, b),
                    "\n");
    case 2: {
      const int x = draw.between(2, 12), y = draw.between(2, 20);
      return concat(x, " * ", y, " = ", x * y, "\n");
    }
    case 3: {
      const int divisor = draw.between(2, 12);
      return concat(a, " / ", divisor, " = ", a / divisor, " remainder ", a % divisor, "\n");
    }
    case 4:
      return concat(a,
                    a < b   ? " is less than "
                    : a > b ? " is more than "
                            : " is equal to ",
                    b, "\n");
    default:
      return concat(number_word(a % 100), " plus ", number_word(b % 100), " is ",
                    number_word(a % 100 + b % 100), "\n");
  }
}

std::string word_problem(Draw& draw) {
  const Person who = draw_person(draw), other = draw_person_other(draw, who);
  const std::string_view goods = draw.pick(plural_things());
  const int has = draw.between(3, 40), change = draw.between(1, has - 1);
  if (draw.one_in(2))
    return concat(who.name, " has ", has, " ", goods, ". ", other.name, " has ", change,
                  " more than ", who.name, ". Together they have ", has, " + ", has + change, " = ",
                  2 * has + change, " ", goods, ".\n");
  return concat(who.name, " has ", has, " ", goods, " and gives ", change, " to ", other.name, ". ",
                capital(who.they), " has ", has, " - ", change, " = ", has - change, " ", goods,
                " left.\n");
}

char to_capital(char c) {
  return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
}

}  // namespace

std::string write_sums(Draw& draw) {
  const int limit = draw.any("s", "m", "l") == "s" ? 20 : draw.one_in(2) ? 100 : 999;
  std::string out = concat("Sums up to ", limit, "\n");
  const int lines = draw.between(8, 24);
  for (int i = 0; i < lines; ++i)
    out += draw.one_in(5) ? word_problem(draw) : sum_line(draw, limit);
  return out;
}

std::string write_counting(Draw& draw) {
  const int step = draw.between(1, 12), start = draw.between(0, 60), terms = draw.between(10, 30);
  const bool down = draw.one_in(3), words = draw.one_in(2);
  std::string out = concat("Counting ", down ? "down" : "up", " by ",
                           words ? number_word(step) : concat(step), ":\n");
  for (int i = 0; i < terms; ++i) {
    const int n = start + step * (down ? terms - 1 - i : i);
    out += concat(i ? ", " : "", words ? number_word(n) : concat(n));
  }
  out += ".\n";
  if (draw.one_in(2)) {
    const int day = draw.below(7);
    for (int i = 0; i < 7; ++i)
      out += concat("The day after ", weekdays()[static_cast<size_t>((day + i) % 7)], " is ",
                    weekdays()[static_cast<size_t>((day + i + 1) % 7)], ".\n");
  } else {
    const int month = draw.below(12);
    for (int i = 0; i < 4; ++i)
      out += concat("After ", months()[static_cast<size_t>((month + i) % 12)], " comes ",
                    months()[static_cast<size_t>((month + i + 1) % 12)], ".\n");
  }
  return out;
}

// A position that is updated from line to line.
std::string write_walk(Draw& draw) {
  constexpr std::string_view kWays[] = {"north", "east", "south", "west"};
  constexpr int kEast[] = {0, 1, 0, -1}, kNorth[] = {1, 0, -1, 0};
  const Person who = draw_person(draw);
  int x = draw.between(-5, 5), y = draw.between(-5, 5);
  std::string out = concat(who.name, " starts at (", x, ", ", y, ").\n");
  const int moves = draw.between(5, 16);
  for (int i = 0; i < moves; ++i) {
    const int way = draw.below(4), distance = draw.between(1, 9);
    x += kEast[way] * distance;
    y += kNorth[way] * distance;
    out += concat(capital(who.they), " goes ", distance, " ", kWays[way], " and is at (", x, ", ",
                  y, ").\n");
  }
  out += concat("In the end ", who.name, " is ", std::abs(x), x < 0 ? " west" : " east", " and ",
                std::abs(y), y < 0 ? " south" : " north", " of the well.\n");
  return out;
}

// Spelling: words reversed, in capitals, sorted, measured.
std::string write_words(Draw& draw) {
  std::string out = "Words\n";
  const int lines = draw.between(6, 16);
  for (int i = 0; i < lines; ++i) {
    const std::string word(draw.one_in(2) ? draw.pick(things()) : draw.pick(animals()));
    switch (draw.below(4)) {
      case 0:
        out += concat(word, " backwards is ", std::string(word.rbegin(), word.rend()), "\n");
        break;
      case 1: {
        std::string loud = word;
        std::transform(loud.begin(), loud.end(), loud.begin(), to_capital);
        out += concat(word, " in capitals is ", loud, "\n");
        break;
      }
      case 2:
        out += concat(word, " has ", word.size(), " letters, the first is ", word.front(),
                      ", the last is ", word.back(), "\n");
        break;
      default: {
        std::string_view sorted[] = {draw.pick(things()), draw.pick(animals()), draw.pick(foods()),
                                     draw.pick(colors())};
        out += concat("sort ", sorted[0], " ", sorted[1], " ", sorted[2], " ", sorted[3]);
        std::sort(std::begin(sorted), std::end(sorted));
        out += concat(" -> ", sorted[0], " ", sorted[1], " ", sorted[2], " ", sorted[3], "\n");
      }
    }
  }
  return out;
}

}  // namespace sextant
