#include "export/internal/location_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "export/internal/protobuf_wire.h"
#include "proto/profile.pb.h"

namespace ptarmigan::internal {
namespace {

// The ids that protobuf's own parser finds in a sample that is nothing but the field.
std::vector<uint64_t> Parsed(std::string_view field) {
  perftools::profiles::Sample sample;
  EXPECT_TRUE(sample.ParseFromString(std::string(field)));
  return {sample.location_id().begin(), sample.location_id().end()};
}

// Locations 0, 1, ... have the ids 1, 2, ...
LocationLists InOrder(size_t locations) {
  std::vector<LocationId> numbered(locations);
  std::iota(numbered.begin(), numbered.end(), 0);
  return {numbered, locations};
}

std::vector<uint64_t> IdsOf(const std::vector<LocationId>& frames) {
  std::vector<uint64_t> ids(frames.begin(), frames.end());
  for (uint64_t& id : ids) ++id;
  return ids;
}

TEST(LocationLists, WriteTheIdsLeafFirst) {
  const std::vector<LocationId> numbered = {7, 0, 3};
  LocationLists lists(numbered, 8);
  const std::vector<LocationId> frames = {3, 0, 7, 0};
  EXPECT_EQ(Parsed(lists.Field(frames)), (std::vector<uint64_t>{3, 2, 1, 2}));
}

TEST(LocationLists, HaveNoFieldForNoFrames) {
  LocationLists lists = InOrder(2);
  EXPECT_EQ(lists.Field({}), "");
  const std::vector<LocationId> frames = {1, 0};
  EXPECT_EQ(Parsed(lists.Field(frames)), IdsOf(frames));
  EXPECT_EQ(lists.Field({}), "");
  EXPECT_EQ(Parsed(lists.Field(frames)), IdsOf(frames));
}

TEST(LocationLists, IdsOfEverySizeAreWrittenAsVarints) {
  // One less and one more than what fits into 1, 2 and 3 bytes.
  const size_t locations = (size_t{1} << 21) + 2;
  LocationLists lists = InOrder(locations);
  const std::vector<LocationId> frames = {0,     126,   127,           16382,         16383,
                                          16384, 65535, (1 << 21) - 2, (1 << 21) - 1, 1 << 21};
  EXPECT_EQ(Parsed(lists.Field(frames)), IdsOf(frames));
  const std::vector<LocationId> backwards(frames.rbegin(), frames.rend());
  EXPECT_EQ(Parsed(lists.Field(backwards)), IdsOf(backwards));
}

TEST(LocationLists, NeighboursThatShareCallersAreAsIfAlone) {
  LocationLists lists = InOrder(1000);
  const std::vector<std::vector<LocationId>> stacks = {
      {5, 4, 3, 2, 1},         // nothing before it
      {6, 4, 3, 2, 1},         // another leaf
      {4, 3, 2, 1},            // only callers
      {999, 300, 4, 3, 2, 1},  // longer, with larger ids
      {999, 300, 4, 3, 2, 1},  // the same
      {1},                     // the root alone
      {2},                     // nothing shared
      {5, 4, 3, 2, 1, 0, 2},   // deeper than any before
  };
  for (const auto& stack : stacks) EXPECT_EQ(Parsed(lists.Field(stack)), IdsOf(stack));
}

TEST(LocationLists, GrowForDeepStacksAndForgetWhatTheyShared) {
  LocationLists lists = InOrder(1000);
  std::vector<LocationId> stack(3, 999);
  // Of references into `stack` the one before must stay valid.
  std::vector<std::vector<LocationId>> kept;
  for (size_t depth = 1; depth < 5000; depth *= 3) {
    stack.resize(depth, 998);
    kept.push_back(stack);
    EXPECT_EQ(Parsed(lists.Field(kept.back())), IdsOf(stack)) << depth;
  }
}

TEST(LocationLists, TakeTheMemoryOfTheDeepestStackHoweverSlowlyStacksDeepen) {
  std::vector<LocationId> numbered(1);
  internal::LocationLists lists(numbered, 1);
  const std::vector<LocationId> frames(100);  // (must stay until the call after the next)
  for (size_t depth = 1; depth <= frames.size(); ++depth) {
    EXPECT_EQ(lists.Field(std::span(frames).first(depth)).size(), depth + 2);
  }
}

TEST(LocationLists, AgreeWithProtobufOnRandomStacks) {
  std::mt19937 random(1);
  constexpr size_t kLocations = 40000;
  LocationLists lists = InOrder(kLocations);
  std::vector<LocationId> last;
  for (int i = 0; i < 2000; ++i) {
    const size_t shared = last.empty() ? 0 : random() % (last.size() + 1);
    std::vector<LocationId> next(random() % 20);
    for (LocationId& id : next)
      id = static_cast<LocationId>(random() % (random() % 2 ? 100 : kLocations));
    next.insert(next.end(), last.end() - static_cast<std::ptrdiff_t>(shared), last.end());
    if (next.size() > 300) next.resize(3);
    ASSERT_EQ(Parsed(lists.Field(next)), IdsOf(next));
    perftools::profiles::Sample sample;
    for (const uint64_t id : IdsOf(next)) sample.add_location_id(id);
    ASSERT_EQ(lists.Field(next), sample.SerializeAsString());
    last = std::move(next);  // (its frames stay where they are)
  }
}

}  // namespace
}  // namespace ptarmigan::internal
