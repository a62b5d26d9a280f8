// Documents with a form: entries, recipes, logs, tables, rhymes.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "data/corpus_draw.h"
#include "data/corpus_words.h"

namespace sextant {
namespace {

using namespace corpus;

// Rhyme families: any two of one family end a couplet.
constexpr std::string_view kRhymes[][6] = {
    {"cat", "hat", "mat", "rat", "bat", "flat"},
    {"light", "night", "kite", "bright", "white", "sight"},
    {"tree", "sea", "bee", "key", "tea", "knee"},
    {"moon", "spoon", "tune", "June", "balloon", "noon"},
    {"snow", "crow", "bow", "show", "row", "glow"},
    {"bell", "well", "shell", "smell", "spell", "hotel"},
    {"ring", "spring", "king", "string", "wing", "thing"},
    {"rain", "train", "lane", "grain", "chain", "cane"},
    {"boat", "coat", "goat", "note", "oat", "throat"},
    {"house", "mouse", "blouse", "grouse", "spouse", "louse"},
    {"day", "hay", "bay", "clay", "tray", "way"},
    {"stone", "bone", "phone", "cone", "throne", "tone"}};

std::string padded(std::string_view text, size_t width) {
  std::string out(text);
  out.resize(std::max(width, out.size()), ' ');
  return out;
}

std::string right(int number, size_t width) {
  const std::string text = concat(number);
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

std::string two_digits(int number) {
  return concat(number < 10 ? "0" : "", number);
}

std::string clock_time(int seconds) {
  return concat(two_digits(seconds / 3600 % 24), ":", two_digits(seconds / 60 % 60), ":",
                two_digits(seconds % 60));
}

std::string rhyme_line(Draw& draw, std::string_view last) {
  switch (draw.below(5)) {
    case 0:
      return concat("The ", draw.pick(adjectives()), " ", draw.pick(animals()), " has found ",
                    "the ", last);
    case 1:
      return concat("I saw ", with_article(draw.pick(animals())), " beside the ", last);
    case 2:
      return concat(capital(draw.pick(adverbs())), " we carried home the ", last);
    case 3:
      return concat(draw_person(draw).name, " went to look for one more ", last);
    default:
      return concat("My ", draw.pick(colors()), " ", draw.pick(things()), " is near the ", last);
  }
}

}  // namespace

std::string write_rhymes(Draw& draw) {
  std::string out = concat("A rhyme for ", draw_person(draw).name, "\n");
  const int couplets = draw.between(3, 8);
  for (int i = 0; i < couplets; ++i) {
    const auto& family = kRhymes[draw.below(static_cast<int>(std::size(kRhymes)))];
    const std::string_view first = draw.pick(family), second = draw.pick_other(family, first);
    out += concat(rhyme_line(draw, first), ",\n", rhyme_line(draw, second), ".\n");
    if (i % 2 == 1) out += "\n";
  }
  return out;
}

std::string write_entry(Draw& draw) {
  const std::string name = invented_name(draw), neighbour = invented_name(draw);
  const int founded = draw.between(900, 1900), age = draw.between(10, 400);
  const int people = draw.between(12, 990) * 10, houses = draw.between(5, 99);
  const std::string_view trade = draw.pick(foods()), river = draw.pick(colors());
  std::string out = concat(name, "\n\n", name, " is ", with_article(draw.pick(adjectives())),
                           " town on the ", capital(river), " River. ");
  out +=
      concat("It was founded in ", founded, " by ", with_article(draw.pick(jobs())), " named ",
             draw_person(draw).name, ", and in ", founded + age, " it was ", age, " years old. ");
  out += concat("About ", people, " people live there in ", houses,
                " streets. They are known for their ", trade, " and for ", draw.pick(places()),
                ", which is built of ", draw.pick(materials()), ". ");
  if (draw.one_in(2))
    out += concat("The nearest town is ", neighbour, ", ", draw.between(2, 80), " miles to the ",
                  draw.any("north", "south", "east", "west"), ". People of ", neighbour,
                  " come to ", name, " to buy ", trade, ". ");
  if (draw.one_in(2))
    out += concat("In ", draw.pick(months()), " there is a feast, at which ",
                  with_article(draw.pick(colors())), " ", draw.pick(animals()),
                  " is led through the streets. ");
  out += concat("The sign of ", name, " shows ", with_article(draw.pick(animals())), " with ",
                with_article(draw.pick(things())), ".\n");
  return out;
}

std::string write_recipe(Draw& draw) {
  const std::string_view dish = draw.pick(foods());
  const int people = draw.between(2, 8), parts = draw.between(3, 6);
  std::vector<std::string_view> used;
  std::string out =
      concat(capital(draw.pick(adjectives())), " ", dish, " for ", people, "\n\nYou need:\n");
  for (int i = 0; i < parts; ++i) {
    const std::string_view part =
        draw.one_in(2) ? draw.pick(foods()) : draw.pick(plural_things().subspan(0, 5));
    if (part == dish || std::find(used.begin(), used.end(), part) != used.end()) continue;
    used.push_back(part);
    out += concat("- ", people * draw.between(1, 5),
                  draw.any(" spoons of ", " cups of ", " ounces of "), part, "\n");
  }
  if (used.empty()) out += concat("- ", people, " cups of water\n");
  out += "\n";
  int step = 1;
  for (const std::string_view part : used)
    out += concat(step++, ". ", draw.any("Wash", "Cut", "Warm", "Mix in", "Weigh", "Stir"), " the ",
                  part, " ", draw.pick(adverbs()), ".\n");
  out +=
      concat(step++, ". Cook for ", draw.between(2, 12) * 5, " minutes.\n", step, ". Serve the ",
             dish, " ", draw.any("hot", "cold", "warm"), " to ", number_word(people), " people.\n");
  return out;
}

std::string write_log(Draw& draw) {
  constexpr std::string_view kParts[] = {"pump", "valve", "engine", "door",
                                         "lamp", "radio", "winch",  "sensor"};
  int now = draw.below(80000), level = draw.between(20, 80), number = draw.between(1, 900);
  std::string out =
      concat("Log of the ship ", invented_name(draw), ", ", draw.pick(weekdays()), "\n");
  const int lines = draw.between(8, 22);
  for (int i = 0; i < lines; ++i) {
    now += draw.between(1, 400);
    out += concat(clock_time(now), " #", number++, " ");
    const std::string_view part = draw.pick(kParts);
    switch (draw.below(4)) {
      case 0:
        level += draw.between(-9, 9);
        out += concat("INFO  tank level ", level,
                      level < 30   ? " LOW"
                      : level > 70 ? " HIGH"
                                   : " OK",
                      "\n");
        break;
      case 1:
        out += concat("INFO  ", part, " started by ", draw_person(draw).name, "\n");
        break;
      case 2: {
        const int heat = draw.between(20, 120);
        out += concat(heat > 90   ? "ERROR "
                      : heat > 70 ? "WARN  "
                                  : "INFO  ",
                      part, " temperature ", heat, "\n");
        break;
      }
      default:
        out += concat("INFO  ", part, " checked, next check at ", clock_time(now + 3600), "\n");
    }
  }
  return out;
}

std::string write_table(Draw& draw) {
  const int rows = draw.between(4, 9);
  int total_count = 0, total_price = 0;
  std::string out = concat("Stock of the ", draw.pick(jobs()), " in ", invented_name(draw), "\n",
                           padded("item", 12), " count price  total\n");
  std::vector<std::string_view> used;
  for (int i = 0; i < rows; ++i) {
    const std::string_view item = draw.pick(plural_things());
    if (std::find(used.begin(), used.end(), item) != used.end()) continue;
    used.push_back(item);
    const int count = draw.between(1, 40), price = draw.between(1, 25);
    out +=
        concat(padded(item, 12), right(count, 6), right(price, 6), right(count * price, 7), "\n");
    total_count += count;
    total_price += count * price;
  }
  out += concat(padded("all", 12), right(total_count, 6), "      ", right(total_price, 7), "\n");
  if (draw.one_in(2)) {
    std::sort(used.begin(), used.end());
    out += "In order:";
    for (const std::string_view item : used) out += concat(" ", item);
    out += "\n";
  }
  return out;
}

}  // namespace sextant
