#include "schedule/schedule_csv.h"

#include <gtest/gtest.h>

#include "schedule/add_comms.h"
#include "schedule/generators.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

Schedule read(const std::string& text) {
  return read_schedule_csv(text, "s.csv");
}
const std::string kHead = "name=mine,stages=2,micros=2,placement=loop\n";

TEST(ScheduleCsv, IsOneLinePerRank) {
  EXPECT_EQ(write_schedule_csv(one_f_one_b(2, 2)),
            "name=1f1b,stages=2,micros=2,placement=loop\n"
            "0F0,0F1,0B0,0B1\n"
            "1F0,1B0,1F1,1B1\n");
}

TEST(ScheduleCsv, ComesBackAsItWent) {
  for (const Schedule& made :
       {gpipe(3, 4), zb_v(3, 5), dualpipe(4, 8), dualpipe_v(3, 6), interleaved(2, 4, 3, 2)})
    for (const Schedule& schedule : {made, add_comms(made)}) {
      const Schedule back = read(write_schedule_csv(schedule));
      EXPECT_EQ(back.name, schedule.name);
      EXPECT_EQ(back.stages, schedule.stages);
      EXPECT_EQ(back.micros, schedule.micros);
      EXPECT_EQ(back.placement, schedule.placement);
      EXPECT_EQ(back.ranks, schedule.ranks);
    }
}

TEST(ScheduleCsv, SkipsSpacesAndEmptyCellsAndTrailingLines) {
  const Schedule schedule =
      read(" placement=v , stages=2, micros=1,name=x\r\n 0F0 , ,1F0& 1B0,0B0,\r\n\n\n");
  EXPECT_EQ(schedule.placement, Placement::V);
  ASSERT_EQ(schedule.size(), 1);
  EXPECT_EQ(schedule.ranks[0],
            (std::vector<Action>{
                {Kind::F, 0, 0}, {Kind::F, 1, 0, true}, {Kind::B, 1, 0}, {Kind::B, 0, 0}}));
}

TEST(ScheduleCsv, AnEmptyLineBetweenOthersIsARankWithNothingToDo) {
  EXPECT_EQ(read(kHead + "0F0\n\n1F0\n").size(), 3);
}

TEST(ScheduleCsv, NamesLineAndColumnOfWhatItCannotRead) {
  EXPECT_ERROR(read(kHead + "0F0,0F1\n1F0,1B0,1X1\n"), Data,
               "s.csv:3, column 3: '1X1' is no action; stage, kind and micro such as 0F3");
  EXPECT_ERROR(read(kHead + "0F0,F1\n"), Data, "s.csv:2, column 2: 'F1' is no action");
  EXPECT_ERROR(read(kHead + "0F\n"), Data, "'0F' is no action");
  EXPECT_ERROR(read(kHead + "0F1x\n"), Data, "'0F1x' is no action");
  EXPECT_ERROR(read(kHead + "0f1\n"), Data, "'0f1' is no action");
  EXPECT_ERROR(read(kHead + "-1F1\n"), Data, "'-1F1' is no action");
  EXPECT_ERROR(read(kHead + "0F99999999999999999999\n"), Data, "is no action");
  EXPECT_ERROR(read(kHead + "0ReduceGrads\n"), Data, "'0ReduceGrads' is no action");
  EXPECT_ERROR(read(kHead + "0F0&0B0&0F1\n"), Data, "joins more than two");
  EXPECT_ERROR(read(kHead + "0F0&\n"), Data, "'' is no action");
  EXPECT_ERROR(read(kHead + "2F0\n"), Data, "s.csv:2, column 1: '2F0': stages are 0 ... 1");
  EXPECT_ERROR(read(kHead + "0F2\n"), Data, "s.csv:2, column 1: '0F2': micros are 0 ... 1");
}

TEST(ScheduleCsv, NeedsItsHead) {
  EXPECT_ERROR(read(""), Data, "s.csv: empty");
  EXPECT_ERROR(read("0F0,0B0\n"), Data, "s.csv:1, column 1: '0F0' is none of name=");
  EXPECT_ERROR(read("name=x,stages=1,micros=1\n0F0\n"), Data, "placement= is missing");
  EXPECT_ERROR(read("name=x,stages=1,micros=1,placement=w\n0F0\n"), Data,
               "placement=w; there are loop, v and dual");
  EXPECT_ERROR(read("name=x,stages=0,micros=1,placement=v\n0F0\n"), Data, "stages=0; a number");
  EXPECT_ERROR(read("name=x,stages=1,micros=2.5,placement=v\n0F0\n"), Data, "micros=2.5; a number");
  EXPECT_ERROR(read("name=x,stages=1,stages=2\n"), Data, "s.csv:1, column 3: stages comes twice");
  EXPECT_ERROR(read(kHead), Data, "no line of actions follows");
}

}  // namespace
}  // namespace sextant
