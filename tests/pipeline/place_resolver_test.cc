#include "pipeline/internal/place_resolver.h"

#include <gtest/gtest.h>

#include <string>

#include "base/file.h"
#include "base/str_format.h"
#include "tests/support/test_data.h"

namespace ptarmigan::internal {
namespace {

class PlaceResolverTest : public ::testing::TestWithParam<bool> {
 protected:
  PlaceResolverTest() : symbolizer_(WithoutSymbols()) {
    object_.path = "/bin/app";
    object_.first_start = {0x10000};
    object_.first_offset = {0x1000};
  }
  static SymbolizerOptions WithoutSymbols() {
    SymbolizerOptions options;
    options.symbols = false;
    return options;
  }
  CodeObject object_;
  Symbolizer symbolizer_;
};

INSTANTIATE_TEST_SUITE_P(Background, PlaceResolverTest, ::testing::Bool());

TEST_P(PlaceResolverTest, AnswersForEveryPlaceBeyondItsQueuesBound) {
  PlaceResolver resolver(symbolizer_, GetParam());
  constexpr uint32_t kPlaces =
      static_cast<uint32_t>(PlaceResolver::kBatchPlaces * (PlaceResolver::kBatchesMax + 2)) + 1;
  for (uint32_t i = 0; i < kPlaces; ++i) {
    resolver.Add(i, {.object = &object_, .position = 0x1000 + uint64_t{i}}, {});
  }
  resolver.Finish();
  ASSERT_EQ(resolver.places().size(), kPlaces);
  // Without the file: as the first mapping had it.
  EXPECT_EQ(resolver.places().front().address, 0x10000U);
  EXPECT_EQ(resolver.places().back().address, 0x10000U + kPlaces - 1);
  EXPECT_EQ(resolver.places().back().miss, SymbolMiss::kSymbolsOff);
  ASSERT_EQ(resolver.object_order().size(), 1U);
  const Profile::Mapping& mapping = resolver.objects()[0].mapping;
  EXPECT_EQ(mapping.start.value, 0x10000U);
  EXPECT_EQ(mapping.limit.value, 0x10000U + kPlaces);
  EXPECT_FALSE(mapping.has_functions);
}

TEST_P(PlaceResolverTest, HoldsTheLastAddressThatThereIs) {
  CodeObject unknown;
  unknown.kind = CodeObject::Kind::kUnknown;
  unknown.path = "[unknown]";
  PlaceResolver resolver(symbolizer_, GetParam());
  resolver.Add(0, {.object = &unknown, .position = UINT64_MAX}, {});
  resolver.Finish();
  const Profile::Mapping& mapping = resolver.objects()[0].mapping;
  EXPECT_LE(mapping.start, mapping.limit);
}

TEST_P(PlaceResolverTest, EndsWithoutFinish) {
  PlaceResolver resolver(symbolizer_, GetParam());
  for (uint32_t i = 0; i < 10 * PlaceResolver::kBatchPlaces; ++i) {
    resolver.Add(i, {.object = &object_, .position = i}, {});
  }
}

TEST_P(PlaceResolverTest, LeavesAnonymousCodeForTheEnd) {
  CodeObject code;
  code.index = 1;
  code.kind = CodeObject::Kind::kAnonymous;
  code.path = "//anon";
  code.pid = 1;
  PlaceResolver resolver(symbolizer_, GetParam());
  resolver.Add(0, {.object = &code, .position = 0x7000}, {});
  resolver.Add(1, {.object = &object_, .position = 0x1000}, {});
  resolver.Finish();
  ASSERT_EQ(resolver.places().size(), 2U);
  EXPECT_EQ(resolver.places()[0].address, 0x7000U);
  EXPECT_EQ(resolver.places()[1].address, 0x10000U);
  EXPECT_EQ(resolver.object_order().back(), 1U);
}

TEST_P(PlaceResolverTest, NamesEachFunctionOnceInWhateverOrderPlacesCome) {
  constexpr uint64_t kStart = 0xffffffff81000000;
  constexpr uint32_t kFunctions = 3000;
  const std::string root = TestTemporaryDirectory();
  ASSERT_TRUE(MakeDirectories(root));
  auto kallsyms = OutputFile::Create(JoinPath(root, "kallsyms"));
  ASSERT_TRUE(kallsyms);
  for (uint32_t i = 0; i < kFunctions; ++i) {
    ASSERT_TRUE(kallsyms->Write(StrFormat("{:x} T f{}\n", kStart + i * 16, i)));
  }
  ASSERT_TRUE(kallsyms->Commit());
  SymbolizerOptions options;
  options.live = true;
  options.cache_directory = "-";
  options.proc_root = options.sys_root = root;
  Symbolizer symbolizer(options);
  CodeObject kernel;
  kernel.kind = CodeObject::Kind::kKernel;
  kernel.path = "[kernel.kallsyms]";

  PlaceResolver resolver(symbolizer, GetParam());
  // Two places in each function, far from each other in time.
  constexpr uint32_t kStep = 1327;  // has no divisor in common with kFunctions
  for (uint32_t i = 0; i < 2 * kFunctions; ++i) {
    const uint64_t function = uint64_t{i} * kStep % kFunctions;
    const uint64_t distance = i < kFunctions ? 3 : 9;
    resolver.Add(i, {.object = &kernel, .position = kStart + function * 16 + distance}, {});
  }
  resolver.Finish();
  const Profile& profile = resolver.builder().profile();
  EXPECT_EQ(profile.functions.size(), kFunctions);
  for (uint32_t i = 0; i < 2 * kFunctions; ++i) {
    const NamedPlace& place = resolver.places()[i];
    ASSERT_EQ(place.lines_count, 1U);
    const Profile::Line& line = resolver.lines()[place.lines_begin];
    EXPECT_EQ(profile.Text(profile.functions[line.function].name),
              StrFormat("f{}", uint64_t{i} * kStep % kFunctions));
  }
}

}  // namespace
}  // namespace ptarmigan::internal
