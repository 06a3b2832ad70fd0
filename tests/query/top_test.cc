#include "query/top.h"

#include <gtest/gtest.h>

#include "tests/support/profile_text.h"

namespace ptarmigan {
namespace {

const TopRow* Find(const TopTable& top, const EntityTable& entities, std::string_view name) {
  for (const TopRow& row : top.rows) {
    if (entities.entities()[row.entity].function == name) return &row;
  }
  return nullptr;
}

TEST(MakeTop, CountsRecursionOnce) {
  const Profile profile = ProfileFromText("main;f;f;f 10\nmain;f;g 5");
  const EntityTable entities(profile);
  const TopTable top = MakeTop(profile, entities, {true, true}, {.order_by = 1});
  EXPECT_EQ(top.total, (std::vector<int64_t>{2, 15}));
  EXPECT_EQ(Find(top, entities, "f")->self, (std::vector<int64_t>{1, 10}));
  EXPECT_EQ(Find(top, entities, "f")->total, (std::vector<int64_t>{2, 15}));
  EXPECT_EQ(Find(top, entities, "main")->self, (std::vector<int64_t>{0, 0}));
}

TEST(MakeTop, GivesSelfToTheInnermostInlinedFunction) {
  const Profile profile = ProfileFromText("main;outer>inner 7");
  const EntityTable entities(profile);
  const TopTable top = MakeTop(profile, entities, {true}, {.order_by = 1});
  EXPECT_EQ(Find(top, entities, "inner")->self[1], 7);
  EXPECT_EQ(Find(top, entities, "outer")->self[1], 0);
  EXPECT_EQ(Find(top, entities, "outer")->total[1], 7);
}

TEST(MakeTop, OrdersAndCutsRows) {
  const Profile profile = ProfileFromText("a 1\nb 3\nc 2");
  const EntityTable entities(profile);
  const TopTable top =
      MakeTop(profile, entities, {true, true, true}, {.order_by = 1, .rows_max = 2});
  ASSERT_EQ(top.rows.size(), 2U);
  EXPECT_EQ(entities.entities()[top.rows[0].entity].function, "b");
  EXPECT_EQ(entities.entities()[top.rows[1].entity].function, "c");
  EXPECT_EQ(top.rows_cut, 1U);
}

TEST(MakeTop, LeavesOutWhatIsNotSelected) {
  const Profile profile = ProfileFromText("a 1\nb 3");
  const EntityTable entities(profile);
  const TopTable top = MakeTop(profile, entities, {true, false}, {.order_by = 1});
  EXPECT_EQ(top.total[1], 1);
  EXPECT_EQ(Find(top, entities, "b"), nullptr);
}

}  // namespace
}  // namespace ptarmigan
