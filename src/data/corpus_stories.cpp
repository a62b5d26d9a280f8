// Stories keep a small world state (who holds what, how many are left, where everyone is), so that
// long context improves prediction.
#include "base/error.h"
#include "data/corpus_draw.h"
#include "data/corpus_words.h"

namespace sextant {
namespace {

using namespace corpus;

struct World {
  Person hero, friend_;
  std::string town;
  std::string_view job, trait, color, thing, animal, place, far_place, goods;
  std::string pet;
  int count = 0;  // goods that the hero has
};

World draw_world(Draw& draw) {
  World world;
  world.hero = draw_person(draw);
  world.friend_ = draw_person_other(draw, world.hero);
  world.town = invented_name(draw);
  world.job = draw.pick(jobs());
  world.trait = draw.pick(adjectives());
  world.color = draw.pick(colors());
  world.thing = draw.pick(things());
  world.animal = draw.pick(animals());
  world.place = draw.pick(places());
  world.far_place = draw.pick_other(places(), world.place);
  world.goods = draw.pick(plural_things());
  do world.pet = draw_person_other(draw, world.friend_).name;
  while (world.pet == world.hero.name);
  world.count = draw.between(5, 20);
  return world;
}

std::string opening(Draw& draw, const World& w) {
  std::string out;
  switch (draw.below(4)) {
    case 0:
      out = concat("Once there was ", with_article(w.trait), " ", w.job, " named ", w.hero.name,
                   " who lived near ", w.place, " of ", w.town, ". ");
      break;
    case 1:
      out = concat("In ", w.town, ", close to ", w.place, ", lived ", w.hero.name, ", ",
                   with_article(w.job), " whom everyone called ", w.trait, ". ");
      break;
    case 2:
      out = concat(w.hero.name, " was the only ", w.job, " in ", w.town, ". ");
      break;
    default:
      out = concat("One ", draw.pick(seasons()), " ", draw.any("morning", "evening", "afternoon"),
                   " in ", w.town, ", ", w.hero.name, " the ", w.job, " ",
                   draw.pick(past_actions()), ". ");
  }
  out += capital(w.hero.they);
  out += concat(" had ", with_article(w.color), " ", w.thing, " and ", with_article(w.animal),
                " called ", w.pet, ". ");
  if (draw.one_in(2))
    out += concat(capital(w.hero.their), " best friend was ", w.friend_.name, ", who ",
                  draw.pick(past_actions()), " every ", draw.pick(weekdays()), ". ");
  return out;
}

std::string trouble(Draw& draw, const World& w) {
  std::string out = concat(draw.any("One day", "Then, one night,", "That week", "Before long"), " ",
                           draw.pick(weathers()), ", and ");
  switch (draw.below(4)) {
    case 0:
      out +=
          concat("the ", w.color, " ", w.thing, " was gone. ", capital(w.hero.they),
                 " looked under the bed, behind the stove and in the ", draw.pick(colors()),
                 " box, but found only ", with_article(draw.pick_other(things(), w.thing)), ". ");
      break;
    case 1:
      out += concat(w.pet, " the ", w.animal, " did not come home. ", w.hero.name,
                    " called and called, but only the wind answered. ");
      break;
    case 2:
      out += concat("a letter came from ", w.far_place, ". It said: \"", w.friend_.name, " needs ",
                    with_article(w.thing), ". Please come ", draw.pick(adverbs()), ".\" ");
      break;
    default:
      out += concat("the road to ", w.far_place, " was closed. Nobody in ", w.town, " had any ",
                    draw.pick(foods()), " left. ");
  }
  out += concat(w.hero.name, " was ", draw.pick(feelings()), ". \"",
                draw.any("What shall I do?", "I must not give up.", "Who can help me now?",
                         "There has to be a way."),
                "\" ", w.hero.they, " said. ");
  return out;
}

// The hero trades counted goods; every number follows from earlier ones.
std::string journey(Draw& draw, World& w) {
  std::string out = concat("So ", w.hero.they, " packed ", count_of(w.count, w.goods),
                           " and walked to ", w.far_place, ". ");
  const int meetings = draw.between(1, 3);
  for (int i = 0; i < meetings && w.count > 1; ++i) {
    const std::string_view someone = draw.pick(jobs());
    const int change = draw.between(1, std::min(w.count - 1, 6));
    if (draw.one_in(3)) {
      out += concat("On the way ", w.hero.they, " met ", with_article(someone), ", who gave ",
                    w.hero.them, " ", number_word(change), " more. ");
      w.count += change;
    } else {
      out += concat(draw.any("By the road", "At a crossing", "Under a tree", "Near the water"),
                    " sat ", with_article(draw.pick(adjectives())), " ", someone, ". ", w.hero.name,
                    " ", draw.any("gave", "sold", "handed"), " the ", someone, " ",
                    number_word(change), " of the ", w.goods, ". ");
      w.count -= change;
    }
    out += concat(draw.any("Now ", "After that ", "So "), w.hero.they, " had ",
                  count_of(w.count, w.goods), ". ");
  }
  return out;
}

std::string ending(Draw& draw, const World& w) {
  std::string out = concat("At ", w.far_place, " ", w.hero.they, " found ");
  switch (draw.below(3)) {
    case 0:
      out += concat(w.friend_.name, " with the ", w.color, " ", w.thing, " in ", w.friend_.their,
                    " hands. \"I kept it safe for you,\" said ", w.friend_.name, ". ");
      break;
    case 1:
      out += concat(w.pet, " the ", w.animal, ", asleep beside ",
                    with_article(draw.pick(materials())), " door. ");
      break;
    default:
      out += concat("an answer at last: ", with_article(draw.pick(adjectives())), " ",
                    draw.pick(jobs()), " who knew ", w.town, " well. ");
  }
  out +=
      concat(capital(w.hero.they), " thanked ", draw.any("everyone", "the stars", "good luck"),
             ", shared the last ", count_of(w.count, w.goods), " and went home to ", w.town, ". ");
  if (draw.one_in(2))
    out += concat("From that day on ", w.hero.name, " and ", w.friend_.name, " met at ", w.place,
                  " every ", draw.pick(weekdays()), ". ");
  out += concat("And ", w.pet, " the ", w.animal,
                draw.any(" was never lost again.", " slept by the fire.",
                         " had the best seat in the house.", " agreed."),
                "\n");
  return out;
}

}  // namespace

std::string write_story(Draw& draw) {
  World world = draw_world(draw);
  std::string out = concat("The ", capital(world.job), " of ", world.town, "\n\n");
  const auto add = [&](std::string paragraph) {
    while (paragraph.back() == ' ') paragraph.pop_back();
    out += paragraph + "\n";
  };
  add(opening(draw, world));
  add(trouble(draw, world));
  add(journey(draw, world));
  if (draw.one_in(3)) add(trouble(draw, world));
  out += ending(draw, world);
  return out;
}

std::string write_letter(Draw& draw) {
  const Person from = draw_person(draw), to = draw_person_other(draw, from);
  const std::string town = invented_name(draw);
  const std::string_view goods = draw.pick(plural_things()), thing = draw.pick(things());
  const int had = draw.between(6, 30), used = draw.between(1, had - 1), day = draw.between(1, 28);
  std::string out =
      concat(town, ", ", draw.pick(months()), " ", day, "\n\nDear ", to.name, ",\n\n");
  out += concat(draw.any("Thank you for your letter. ", "I hope you are well. ",
                         "It has been a long time. ", "How are you? "),
                "Here in ", town, " ", draw.pick(weathers()), " when I woke up, and I ",
                draw.pick(past_actions()), " until noon. ");
  out += concat("Last ", draw.pick(weekdays()), " I bought ", had, " ", goods, " at ",
                draw.pick(places()), ". I have used ", used, " of them, so ", had - used,
                " are left. ");
  if (draw.one_in(2))
    out += concat("Do you remember the ", draw.pick(adjectives()), " ", thing, " made of ",
                  draw.pick(materials()), "? I gave the ", thing, " to the ", draw.pick(jobs()),
                  ", who was very ", draw.pick(feelings()), ". ");
  if (draw.one_in(2))
    out += concat("\n\nMy ", draw.pick(animals()), " is ", draw.pick(feelings()),
                  " and ate all the ", draw.pick(foods()), ". ");
  out += concat("\n\nPlease visit me in ", draw.pick(months()), ". We can walk to ",
                draw.pick(places()), " and eat ", draw.pick(foods()), " with ", draw.pick(foods()),
                ".\n\n");
  out +=
      concat(draw.any("Your friend", "With love", "Yours", "Best wishes"), ",\n", from.name, "\n");
  return out;
}

// The answers follow from earlier lines.
std::string write_dialogue(Draw& draw) {
  const Person a = draw_person(draw), b = draw_person_other(draw, a);
  const std::string_view place = draw.pick(places()), thing = draw.pick(things());
  const std::string_view color = draw.pick(colors()), job = draw.pick(jobs());
  const std::string_view day = draw.pick(weekdays()), food = draw.pick(foods());
  const int price = draw.between(2, 60), count = draw.between(2, 9);
  std::string out = concat(a.name, ": Good ", draw.any("morning", "evening", "day"), ", ", b.name,
                           "! Where were you on ", day, "?\n");
  out += concat(b.name, ": I was at ", place, ". I bought ", with_article(color), " ", thing,
                " from the ", job, " for ", price, " crowns.\n");
  const int questions = draw.between(2, 6);
  for (int i = 0; i < questions; ++i) {
    switch (draw.below(6)) {
      case 0:
        out += concat(a.name, ": What did you buy?\n", b.name, ": ", capital(with_article(color)),
                      " ", thing, ".\n");
        break;
      case 1:
        out += concat(a.name, ": Who sold it to you?\n", b.name, ": The ", job, " did.\n");
        break;
      case 2:
        out += concat(a.name, ": How much would ", count, " of them cost?\n", b.name, ": ", count,
                      " times ", price, " is ", count * price, " crowns.\n");
        break;
      case 3:
        out +=
            concat(a.name, ": And where was that?\n", b.name, ": At ", place, ", on ", day, ".\n");
        break;
      case 4:
        out += concat(a.name, ": Are you ", draw.pick(feelings()), " about it?\n", b.name, ": ",
                      draw.any("Yes, very.", "Not really.", "A little.", "Ask me tomorrow."), "\n");
        break;
      default:
        out += concat(a.name, ": Is the ", thing, " ", draw.pick(colors()), "?\n", b.name,
                      ": It is ", color, ", as I said.\n");
    }
  }
  out += concat(a.name, ": Then let us eat some ", food, ".\n", b.name, ": ", capital(food),
                " sounds good. Goodbye, ", a.name, "!\n");
  return out;
}

}  // namespace sextant
