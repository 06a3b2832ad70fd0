// Writes Arm SPE byte streams: packets one by one, and whole random records whose truth is kept. Shares nothing with
// the decoder: the encodings are written down here a second time, from the Arm ARM (DDI 0487).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace ptarmigan {

// Bytes of one AUX fragment that starts at a given AUX offset.
class SpeEncoder {
 public:
  explicit SpeEncoder(uint64_t aux_offset = 0) : start_(aux_offset) {}

  struct Form {
    bool extended = false;  // a header of two bytes
  };
  SpeEncoder& Address(unsigned index, uint64_t raw, Form form);
  SpeEncoder& Address(unsigned index, uint64_t raw) { return Address(index, raw, Form()); }
  SpeEncoder& Counter(unsigned index, uint16_t cycles, Form form);
  SpeEncoder& Counter(unsigned index, uint16_t cycles) { return Counter(index, cycles, Form()); }
  SpeEncoder& Events(uint64_t bits, unsigned size_bytes);
  SpeEncoder& DataSource(uint64_t code, unsigned size_bytes);
  SpeEncoder& Context(unsigned index, uint32_t id);
  SpeEncoder& Operation(unsigned operation_class, uint8_t payload);
  SpeEncoder& Timestamp(uint64_t ticks);
  SpeEncoder& End() { return Byte(0x01); }
  SpeEncoder& Padding(size_t count) { return Raw(std::string(count, '\0')); }
  // An alignment packet and junk up to the next multiple of 2^(exponent + 1).
  SpeEncoder& Alignment(unsigned exponent, uint8_t junk);
  SpeEncoder& PadTo(uint64_t multiple);
  SpeEncoder& Raw(std::string_view bytes);

  uint64_t offset() const { return start_ + bytes_.size(); }
  const std::string& bytes() const { return bytes_; }

 private:
  SpeEncoder& Byte(unsigned value);
  SpeEncoder& Number(uint64_t value, unsigned size_bytes);

  uint64_t start_;
  std::string bytes_;
};

// What a record was made of. Raw payloads.
struct SpeTruth {
  uint64_t aux_offset = 0;
  std::array<std::optional<uint64_t>, 5> addresses;  // PC, target, data, physical, previous target
  std::array<std::optional<uint16_t>, 3> counters;   // total, issue, translation
  std::array<std::optional<uint32_t>, 2> contexts;   // EL1, EL2
  std::optional<uint64_t> events;
  unsigned event_bytes = 0;
  std::optional<uint64_t> data_source;
  std::optional<unsigned> operation_class;
  uint8_t operation = 0;
  std::optional<uint64_t> timestamp;
  bool operator==(const SpeTruth&) const = default;
};

struct SpeProgramOptions {
  bool shuffle = true;    // packets in any order
  bool padding = true;    // zeros between packets
  bool alignment = true;  // alignment packets between packets
  bool extended = true;   // headers of two bytes, also for indexes that are not assigned
  bool newer_packets =
      true;  // what tools of 2022 do not know: previous targets, newer events and operations
  bool dropped = true;         // some records without PC, at EL3, in the secure state
  bool contexts = true;        // CONTEXT packets in some records
  bool timestamps = true;      // else records end in END
  unsigned record_align = 64;  // where records start; 1: anywhere
  uint64_t aux_offset = 0;
};

// A program that was never run: random records and what a decoder has to make of them.
class SpeProgram {
 public:
  SpeProgram(uint64_t seed, const SpeProgramOptions& options);

  // Appends a record and whatever separates it from the next.
  void AddRecord();
  // 64 bytes that begin with a header that means nothing and hold a decoy record, at a multiple of 64.
  void AddGarbageSlot();
  // A record one of whose packets has a header that means nothing; one slot of 64 bytes.
  void AddBrokenRecord();

  const std::string& bytes() const { return encoder_.bytes(); }
  uint64_t offset() const { return encoder_.offset(); }
  // Those that a decoder must report, in order.
  const std::vector<SpeTruth>& records() const { return records_; }
  uint64_t without_pc() const { return without_pc_; }
  uint64_t at_el3() const { return at_el3_; }
  uint64_t secure() const { return secure_; }

 private:
  enum class Packet : uint8_t;

  uint64_t Random(uint64_t below) { return random_() % below; }
  bool Chance(unsigned percent) { return Random(100) < percent; }
  uint64_t CodeAddress();
  uint8_t RandomOperation(unsigned operation_class);
  SpeTruth RandomRecord();
  std::vector<Packet> PacketsOf(const SpeTruth& record);
  void Write(Packet packet, const SpeTruth& record);
  void WriteBlank();
  void Count(const SpeTruth& record);

  std::mt19937_64 random_;
  SpeProgramOptions options_;
  SpeEncoder encoder_;
  std::vector<SpeTruth> records_;
  uint64_t ticks_ = 0;
  uint64_t without_pc_ = 0;
  uint64_t at_el3_ = 0;
  uint64_t secure_ = 0;
};

}  // namespace ptarmigan
