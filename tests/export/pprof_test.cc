#include "export/pprof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/str_format.h"
#include "export/internal/compression.h"
#include "proto/profile.pb.h"
#include "tests/export/profile_samples.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

using ::testing::HasSubstr;
namespace wire = perftools::profiles;

std::string Encode(const Profile& profile, PprofOptions options = {}) {
  auto encoded = EncodePprof(profile, options);
  EXPECT_TRUE(encoded.has_value()) << encoded.error().message;
  return encoded ? *encoded : "";
}

Profile Decode(std::string_view bytes) {
  auto decoded = DecodePprof(AsBytes(bytes));
  EXPECT_TRUE(decoded.has_value()) << decoded.error().message;
  return decoded ? *std::move(decoded) : Profile{};
}

Error DecodeError(std::string_view bytes, DecodeLimits limits = {}) {
  auto decoded = DecodePprof(AsBytes(bytes), limits);
  EXPECT_FALSE(decoded.has_value());
  return decoded ? Error{} : decoded.error();
}

void ExpectSameFacts(const Profile& a, const Profile& b) {
  EXPECT_EQ(a.losses.captured(), b.losses.captured());
  EXPECT_EQ(a.losses.kept(), b.losses.kept());
  EXPECT_EQ(a.losses.Sentence(), b.losses.Sentence());
  EXPECT_EQ(a.quality, b.quality);
  EXPECT_EQ(a.events, b.events);
}

// A message that the tests bend: two sample types, one stack of two locations.
wire::Profile SmallMessage() {
  wire::Profile message;
  for (const char* text :
       {"", "samples", "count", "cpu", "nanoseconds", "main", "leaf", "/bin/app"}) {
    message.add_string_table(text);
  }
  auto* type = message.add_sample_type();
  type->set_type(1);
  type->set_unit(2);
  type = message.add_sample_type();
  type->set_type(3);
  type->set_unit(4);
  auto* mapping = message.add_mapping();
  mapping->set_id(1);
  mapping->set_memory_limit(0x1000);
  mapping->set_filename(7);
  for (uint64_t id = 1; id <= 2; ++id) {
    auto* function = message.add_function();
    function->set_id(id);
    function->set_name(4 + static_cast<int64_t>(id));
    auto* location = message.add_location();
    location->set_id(id);
    location->set_mapping_id(1);
    location->set_address(0x10 * id);
    location->add_line()->set_function_id(id);
  }
  auto* sample = message.add_sample();
  sample->add_location_id(2);
  sample->add_location_id(1);
  sample->add_value(3);
  sample->add_value(30);
  return message;
}

std::string LeafName(const Profile& profile, size_t sample) {
  const auto frames = profile.Stack(profile.samples[sample].stack);
  if (frames.empty()) return "";
  const auto lines = profile.Lines(profile.locations[frames[0]]);
  if (lines.empty() || lines[0].function == kNoId) return "?";
  return std::string(profile.Text(profile.functions[lines[0].function].name));
}

TEST(Pprof, EncodesAndDecodesEveryFieldOfAProfile) {
  const Profile profile = RichProfile();
  const Profile back = Decode(Encode(profile));
  EXPECT_TRUE(EquivalentProfiles(profile, back));
  ExpectSameFacts(profile, back);
  const Profile again = Decode(Encode(back));
  EXPECT_TRUE(EquivalentProfiles(profile, again));
  ExpectSameFacts(profile, again);
}

