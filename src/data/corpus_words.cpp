#include "data/corpus_words.h"

#include "base/error.h"

namespace sextant::corpus {
namespace {

constexpr std::string_view kGirls[] = {
    "Ada",   "Bella", "Clara", "Dora", "Edith", "Flora", "Greta", "Hanna", "Ida",    "Jana",
    "Karin", "Lena",  "Mira",  "Nora", "Olga",  "Petra", "Rosa",  "Sofia", "Tilda",  "Una",
    "Vera",  "Wanda", "Yara",  "Zoe",  "Agnes", "Beate", "Celia", "Delia", "Esther", "Frida"};
constexpr std::string_view kBoys[] = {
    "Adam",   "Boris",  "Carl",   "David", "Emil",  "Felix", "Georg",   "Hugo",   "Igor",   "Jakob",
    "Kasper", "Leo",    "Max",    "Nils",  "Oscar", "Paul",  "Quentin", "Robert", "Samuel", "Tom",
    "Ulrich", "Victor", "Walter", "Xaver", "Yuri",  "Zeno",  "Anton",   "Bruno",  "Dario",  "Enzo"};
constexpr std::string_view kAnimals[] = {
    "dog",   "cat",    "owl",    "fox",    "goat",   "horse",    "duck",  "crow",   "hedgehog",
    "mouse", "rabbit", "donkey", "frog",   "badger", "squirrel", "otter", "beaver", "swan",
    "sheep", "pony",   "heron",  "turtle", "pigeon", "weasel",   "raven", "eagle",  "ox"};
constexpr std::string_view kThings[] = {
    "lantern",   "map",    "kettle", "violin",  "compass", "basket", "hammer",  "mirror",   "key",
    "rope",      "book",   "clock",  "whistle", "needle",  "bottle", "candle",  "umbrella", "drum",
    "telescope", "bucket", "spoon",  "coat",    "blanket", "coin",   "ring",    "saw",      "flute",
    "ladder",    "letter", "jar",    "box",     "pencil",  "axe",    "sextant", "bell",     "kite"};
constexpr std::string_view kPlural[] = {
    "apples",  "pears",   "plums",  "nuts",      "eggs",    "stones",  "shells",  "feathers",
    "candles", "buttons", "coins",  "letters",   "nails",   "ribbons", "carrots", "onions",
    "stamps",  "marbles", "lemons", "mushrooms", "bottles", "books",   "pebbles", "flowers"};
constexpr std::string_view kPlaces[] = {
    "the mill",    "the harbour", "the old bridge", "the forest", "the market",   "the library",
    "the hill",    "the lake",    "the station",    "the bakery", "the school",   "the lighthouse",
    "the farm",    "the river",   "the castle",     "the garden", "the workshop", "the inn",
    "the orchard", "the quarry",  "the church",     "the meadow", "the tower",    "the well"};
constexpr std::string_view kAdjectives[] = {
    "small",   "old",     "heavy",    "bright", "quiet",  "broken",  "clean",
    "strange", "warm",    "cold",     "narrow", "round",  "soft",    "dusty",
    "shiny",   "crooked", "useful",   "empty",  "gentle", "brave",   "clever",
    "patient", "curious", "stubborn", "tired",  "lonely", "cheerful"};
constexpr std::string_view kColors[] = {"red",   "blue", "green",  "yellow", "white",  "black",
                                        "brown", "grey", "orange", "purple", "silver", "golden"};
constexpr std::string_view kMaterials[] = {"wood", "iron", "glass", "stone",   "copper", "paper",
                                           "clay", "silk", "wool",  "leather", "brass",  "straw"};
constexpr std::string_view kWeathers[] = {
    "it was raining",          "the sun was shining", "a strong wind blew",
    "fog lay over the fields", "snow was falling",    "the air was still",
    "thunder rolled far away", "the sky was clear",   "the first frost had come",
    "a light rain began",      "clouds hung low",     "the stars were out"};
constexpr std::string_view kFeelings[] = {"happy",  "sad",    "proud",   "afraid",
                                          "angry",  "glad",   "worried", "grateful",
                                          "sleepy", "hungry", "excited", "calm"};
constexpr std::string_view kJobs[] = {"baker",     "miller", "teacher", "sailor",     "doctor",
                                      "carpenter", "farmer", "painter", "tailor",     "smith",
                                      "gardener",  "fisher", "weaver",  "clockmaker", "postman"};
constexpr std::string_view kSeasons[] = {"spring", "summer", "autumn", "winter"};
constexpr std::string_view kMonths[] = {"January",   "February", "March",    "April",
                                        "May",       "June",     "July",     "August",
                                        "September", "October",  "November", "December"};
constexpr std::string_view kWeekdays[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                          "Friday", "Saturday", "Sunday"};
constexpr std::string_view kFoods[] = {"bread", "soup", "cheese",  "porridge", "cake", "honey",
                                       "rice",  "stew", "butter",  "salad",    "pie",  "fish",
                                       "beans", "jam",  "noodles", "potatoes", "tea",  "milk"};
constexpr std::string_view kAdverbs[] = {"slowly",  "quickly",  "quietly", "carefully",
                                         "happily", "suddenly", "gently",  "patiently",
                                         "proudly", "sadly",    "bravely", "at once"};
constexpr std::string_view kActions[] = {
    "swept the floor",    "mended the fence",     "watched the clouds",  "counted the sheep",
    "lit the stove",      "fed the chickens",     "wrote in a notebook", "listened at the door",
    "climbed the stairs", "looked for mushrooms", "carried water",       "polished the brass",
    "read the newspaper", "cut the hay",          "painted the gate",    "sang an old song",
    "baked a loaf",       "repaired the roof",    "planted beans",       "drew a picture",
    "folded the sails",   "tuned the piano",      "washed the windows",  "chopped the wood"};
constexpr std::string_view kOnes[] = {"zero",    "one",     "two",       "three",    "four",
                                      "five",    "six",     "seven",     "eight",    "nine",
                                      "ten",     "eleven",  "twelve",    "thirteen", "fourteen",
                                      "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::string_view kTens[] = {"",      "",      "twenty",  "thirty", "forty",
                                      "fifty", "sixty", "seventy", "eighty", "ninety"};
constexpr std::string_view kStarts[] = {"Bal", "Cor", "Dun", "Fen", "Gar", "Hol", "Kel", "Lor",
                                        "Mar", "Nor", "Os",  "Pel", "Rav", "Sil", "Tor", "Vel"};
constexpr std::string_view kMiddles[] = {"a", "e", "i", "o", "en", "in", "ar", "el", "und", "est"};
constexpr std::string_view kEnds[] = {"ford",  "stead", "wick", "holm",  "burg", "dale",
                                      "mouth", "ton",   "by",   "haven", "mere", "field"};

Person person_of(int index) {
  constexpr int girls = std::size(kGirls);
  if (index < girls) return {kGirls[index], "she", "her", "her"};
  return {kBoys[index - girls], "he", "him", "his"};
}

}  // namespace

Person draw_person(Draw& draw) {
  return person_of(draw.below(static_cast<int>(std::size(kGirls) + std::size(kBoys))));
}

Person draw_person_other(Draw& draw, const Person& than) {
  Person person = draw_person(draw);
  while (person.name == than.name) person = draw_person(draw);
  return person;
}

Words animals() {
  return kAnimals;
}
Words things() {
  return kThings;
}
Words plural_things() {
  return kPlural;
}
Words places() {
  return kPlaces;
}
Words adjectives() {
  return kAdjectives;
}
Words colors() {
  return kColors;
}
Words materials() {
  return kMaterials;
}
Words weathers() {
  return kWeathers;
}
Words feelings() {
  return kFeelings;
}
Words jobs() {
  return kJobs;
}
Words seasons() {
  return kSeasons;
}
Words months() {
  return kMonths;
}
Words weekdays() {
  return kWeekdays;
}
Words foods() {
  return kFoods;
}
Words adverbs() {
  return kAdverbs;
}
Words past_actions() {
  return kActions;
}

std::string with_article(std::string_view noun) {
  const bool vowel = std::string_view("aeiou").find(noun.front()) != std::string_view::npos;
  const bool sounds_like_vowel = vowel && !noun.starts_with("use");
  return concat(sounds_like_vowel ? "an " : "a ", noun);
}

std::string capital(std::string_view text) {
  std::string out(text);
  if (!out.empty() && out[0] >= 'a' && out[0] <= 'z')
    out[0] = static_cast<char>(out[0] - 'a' + 'A');
  return out;
}

std::string number_word(int n) {
  if (n < 20) return std::string(kOnes[n]);
  if (n < 100) return concat(kTens[n / 10], n % 10 ? "-" : "", n % 10 ? kOnes[n % 10] : "");
  const std::string hundreds = concat(kOnes[n / 100], " hundred");
  return n % 100 ? concat(hundreds, " and ", number_word(n % 100)) : hundreds;
}

std::string count_of(int n, std::string_view plural) {
  return concat(number_word(n), " ", n == 1 ? plural.substr(0, plural.size() - 1) : plural);
}

std::string invented_name(Draw& draw) {
  return concat(draw.pick(kStarts), draw.one_in(2) ? draw.pick(kMiddles) : "", draw.pick(kEnds));
}

}  // namespace sextant::corpus
