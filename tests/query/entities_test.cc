#include "query/entities.h"

#include <gtest/gtest.h>

#include "tests/support/profile_text.h"

namespace ptarmigan {
namespace {

TEST(EntityTable, GivesInlinedFramesTheirOwnEntities) {
  const Profile profile = ProfileFromText("main;outer>inner 5");
  const EntityTable table(profile);
  const auto frames = table.OfLocation(profile.Stack(0)[0]);
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(table.entities()[frames[0]].function, "inner");
  EXPECT_EQ(table.entities()[frames[1]].function, "outer");
}

TEST(EntityTable, NamesCodeWithoutSymbolsAfterItsObject) {
  const Profile profile = ProfileFromText("main;libx.so:? 5");
  const EntityTable table(profile);
  const Entity& entity = table.entities()[table.OfLocation(profile.Stack(0)[0])[0]];
  EXPECT_EQ(entity.function, "[libx.so]");
  EXPECT_FALSE(entity.is_symbolized);
}

TEST(EntityTable, KnowsKernelObjects) {
  EXPECT_TRUE(IsKernelObject("[kernel.kallsyms]_text"));
  EXPECT_TRUE(IsKernelObject("/lib/modules/6.1/nf.ko.xz"));
  EXPECT_FALSE(IsKernelObject("[vdso]"));
  EXPECT_FALSE(IsKernelObject("/bin/app"));
}

TEST(SelectSamples, KeepsFocusedAndDropsIgnored) {
  const Profile profile = ProfileFromText("main;a;x 1\nmain;b;x 2\nmain;a;y 4");
  const EntityTable table(profile);
  EXPECT_EQ(*SelectSamples(profile, table, {.focus = "^a$", .ignore = ""}),
            (std::vector<bool>{true, false, true}));
  EXPECT_EQ(*SelectSamples(profile, table, {.focus = "^a$", .ignore = "y"}),
            (std::vector<bool>{true, false, false}));
  const auto bad = SelectSamples(profile, table, {.focus = "(", .ignore = ""});
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace ptarmigan
