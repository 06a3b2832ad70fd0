#include "query/tree.h"

#include <gtest/gtest.h>

#include "base/str_format.h"
#include "tests/support/profile_text.h"

namespace ptarmigan {
namespace {

// "level:name self/total" per node.
std::vector<std::string> Lines(const CallTree& tree, const EntityTable& entities) {
  std::vector<std::string> lines;
  for (const CallTree::Node& node : tree.nodes) {
    lines.push_back(
        StrFormat("{}:{} {}/{}", node.level,
                  node.entity == kNoId ? "all" : entities.entities()[node.entity].function,
                  node.self, node.total));
  }
  return lines;
}

TEST(MakeCallTree, MergesFromTheRoot) {
  const Profile profile = ProfileFromText("main;a;x 1\nmain;b 5\nmain;a 2");
  const EntityTable entities(profile);
  const CallTree tree = MakeCallTree(profile, entities, {true, true, true}, {.sample_type = 1});
  EXPECT_EQ(Lines(tree, entities),
            (std::vector<std::string>{"0:all 0/8", "1:main 0/8", "2:b 5/5", "2:a 2/3", "3:x 1/1"}));
}

TEST(MakeCallTree, MergesFromTheLeafForCallers) {
  const Profile profile = ProfileFromText("main;a;x 1\nmain;b;x 5");
  const EntityTable entities(profile);
  const CallTree tree =
      MakeCallTree(profile, entities, {true, true}, {.sample_type = 1, .from_leaf = true});
  EXPECT_EQ(Lines(tree, entities),
            (std::vector<std::string>{"0:all 0/6", "1:x 6/6", "2:b 0/5", "3:main 0/5", "2:a 0/1",
                                      "3:main 0/1"}));
}

TEST(MakeCallTree, SaysWhatItCut) {
  const Profile profile = ProfileFromText("main;a 90\nmain;b 9\nmain;c 1");
  const EntityTable entities(profile);
  const CallTree tree =
      MakeCallTree(profile, entities, {true, true, true}, {.sample_type = 1, .share_min = 0.05});
  ASSERT_EQ(tree.nodes.size(), 4U);
  EXPECT_EQ(tree.nodes[1].children_cut, 1U);
  EXPECT_EQ(tree.nodes[1].value_cut, 1);
}

TEST(MakeCallTree, KeepsTheLargestNodesAtItsBound) {
  const Profile profile = ProfileFromText("main;a 90\nmain;b 9\nmain;c 1");
  const EntityTable entities(profile);
  const CallTree tree =
      MakeCallTree(profile, entities, {true, true, true}, {.sample_type = 1, .nodes_max = 3});
  EXPECT_EQ(Lines(tree, entities),
            (std::vector<std::string>{"0:all 0/100", "1:main 0/100", "2:a 90/90"}));
}

TEST(MakeCallTree, CanMergeInlinedFrames) {
  const Profile profile = ProfileFromText("main;outer>inner 7");
  const EntityTable entities(profile);
  const CallTree tree =
      MakeCallTree(profile, entities, {true}, {.sample_type = 1, .merge_inlined = true});
  EXPECT_EQ(Lines(tree, entities),
            (std::vector<std::string>{"0:all 0/7", "1:main 0/7", "2:outer 7/7"}));
}

}  // namespace
}  // namespace ptarmigan
