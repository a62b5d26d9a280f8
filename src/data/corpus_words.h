#pragma once
#include <span>
#include <string>
#include <string_view>

#include "data/corpus_draw.h"

namespace sextant::corpus {

using Words = std::span<const std::string_view>;

struct Person {
  std::string_view name, they, them, their;
};

Person draw_person(Draw& draw);
Person draw_person_other(Draw& draw, const Person& than);

Words animals();
Words things();         // small enough to carry
Words plural_things();  // countable, in the plural, regular: "apples"
Words places();         // with article: "the mill"
Words adjectives();
Words colors();
Words materials();
Words weathers();  // "it was raining"
Words feelings();
Words jobs();
Words seasons();
Words months();
Words weekdays();
Words foods();
Words adverbs();
Words past_actions();  // done alone, past tense: "swept the floor"

std::string with_article(std::string_view noun);       // "an owl"
std::string capital(std::string_view text);            // first letter upper case
std::string number_word(int n);                        // 0..999: "forty-two"
std::string count_of(int n, std::string_view plural);  // "one apple", "three apples"
std::string invented_name(Draw& draw);                 // a fictional place

}  // namespace sextant::corpus