TEST(Pprof, WritesWhatProtobufItselfReads) {
  const Profile profile = RichProfile();
  wire::Profile message;
  ASSERT_TRUE(message.ParseFromString(Encode(profile, {.gzip = false})));
  const auto text = [&](int64_t id) { return message.string_table(static_cast<int>(id)); };
  EXPECT_EQ(message.string_table(0), "");
  ASSERT_EQ(message.sample_type_size(), 2);
  EXPECT_EQ(text(message.sample_type(1).type()), "cpu");
  EXPECT_EQ(text(message.default_sample_type()), "cpu");
  EXPECT_EQ(text(message.drop_frames()), "__restore.*");
  EXPECT_EQ(text(message.keep_frames()), "main");
  EXPECT_EQ(text(message.doc_url()), "https://example.org/profiles");
  EXPECT_EQ(text(message.period_type().unit()), "nanoseconds");
  EXPECT_EQ(message.period(), 10000000);
  EXPECT_EQ(message.time_nanos(), 1700000000123456789);
  EXPECT_EQ(message.mapping_size(), 2);
  EXPECT_EQ(message.mapping(0).id(), 1U);
  EXPECT_TRUE(message.mapping(0).has_inline_frames());
  EXPECT_EQ(message.mapping(1).memory_limit(), 0xffffffffffffffffU);
  std::vector<int64_t> totals(2, 0);
  size_t columns = 0;
  for (const auto& sample : message.sample()) {
    for (const int t : {0, 1}) totals[static_cast<size_t>(t)] += sample.value(t);
  }
  for (const auto& location : message.location()) {
    for (const auto& line : location.line()) columns += line.column() != 0 ? 1U : 0U;
  }
  EXPECT_EQ(totals, profile.Totals());
  EXPECT_EQ(columns, 3U);
  std::vector<std::string> comments;
  for (const int64_t comment : message.comment()) comments.push_back(text(comment));
  EXPECT_THAT(comments, ::testing::Contains("ptarmigan.samples: captured=21 kept=18"));
  EXPECT_THAT(comments, ::testing::Contains(
                            "ptarmigan.lost: stage=kernel reason=ring_full unit=samples count=2"));
  EXPECT_THAT(
      comments,
      ::testing::Contains("ptarmigan.event: name=\"cpu-clock:u\" samples=16 period_sum=160000000"));
}

TEST(Pprof, GivesTheSameBytesForTheSameProfile) {
  const std::string first = Encode(RandomProfile({}, 7));
  EXPECT_EQ(first, Encode(RandomProfile({}, 7)));
  EXPECT_NE(first, Encode(RandomProfile({}, 8)));
  // gzip header: no flags, no time, unknown system.
  ASSERT_GT(first.size(), 10U);
  EXPECT_EQ(first.substr(0, 8), std::string("\x1f\x8b\x08\0\0\0\0\0", 8));
}

TEST(Pprof, RefusesToWriteAnInvalidProfile) {
  Profile profile = RichProfile();
  profile.samples[0].stack = 1000;
  const auto encoded = EncodePprof(profile);
  ASSERT_FALSE(encoded.has_value());
  EXPECT_EQ(encoded.error().code, ErrorCode::kInvalidInput);
  Profile no_types;
  EXPECT_FALSE(EncodePprof(no_types).has_value());
}

TEST(Pprof, KeepsCommentsThatOnlyLookLikeOurs) {
  const Profile back = Decode(Encode(RichProfile()));
  std::vector<std::string> comments;
  for (const StringId comment : back.comments) comments.emplace_back(back.Text(comment));
  EXPECT_EQ(comments, (std::vector<std::string>{"ptarmigan.host: test-7",
                                                "ptarmigan.lost: in words of the future"}));
}

TEST(Pprof, ReadsPlainGzipZstdAndSeveralGzipMembers) {
  const Profile profile = RichProfile();
  const std::string plain = Encode(profile, {.gzip = false});
  const auto zstd = internal::ZstdCompress(AsBytes(plain), 3);
  ASSERT_TRUE(zstd.has_value());
  const auto zstd_of_gzip = internal::ZstdCompress(AsBytes(Encode(profile)), 3);
  ASSERT_TRUE(zstd_of_gzip.has_value());
  const size_t half = plain.size() / 2;
  const std::string members = internal::Gzip(AsBytes(plain).first(half), 6) +
                              internal::Gzip(AsBytes(plain).subspan(half), 1);
  for (const std::string& bytes :
       {plain, *zstd, *zstd_of_gzip, members, Encode(profile) + std::string(512, '\0')}) {
    const Profile back = Decode(bytes);
    EXPECT_TRUE(EquivalentProfiles(profile, back));
    ExpectSameFacts(profile, back);
  }
}

TEST(Pprof, CountsBytesBehindTheLastGzipMember) {
  const Profile back = Decode(Encode(RandomProfile({}, 1)) + "garbage");
  EXPECT_EQ(back.losses.Lost(LossStage::kParse, LossReason::kBadCompression, LossUnit::kBytes), 7U);
}

