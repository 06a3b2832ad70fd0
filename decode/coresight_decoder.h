// CoreSightDecoder: the bytes of CoreSight trace units (ETMv3, PTM, ETMv4, ETE) in, what the processors did out, through
// OpenCSD's C API.
//
//   TRY_ASSIGN(auto decoder, CoreSightDecoder::Create({.sources = {{unit, 0x10}}}, &code, &sink));
//   decoder->Decode(offset, bytes);   // pieces in order; Restart() between pieces that do not follow each other
//   decoder->Finish();
//
// Bytes of a formatted sink (ETR, ETF, ETB: 16-byte frames, IHI 0029 chapter D4) may come from several units, told apart by
// trace id; those of a unit's own buffer (TRBE) from one. OpenCSD 1.3 follows code as long as a wrong image leads it; here a
// stretch of code without a traced branch ends after kUntracedBytesMax, as if no image were there.
//
// OpenCSD keeps global state, so that decoders of one program take turns: any number may exist, each used by one thread at a
// time, but only one of them works at any moment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "decode/coresight_setup.h"
#include "model/address.h"

namespace ptarmigan {

enum class ArmInstructionSet : uint8_t { kA64, kA32, kT32, kUnknown };

// What the last instruction of a range does.
enum class ArmBranch : uint8_t {
  kNone,
  kDirect,
  kIndirect,
  kDirectCall,      // BL
  kIndirectCall,    // BLR, BLX
  kReturn,          // RET; before Armv8 what can be one (POP {.., PC}, MOV PC, LR)
  kExceptionReturn  // ERET
};

struct CoreSightElement {
  enum class Kind : uint8_t {
    kNoSync,   // waits for a synchronisation point; `reason`
    kTraceOn,  // tracing began or went on after a gap; `reason`
    kContext,  // `context`
    kRange,    // instructions [start, end) were executed; the last one as `branch` and `taken` say
    kUnknownPath,      // the same, but with more than one way through (Q elements)
    kNoImage,          // code at `start` was executed, but is not at hand
    kUnknownAddress,   // the trace does not say where it goes on
    kException,        // `number`; `end` is the preferred return address where known
    kExceptionReturn,  //
    kTimestamp,  // `value`, in ticks of the timestamp generator: what came before happened before it
    kCycles,     // `value` since the last one
    kEnd,        // end of the trace at hand
    kOther       // events, markers, transactions, software trace
  };
  enum class Reason : uint8_t { kNormal, kOverflow, kBadPacket, kDebug };
  struct ProcessorState {
    int8_t exception_level = -1;  // -1: not known
    bool is_64_bit = false;
    bool is_secure = false;
    std::optional<uint32_t> context_id;
    std::optional<uint32_t> vm_id;
  };

  Kind kind = Kind::kOther;
  Reason reason = Reason::kNormal;
  ArmInstructionSet isa = ArmInstructionSet::kUnknown;
  ArmBranch branch = ArmBranch::kNone;
  bool taken = false;  // of the last instruction; true also where it is no branch and was executed
  bool conditional = false;   // of the last instruction
  uint8_t last_bytes = 0;     // size of the last instruction
  uint32_t instructions = 0;  // of a range
  VirtAddr start;
  VirtAddr end;  // exclusive
  uint64_t value = 0;
  uint32_t number = 0;
  std::optional<VirtAddr> return_address;
  std::optional<uint32_t> cycles;  // that came with a range
  ProcessorState context;          // kContext only
};

std::string_view CoreSightElementName(CoreSightElement::Kind kind);

// Gives the bytes of code that `trace_id`'s processor would read at `address` now; how many (0: none are at hand).
class CoreSightCode {
 public:
  virtual ~CoreSightCode() = default;
  virtual size_t Read(uint8_t trace_id, VirtAddr address, std::span<std::byte> bytes) = 0;
};

class CoreSightSink {
 public:
  virtual ~CoreSightSink() = default;
  // `offset` is where the packet that led to it begins, as counted by Decode's caller.
  virtual void OnElement(uint8_t trace_id, uint64_t offset, const CoreSightElement& element) = 0;
};

// What became of the bytes: each is in exactly one count.
struct CoreSightByteCounts {
  uint64_t decoded = 0;
  uint64_t before_sync = 0;  // until the first synchronisation point after a start
  uint64_t after_error = 0;  // until the next one after a bad packet
  uint64_t overflow = 0;     // until the next one after an overflow of the unit's buffer
  uint64_t no_image = 0;     // since code was executed that is not at hand, until the next address
  uint64_t padding = 0;      // of frames: ids, filling, trace ids without a unit

  uint64_t Sum() const {
    return decoded + before_sync + after_error + overflow + no_image + padding;
  }
  bool operator==(const CoreSightByteCounts&) const = default;
};

struct CoreSightError {
  uint64_t offset = 0;
  int code = 0;        // OpenCSD's, ocsd_err_t
  std::string reason;  // one sentence
};

struct CoreSightCounts {
  CoreSightByteCounts bytes;
  uint64_t bad_packets = 0;
  uint64_t errors = 0;
  uint64_t unknown_id_bytes = 0;  // part of padding: of trace ids without a unit
  uint64_t runaways = 0;          // stretches that kUntracedBytesMax ended
  uint64_t code_reads = 0;
};

struct CoreSightSource {
  EtmUnit unit;
  uint8_t trace_id = 0;  // 1 to 0x6f; anything up to that where the stream is not formatted
};

struct CoreSightOptions {
  std::vector<CoreSightSource> sources;  // formatted: any number, of distinct ids; else one
  bool is_formatted = true;
  size_t errors_max = 64;  // of errors() ; more are counted only
};

class CoreSightDecoder {
 public:
  static constexpr uint64_t kUntracedBytesMax = uint64_t{1} << 20;
  static constexpr size_t kFrameBytes = 16;

  // `code` and `sink` outlive the decoder. An error says which source OpenCSD refuses and why; kUnsupported also if this
  // program was built without OpenCSD.
  static Result<std::unique_ptr<CoreSightDecoder>> Create(const CoreSightOptions& options,
                                                          CoreSightCode* code, CoreSightSink* sink);
  virtual ~CoreSightDecoder() = default;

  // `offset` of the first byte; it must not go back. Of a formatted stream whole frames are decoded: what is left at the end
  // is padding.
  virtual void Decode(uint64_t offset, Bytes bytes) = 0;
  // What follows does not continue what came: everything learnt from the stream is forgotten.
  virtual void Restart() = 0;
  // The end of the trace at hand. Nothing may be decoded afterwards without Restart.
  virtual void Finish() = 0;

  virtual const CoreSightCounts& counts() const = 0;
  virtual const std::vector<CoreSightError>& errors() const = 0;
};

// One sentence for people whose program was built without OpenCSD.
std::string_view CoreSightUnsupportedSentence();

}  // namespace ptarmigan
