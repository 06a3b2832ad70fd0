#include "export/formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "export/internal/compression.h"
#include "tests/export/profile_samples.h"
#include "tests/support/flow_profile.h"

namespace ptarmigan {
namespace {

using ::testing::HasSubstr;

std::string Written(const Profile& profile, Format format, const WriteOptions& options = {}) {
  std::string out;
  StringSink sink(&out);
  const Status status = WriteProfile(profile, format, options, &sink);
  EXPECT_TRUE(status.has_value()) << status.error().message;
  return out;
}

TEST(Formats, AreFoundByNameAndSuffix) {
  EXPECT_EQ(*FormatFromName("pprof"), Format::kPprof);
  EXPECT_EQ(*FormatFromPath("out/x.pb.gz"), Format::kPprof);
  EXPECT_EQ(*FormatFromPath("x.folded"), Format::kFolded);
  EXPECT_EQ(*FormatFromPath("x.speedscope.json"), Format::kSpeedscope);
  EXPECT_EQ(*FormatFromPath("x.json"), Format::kFirefox);
  EXPECT_EQ(*FormatFromPath("x.html"), Format::kHtml);
  EXPECT_EQ(*FormatFromPath("x.ptarmigan"), Format::kArchive);
  EXPECT_EQ(*FormatFromPath("x.perf.data"), Format::kPerfData);
  EXPECT_EQ(*FormatFromPath("perf.data"), Format::kPerfData);
  EXPECT_THAT(FormatFromPath("x.doc").error().message, HasSubstr(".pb.gz, .folded"));
  EXPECT_THAT(FormatFromName("doc").error().message, HasSubstr("pprof, folded, speedscope"));
  EXPECT_FALSE(FormatFromName("perf-script").has_value());
  for (const FormatTraits& traits : AllFormats())
    EXPECT_EQ(TraitsOf(traits.format).name, traits.name);
}

TEST(Formats, AreToldApartByTheirFirstBytes) {
  const Profile profile = RichProfile();
  const std::string folded = Written(profile, Format::kFolded);
  EXPECT_EQ(*SniffFormat(AsBytes(Written(profile, Format::kPprof))), Format::kPprof);
  EXPECT_EQ(*SniffFormat(AsBytes(Written(profile, Format::kArchive))), Format::kArchive);
  EXPECT_EQ(*SniffFormat(AsBytes(folded)), Format::kFolded);
  EXPECT_EQ(*SniffFormat(AsBytes(internal::Gzip(AsBytes(folded), 6))), Format::kFolded);
  EXPECT_EQ(*SniffFormat(AsBytes(*internal::ZstdCompress(AsBytes(folded), 3))), Format::kFolded);
  EXPECT_EQ(*SniffFormat(AsBytes("a;" + std::string(5000, 'b'))), Format::kFolded);
  EXPECT_EQ(*SniffFormat(AsBytes("# x\ncomm 12 [001] 3.25: 1 cycles: \n\t10 f (/bin/a)\n")),
            Format::kPerfScript);
  EXPECT_EQ(*SniffFormat(AsBytes("heap profile: 1: 2 [ 1: 2] @ heap_v2/1\n")),
            Format::kLegacyProfile);
  EXPECT_EQ(*SniffFormat(AsBytes("PERFILE2xxxx")), Format::kPerfData);
  EXPECT_THAT(SniffFormat(AsBytes("<html>")).error().message, HasSubstr("an HTML page"));
  EXPECT_THAT(SniffFormat(AsBytes("words\nand more\n")).error().message, HasSubstr("a text"));
  EXPECT_THAT(SniffFormat(AsBytes(std::string("go 1.21 trace\0\0\0", 16))).error().message,
              HasSubstr("Go execution trace"));
  EXPECT_THAT(SniffFormat({}).error().message, HasSubstr("an empty file"));
  EXPECT_FALSE(SniffFormat(AsBytes("\x1f\x8b\x08 cut")).has_value());
}

TEST(Formats, DecodeWhatTheyWrite) {
  const Profile profile = RichProfile();
  for (const Format format : {Format::kPprof, Format::kArchive}) {
    const auto back = DecodeAny(AsBytes(Written(profile, format)), "x");
    ASSERT_TRUE(back.has_value()) << back.error().message;
    EXPECT_TRUE(EquivalentProfiles(profile, *back));
  }
  const std::string folded = Written(profile, Format::kFolded, {.sample_type = "cpu"});
  const auto back = DecodeAny(AsBytes(internal::Gzip(AsBytes(folded), 6)), "x");
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(back->Totals()[0], profile.Totals()[1]);
}

TEST(Formats, NameTheFileInErrors) {
  EXPECT_THAT(DecodeAny(AsBytes("<html>"), "in/page.pprof").error().message,
              HasSubstr("in/page.pprof: "));
  EXPECT_EQ(DecodeAny(AsBytes("PERFILE2xxxx"), "x").error().code, ErrorCode::kUnsupported);
}

TEST(Formats, RefuseWhatTheyCannotWrite) {
  std::string out;
  StringSink sink(&out);
  const Profile profile = RichProfile();
  EXPECT_EQ(WriteProfile(profile, Format::kPerfData, {}, &sink).error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(WriteProfile(profile, Format::kFolded, {.sample_type = "heap"}, &sink).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(WriteProfile(profile, Format::kHtml, {}, &sink).error().code, ErrorCode::kInvalidInput);
  Profile broken = profile;
  broken.samples[0].stack = 99;
  for (const FormatTraits& traits : AllFormats()) {
    EXPECT_FALSE(WriteProfile(broken, traits.format, {}, &sink).has_value());
  }
  EXPECT_EQ(out, "");
}

TEST(Formats, WriteEverySingleOneThatTheTablePromises) {
  const Profile samples = RichProfile();
  const Profile trace = FlowProfile();
  for (const FormatTraits& traits : AllFormats()) {
    if (!traits.written_from_profile) continue;
    const bool is_timeline =
        traits.format == Format::kPerfetto || traits.format == Format::kChromeTrace;
    const Profile& profile = is_timeline ? trace : samples;
    const WriteOptions options = {.html_template = "<script>/*PTARMIGAN_PROFILE*/</script>"};
    EXPECT_GT(Written(profile, traits.format, options).size(), 100U) << traits.name;
    EXPECT_EQ(Written(profile, traits.format, options), Written(profile, traits.format, options))
        << traits.name;
  }
}

}  // namespace
}  // namespace ptarmigan
