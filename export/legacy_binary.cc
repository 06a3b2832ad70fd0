// gperftools' CPU profiles: words of the machine that wrote them.
//
//   0, 3, 0 (1: Java), period in microseconds, 0     header
//   count, n, n addresses (leaf first)               per stack
//   0, 1, 0                                          end; then text: a memory map, or Java's names
#include <array>
#include <bit>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/str_format.h"
#include "export/internal/legacy_parts.h"

namespace ptarmigan::internal {
namespace {

struct WordShape {
  bool is_64_bit = false;
  std::endian order = std::endian::little;
};

constexpr std::array<WordShape, 4> kShapes = {{{false, std::endian::little},
                                               {false, std::endian::big},
                                               {true, std::endian::little},
                                               {true, std::endian::big}}};

class WordReader {
 public:
  WordReader(Bytes bytes, WordShape shape)
      : cursor_(bytes, shape.order), is_64_bit_(shape.is_64_bit) {}
  uint64_t Next() { return is_64_bit_ ? cursor_.U64() : cursor_.U32(); }
  bool ok() const { return cursor_.ok(); }
  bool AtEnd() const { return cursor_.AtEnd(); }
  size_t WordsLeft() const { return cursor_.remaining() / (is_64_bit_ ? 8 : 4); }
  Bytes Rest() const { return cursor_.Rest(); }

 private:
  ByteCursor cursor_;
  bool is_64_bit_;
};

struct CpuHeader {
  WordShape shape;
  bool is_java = false;
  int64_t period_us = 0;
};

std::optional<CpuHeader> ReadCpuHeader(Bytes bytes) {
  for (const WordShape shape : kShapes) {
    WordReader words(bytes, shape);
    const uint64_t zero = words.Next();
    const uint64_t size = words.Next();
    const uint64_t language = words.Next();
    const uint64_t period_us = words.Next();
    const uint64_t padding = words.Next();
    constexpr uint64_t kPeriodMax = uint64_t{1} << 40;  // two weeks; keeps nanoseconds in 64 bits
    if (words.ok() && zero == 0 && size == 3 && language <= 1 && padding == 0 && period_us > 0 &&
        period_us < kPeriodMax) {
      return CpuHeader{shape, language == 1, static_cast<int64_t>(period_us)};
    }
  }
  return std::nullopt;
}

// The signal handler may have left its own frame below the leaf: if (nearly) all samples have the same second
// frame, it goes. Twice, as there may be two.
void StripHandlerFrames(LegacyProfile* legacy) {
  const size_t margin = legacy->samples() / 32;
  for (int round = 0; round < 2; ++round) {
    std::unordered_map<uint64_t, size_t> second;
    for (size_t i = 0; i < legacy->samples(); ++i) {
      if (legacy->addresses(i).size() > 1) ++second[legacy->addresses(i)[1]];
    }
    for (const auto& [address, count] : second) {
      if (count < legacy->samples() - margin) continue;
      for (size_t i = 0; i < legacy->samples(); ++i) {
        std::vector<uint64_t>& frames = legacy->addresses(i);
        if (frames.size() > 1 && frames[1] == address) frames.erase(frames.begin() + 1);
      }
      break;
    }
  }
}

// Reads the stacks into `legacy`; callers get their addresses moved into the call unless it is Java.
Status ReadStacks(const CpuHeader& header, WordReader* words, LegacyProfile* legacy) {
  std::vector<uint64_t> frames;
  while (!words->AtEnd()) {
    const uint64_t count = words->Next();
    const uint64_t size = words->Next();
    if (!words->ok() || size > words->WordsLeft()) {
      return Error{ErrorCode::kTruncated, "the CPU profile ends inside a stack"};
    }
    frames.clear();
    for (uint64_t i = 0; i < size; ++i)
      frames.push_back(words->Next() - (i > 0 && !header.is_java ? 1 : 0));
    if (count == 0 && size == 1 && frames[0] == 0) break;
    const auto samples = static_cast<int64_t>(count);
    const std::array<int64_t, 2> values = {
        samples, ScaleCount(samples, static_cast<double>(header.period_us) * 1000)};
    TRY(legacy->Add(frames, values));
  }
  return OkStatus();
}

}  // namespace

bool LooksLikeBinaryCpuProfile(Bytes bytes) { return ReadCpuHeader(bytes).has_value(); }

Result<Profile> ReadBinaryCpuProfile(Bytes bytes, const DecodeLimits& limits) {
  const auto header = ReadCpuHeader(bytes);
  if (!header) return Error{ErrorCode::kInvalidInput, "not a gperftools CPU profile"};
  LegacyProfile legacy(limits);
  legacy.AddType("samples", "count");
  legacy.AddType("cpu", "nanoseconds");
  legacy.SetPeriod("cpu", "nanoseconds", header->period_us * 1000);
  WordReader words(bytes, header->shape);
  constexpr int kHeaderWords = 5;
  for (int i = 0; i < kHeaderWords; ++i) words.Next();
  TRY(ReadStacks(*header, &words, &legacy));
  const std::string_view text = AsText(words.Rest());
  if (header->is_java) return legacy.Finish("", ParseJavaSymbols(text));
  StripHandlerFrames(&legacy);
  // The leaf is known twice, from the signal and from the stack, where it was taken for a caller.
  for (size_t i = 0; i < legacy.samples(); ++i) {
    std::vector<uint64_t>& frames = legacy.addresses(i);
    if (frames.size() > 1 && frames[0] == frames[1] + 1) frames.erase(frames.begin() + 1);
  }
  return legacy.Finish(text);
}

}  // namespace ptarmigan::internal