TEST(Pprof, MergesTheParsesOfAMessageThatWasWrittenInParts) {
  wire::Profile whole = SmallMessage();
  wire::Profile tail;
  tail.mutable_sample()->Swap(whole.mutable_sample());
  tail.set_time_nanos(5);
  const Profile profile = Decode(whole.SerializeAsString() + tail.SerializeAsString());
  EXPECT_EQ(profile.samples.size(), 1U);
  EXPECT_EQ(profile.time_ns, 5);
  EXPECT_EQ(LeafName(profile, 0), "leaf");
}

TEST(Pprof, RefusesSeveralProfilesInOneFile) {
  const std::string one = Encode(RichProfile());
  EXPECT_THAT(DecodeError(one + one).message, HasSubstr("several pprof profiles"));
}

TEST(Pprof, TakesUnpackedNumbersAndUnknownFields) {
  std::string message = SmallMessage().SerializeAsString();
  // Sample {location_id: 1, location_id: 2, value: 5, value: 50}, unpacked, with an unknown field 99.
  const std::string sample("\x08\x01\x08\x02\x10\x05\x10\x32\x9a\x06\x01x", 12);
  message += std::string("\x12\x0c", 2) + sample;
  message += std::string("\xfa\x07\x03", 3) + "abc";         // field 127: bytes
  message += std::string("\xf9\x07\1\2\3\4\5\6\7\x08", 10);  // fixed64
  const Profile profile = Decode(message);
  ASSERT_EQ(profile.samples.size(), 2U);
  EXPECT_EQ(profile.Values(1)[1], 50);
  EXPECT_EQ(LeafName(profile, 1), "main");
}

TEST(Pprof, AcceptsIdsInAnyOrderAndOfAnySize) {
  wire::Profile message = SmallMessage();
  const std::vector<uint64_t> ids = {0xfffffffffffffff0U, (uint64_t{1} << 33) + 1};
  for (int i = 0; i < 2; ++i) {
    message.mutable_location(i)->set_id(ids[static_cast<size_t>(i)]);
    message.mutable_function(i)->set_id(ids[static_cast<size_t>(1 - i)]);
    message.mutable_location(i)->mutable_line(0)->set_function_id(ids[static_cast<size_t>(1 - i)]);
    message.mutable_sample(0)->set_location_id(1 - i, ids[static_cast<size_t>(i)]);
  }
  message.mutable_mapping(0)->set_id(uint64_t{1} << 40);
  for (auto& location : *message.mutable_location()) location.set_mapping_id(uint64_t{1} << 40);
  std::swap(*message.mutable_location(0), *message.mutable_location(1));
  const Profile profile = Decode(message.SerializeAsString());
  EXPECT_EQ(LeafName(profile, 0), "leaf");
  EXPECT_EQ(profile.locations[profile.Stack(0)[0]].mapping, 0U);
  EXPECT_EQ(profile.losses.Sentence(), "");
}

TEST(Pprof, TakesEqualDuplicatesAndRefusesContradictions) {
  wire::Profile message = SmallMessage();
  *message.add_location() = message.location(0);
  *message.add_function() = message.function(1);
  *message.add_mapping() = message.mapping(0);
  EXPECT_EQ(Decode(message.SerializeAsString()).samples.size(), 1U);
  message.mutable_location(2)->set_address(0x999);
  EXPECT_THAT(DecodeError(message.SerializeAsString()).message,
              HasSubstr("two different locations with the id 1"));
}

TEST(Pprof, MarksAFrameWhoseLocationIsMissing) {
  wire::Profile message = SmallMessage();
  message.mutable_sample(0)->set_location_id(0, 77);
  const Profile profile = Decode(message.SerializeAsString());
  ASSERT_EQ(profile.samples.size(), 1U);
  EXPECT_EQ(profile.Stack(0).size(), 2U);
  EXPECT_EQ(LeafName(profile, 0), "[missing location]");
  EXPECT_EQ(profile.losses.Lost(LossStage::kParse, LossReason::kBadValue, LossUnit::kRecords), 1U);
  EXPECT_EQ(profile.Totals(), (std::vector<int64_t>{3, 30}));
}

