#include "decode/spe_packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "base/str_format.h"
#include "tests/encoders/spe_encoder.h"
#include "tests/support/test_data.h"
#include "tests/support/truth_table.h"

namespace ptarmigan {
namespace {

std::string Describe(Bytes bytes) {
  std::string text;
  DescribeSpePacket(ReadSpePacket(bytes), &text);
  return text;
}

// "b0 d0 c2" or "b0d0c2".
std::string FromHex(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size();) {
    if (text[i] == ' ') {
      ++i;
      continue;
    }
    unsigned value = 0;
    std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    bytes += static_cast<char>(value);
    i += 2;
  }
  return bytes;
}

TEST(SpePacket, ReadsAsToolsPrintIt) {
  const std::string path = TestDataPath("arm-spe/spe-packet-vectors.tsv");
  if (path.empty()) GTEST_SKIP() << TestDataMissing("arm-spe");
  std::string text = ReadTestFile(path);
  text.erase(0, text.find('\n') + 1);  // a comment
  const TruthTable vectors(text);
  ASSERT_GT(vectors.size(), 60U);
  for (size_t row = 0; row < vectors.size(); ++row) {
    const std::string bytes = FromHex(vectors.Cell(row, "bytes"));
    std::string expected(vectors.Cell(row, "expected text"));
    if (const size_t remark = expected.find(" ("); remark != std::string::npos) {
      expected.erase(remark);
    }
    // An older tool printed physical addresses without their attributes.
    if (expected.starts_with("PA ") && !expected.ends_with("pat=0")) expected += " ch=0 pat=0";
    EXPECT_EQ(Describe(AsBytes(bytes)), expected) << vectors.Cell(row, "bytes");
    EXPECT_EQ(ReadSpePacket(AsBytes(bytes)).size_bytes, bytes.size());
  }
}

class SpeRecordingPackets : public testing::TestWithParam<const char*> {};

TEST_P(SpeRecordingPackets, ReadAsTheyWereWritten) {
  const std::string base = StrFormat("mem-synth/{}", GetParam());
  const std::string recording = TestDataPath(base + ".perf.data");
  const std::string list = TestDataPath(base + ".packets.tsv.gz");
  if (recording.empty() || list.empty()) GTEST_SKIP() << TestDataMissing(base);
  const std::string file = ReadTestFile(recording);
  const TruthTable packets(ReadTestFile(list));
  ASSERT_GT(packets.size(), 10000U);
  for (size_t row = 0; row < packets.size(); ++row) {
    const size_t offset = std::stoul(std::string(packets.Cell(row, "file_offset")));
    const std::string bytes = FromHex(packets.Cell(row, "bytes"));
    ASSERT_EQ(file.compare(offset, bytes.size(), bytes), 0);
    const Bytes rest = AsBytes(file).subspan(offset);
    std::string text = Describe(rest);
    if (text.starts_with("OTHER")) text = "OP" + text.substr(5);
    if (text.starts_with("EV ")) std::replace(text.begin() + 3, text.end(), ' ', ',');
    std::string expected(packets.Cell(row, "text"));
    if (expected == "LAT ?") {
      expected = StrFormat("LAT {}", ReadSpePacket(rest).payload);
      ASSERT_GE(ReadSpePacket(rest).index, kSpeCounters);
    }
    while (expected.ends_with(' ')) expected.pop_back();
    ASSERT_EQ(text, expected) << "at " << offset;
    ASSERT_EQ(ReadSpePacket(rest).size_bytes, bytes.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Recordings, SpeRecordingPackets,
                         testing::Values("spe-align", "spe-garbage", "spe-n2-random-order"),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text;
                         });

TEST(SpePacket, NamesWhatIsNotAssigned) {
  EXPECT_EQ(Describe(AsBytes(SpeEncoder().Counter(9, 7).bytes())), "LAT 7");
  EXPECT_EQ(Describe(AsBytes(SpeEncoder().Address(6, 0x10).bytes())), "ADDR 0x10 (6)");
  EXPECT_EQ(Describe(AsBytes(SpeEncoder().Events(0x1000, 2).bytes())), "EV IMPDEF12");
  EXPECT_EQ(Describe(AsBytes(SpeEncoder().Events(0, 1).bytes())), "EV");
  EXPECT_EQ(Describe(AsBytes("\x4b")), "BAD");
}

TEST(SpePacket, SaysWhatIsCutOff) {
  const std::string whole = SpeEncoder().Address(0, 1, {.extended = true}).bytes();
  EXPECT_EQ(ReadSpePacket(AsBytes(whole)).size_bytes, 10U);
  for (size_t size = 1; size < whole.size(); ++size) {
    const SpePacket packet = ReadSpePacket(AsBytes(whole).first(size));
    EXPECT_EQ(packet.kind, SpePacketKind::kTruncated);
    EXPECT_EQ(packet.size_bytes, size);
  }
}

TEST(SpePacket, ReadsARunOfPaddingAsOne) {
  const SpePacket packet = ReadSpePacket(AsBytes(SpeEncoder().Padding(5).End().bytes()));
  EXPECT_EQ(packet.kind, SpePacketKind::kPadding);
  EXPECT_EQ(packet.size_bytes, 5U);
}

}  // namespace
}  // namespace ptarmigan