TEST(Pprof, CountsReferencesToMissingMappingsAndFunctions) {
  wire::Profile message = SmallMessage();
  message.mutable_location(0)->set_mapping_id(9);
  message.mutable_location(1)->mutable_line(0)->set_function_id(9);
  const Profile profile = Decode(message.SerializeAsString());
  EXPECT_EQ(profile.losses.Lost(LossStage::kParse, LossReason::kBadValue, LossUnit::kRecords), 2U);
  EXPECT_EQ(LeafName(profile, 0), "?");
  EXPECT_TRUE(EquivalentProfiles(profile, Decode(Encode(profile))));
}

TEST(Pprof, NumbersFunctionsByPositionWhereNoneHasAnId) {
  wire::Profile message = SmallMessage();
  for (auto& function : *message.mutable_function()) function.clear_id();
  EXPECT_EQ(LeafName(Decode(message.SerializeAsString()), 0), "leaf");
  message.mutable_function(1)->set_id(2);
  const Profile profile = Decode(message.SerializeAsString());
  EXPECT_EQ(LeafName(profile, 0), "leaf");
  // The function without id, and the line that wanted it.
  EXPECT_EQ(profile.losses.Lost(LossStage::kParse, LossReason::kBadValue, LossUnit::kRecords), 2U);
}

TEST(Pprof, DropsAndCountsSamplesWithTheWrongNumberOfValues) {
  wire::Profile message = SmallMessage();
  message.add_sample()->add_value(1);
  const Profile profile = Decode(message.SerializeAsString());
  EXPECT_EQ(profile.samples.size(), 1U);
  EXPECT_EQ(profile.losses.Lost(LossStage::kParse, LossReason::kBadValue), 1U);
  EXPECT_TRUE(profile.losses.Balances());
  message.mutable_sample()->DeleteSubrange(0, 1);
  EXPECT_THAT(DecodeError(message.SerializeAsString()).message,
              HasSubstr("value for each of its 2 sample types"));
}

TEST(Pprof, KeepsTheValueOfASampleWithoutLocations) {
  wire::Profile message = SmallMessage();
  auto* sample = message.add_sample();
  sample->add_value(-4);
  sample->add_value(1000);
  const Profile profile = Decode(message.SerializeAsString());
  EXPECT_EQ(profile.Totals(), (std::vector<int64_t>{-1, 1030}));
  EXPECT_TRUE(EquivalentProfiles(profile, Decode(Encode(profile))));
}

TEST(Pprof, RefusesAStringThatIsNotThere) {
  wire::Profile message = SmallMessage();
  message.mutable_function(0)->set_name(100);
  EXPECT_THAT(DecodeError(message.SerializeAsString()).message,
              HasSubstr("string 100 but has only 8"));
  message.mutable_function(0)->set_name(-1);
  EXPECT_THAT(DecodeError(message.SerializeAsString()).message, HasSubstr("string -1"));
}

TEST(Pprof, SaysWhatAFileIsInstead) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {std::string("go 1.19 trace\0\0\0\x01", 17), "a Go execution trace"},
      {"PERFILE2........", "a perf.data recording"},
      {"main;work 12\n", "a text"},
      {"<!DOCTYPE html><html></html>", "an HTML page"},
      {"{\"a\": 1}", "a JSON document"},
      {"\x7f"
       "ELF\x02\x01",
       "an ELF object file"},
      {"", "an empty file"},
  };
  for (const auto& [bytes, what] : cases) {
    const Error error = DecodeError(bytes);
    EXPECT_EQ(error.code, ErrorCode::kInvalidInput);
    EXPECT_THAT(error.message, HasSubstr(what));
    EXPECT_THAT(DecodeError(internal::Gzip(AsBytes(bytes), 6)).message, HasSubstr(what));
  }
}

TEST(Pprof, FindsEveryCutOfAFile) {
  const std::string whole = Encode(RichProfile());
  for (size_t size = 3; size < whole.size(); ++size) {
    EXPECT_EQ(DecodeError(std::string_view(whole).substr(0, size)).code, ErrorCode::kTruncated)
        << size;
  }
}

TEST(Pprof, SurvivesEveryFlippedByte) {
  const std::string whole = Encode(RichProfile(), {.gzip = false});
  size_t good = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const unsigned flip : {1U, 0x80U, 0xffU}) {
      std::string bent = whole;
      bent[i] = static_cast<char>(static_cast<unsigned char>(bent[i]) ^ flip);
      const auto decoded = DecodePprof(AsBytes(bent));
      if (!decoded) {
        EXPECT_FALSE(decoded.error().message.empty());
        continue;
      }
      ++good;
      EXPECT_TRUE(decoded->CheckValid().has_value());
    }
  }
  EXPECT_GT(good, 0U);
}

TEST(Pprof, BoundsWhatABombMayBecome) {
  const std::string zeros = internal::Gzip(AsBytes(std::string(1 << 20, '\0')), 9);
  EXPECT_EQ(DecodeError(zeros, {.plain_bytes_max = (1 << 20) - 1}).code, ErrorCode::kResourceLimit);
  const auto zstd = internal::ZstdCompress(AsBytes(std::string(1 << 20, '\0')), 9);
  ASSERT_TRUE(zstd.has_value());
  EXPECT_EQ(DecodeError(*zstd, {.plain_bytes_max = (1 << 20) - 1}).code, ErrorCode::kResourceLimit);
  // At the limit it is only not a profile.
  EXPECT_EQ(DecodeError(zeros, {.plain_bytes_max = 1 << 20}).code, ErrorCode::kTruncated);
}

TEST(Pprof, BoundsTheNumberOfEntriesAndFrames) {
  wire::Profile message = SmallMessage();  // 8 strings, 2 frames
  EXPECT_TRUE(DecodePprof(AsBytes(message.SerializeAsString()), {.entries_max = 9}).has_value());
  EXPECT_THAT(DecodeError(message.SerializeAsString(), {.entries_max = 7}).message,
              HasSubstr("more than 7 strings"));
  EXPECT_TRUE(DecodePprof(AsBytes(message.SerializeAsString()), {.frames_max = 2}).has_value());
  EXPECT_THAT(DecodeError(message.SerializeAsString(), {.frames_max = 1}).message,
              HasSubstr("more than 1 frames"));
  for (int i = 0; i < 10; ++i) message.mutable_sample(0)->add_label()->set_key(1 + i % 7);
  EXPECT_THAT(DecodeError(message.SerializeAsString(), {.entries_max = 9}).message,
              HasSubstr("more than 9 labels"));
  message.mutable_sample(0)->clear_label();
  for (int i = 0; i < 10; ++i) message.add_comment(1);
  EXPECT_THAT(DecodeError(message.SerializeAsString(), {.entries_max = 9}).message,
              HasSubstr("more than 9 comments"));
}

// --- Profiles of others

std::vector<std::string> FilesUnder(const std::string& folder) {
  std::vector<std::string> paths;
  const auto names = ListDirectory(folder);
  if (!names) return paths;
  for (const std::string& name : *names) {
    const std::string path = JoinPath(folder, name);
    if (ListDirectory(path).has_value()) {
      const auto below = FilesUnder(path);
      paths.insert(paths.end(), below.begin(), below.end());
    } else {
      paths.push_back(path);
    }
  }
  return paths;
}

std::string PlainBytes(const std::string& path) {
  auto content = ReadFile(path, uint64_t{1} << 30);
  EXPECT_TRUE(content.has_value());
  if (!content || !internal::IsGzip(AsBytes(*content))) return content ? *content : "";
  auto plain = internal::Gunzip(AsBytes(*content), uint64_t{1} << 30);
  return plain ? plain->plain : "";
}

TEST(Pprof, DecodesAndReencodesTheProfilesOfOthers) {
  const std::string google = TestDataPath("pprof-google");
  if (google.empty()) GTEST_SKIP() << TestDataMissing("pprof-google, pprof-parca, pprof-pyroscope");
  std::vector<std::string> paths;
  for (const char* folder : {"pprof-google", "pprof-parca", "pprof-pyroscope"}) {
    const auto below = FilesUnder(TestDataPath(folder));
    paths.insert(paths.end(), below.begin(), below.end());
  }
  size_t profiles = 0;
  for (const std::string& path : paths) {
    const std::string plain = PlainBytes(path);
    wire::Profile oracle;
    const bool is_message = oracle.ParseFromString(plain) && oracle.sample_type_size() > 0 &&
                            oracle.string_table_size() > 0;
    const std::string bytes = *ReadFile(path, uint64_t{1} << 30);
    const auto decoded = DecodePprof(AsBytes(bytes));
    ASSERT_EQ(decoded.has_value(), is_message) << path << (decoded ? "" : decoded.error().message);
    if (!decoded) continue;
    ++profiles;
    std::vector<int64_t> totals(static_cast<size_t>(oracle.sample_type_size()), 0);
    for (const auto& sample : oracle.sample()) {
      for (int t = 0; t < sample.value_size(); ++t)
        totals[static_cast<size_t>(t)] += sample.value(t);
    }
    EXPECT_EQ(decoded->Totals(), totals) << path;
    EXPECT_EQ(decoded->samples.size(), static_cast<size_t>(oracle.sample_size())) << path;
    EXPECT_EQ(decoded->locations.size(), static_cast<size_t>(oracle.location_size())) << path;
    EXPECT_EQ(decoded->losses.Sentence(), "") << path;
    const std::string encoded = Encode(*decoded);
    EXPECT_TRUE(EquivalentProfiles(*decoded, Decode(encoded))) << path;
    EXPECT_EQ(encoded, Encode(*decoded));
  }
  EXPECT_GE(profiles, 45U);
}

TEST(Pprof, MergesTheProfilesOfOneProcess) {
  const std::string folder = TestDataPath("pprof-parca/many");
  if (folder.empty()) GTEST_SKIP() << TestDataMissing("pprof-parca/many");
  std::vector<Profile> profiles;
  std::vector<int64_t> sum;
  for (const std::string& path : FilesUnder(folder)) {
    if (!path.ends_with(".gz")) continue;
    profiles.push_back(Decode(*ReadFile(path)));
    const std::vector<int64_t> totals = profiles.back().Totals();
    sum.resize(totals.size(), 0);
    for (size_t t = 0; t < totals.size(); ++t) sum[t] += totals[t];
  }
  EXPECT_EQ(profiles.size(), 10U);
  std::vector<const Profile*> pointers;
  for (const Profile& profile : profiles) pointers.push_back(&profile);
  const auto merged = MergeProfiles(pointers);
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(merged->Totals(), sum);
  EXPECT_TRUE(EquivalentProfiles(*merged, Decode(Encode(*merged))));
}

// Release builds take 100 ms of processor time for this (docs/formats/pprof.md); the bound leaves room for builds
// without optimization and finds only what became several times slower.
TEST(Pprof, EncodesSeventyThousandSamplesInBoundedTime) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers change the time";
#endif
  const Profile profile =
      RandomProfile({.samples = 70000, .locations = 20000, .frames = 10, .processes = 20}, 1);
  double best_seconds = 1e9;
  for (int round = 0; round < 3; ++round) {
    const std::clock_t start = std::clock();  // all threads of the process
    EXPECT_TRUE(EncodePprof(profile).has_value());
    best_seconds =
        std::min(best_seconds, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  EXPECT_LT(best_seconds, 1.0);
}

TEST(Pprof, CompressesProfilesOfShortStacksHarder) {
  const auto encode = [](const Profile& profile, int level) {
    return *EncodePprof(profile, {.gzip = true, .gzip_level = level});
  };
  const Profile deep = RandomProfile({.frames = 60}, 1);
  ASSERT_GT(deep.stack_frames.size(), 32 * deep.stacks.size());
  EXPECT_EQ(encode(deep, 0), encode(deep, 4));
  const Profile shallow = RandomProfile({.frames = 8}, 1);
  EXPECT_EQ(encode(shallow, 0), encode(shallow, 5));
  EXPECT_NE(encode(shallow, 4), encode(shallow, 5)) << "else this test says nothing";
}

}  // namespace
}  // namespace ptarmigan
