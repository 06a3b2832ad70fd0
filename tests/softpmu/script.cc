#include "tests/softpmu/script.h"

#include <algorithm>
#include <cstring>

#include "base/byte_cursor.h"
#include "decode/internal/pt_index.h"
#include "tests/softpmu/softpmu_abi.h"

namespace ptarmigan {
namespace {

constexpr size_t kAlignment = 8;
constexpr std::string_view kPsb("\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82");
constexpr char kTscHeader = 0x19;
constexpr uint32_t kTscBytes = 7;

template <typename T>
std::string_view BytesOfValue(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

size_t Aligned(size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

SoftPmuScript::SoftPmuScript(uint32_t flags) {
  softpmu_header header = {};
  std::memcpy(header.magic, SOFTPMU_MAGIC, sizeof(header.magic));
  header.flags = flags;
  bytes_ = BytesOfValue(header);
}

SoftPmuScript& SoftPmuScript::Op(uint16_t code, std::string_view payload) {
  softpmu_op op = {};
  op.code = code;
  op.bytes = static_cast<uint32_t>(payload.size());
  bytes_ += BytesOfValue(op);
  bytes_ += payload;
  bytes_.resize(Aligned(bytes_.size()), '\0');
  return *this;
}

SoftPmuScript& SoftPmuScript::Number(uint16_t code, uint64_t value) {
  return Op(code, BytesOfValue(value));
}

SoftPmuScript& SoftPmuScript::Data(std::string_view piece) { return Op(SOFTPMU_DATA, piece); }

SoftPmuScript& SoftPmuScript::Time(const LiveTime& time) {
  const softpmu_time payload = {time.offset, time.bytes};
  return Op(SOFTPMU_TIME, BytesOfValue(payload));
}

SoftPmuScript& SoftPmuScript::Sync() { return Op(SOFTPMU_SYNC, {}); }

SoftPmuScript& SoftPmuScript::Wait(uint64_t wait_ns) { return Number(SOFTPMU_WAIT, wait_ns); }

SoftPmuScript& SoftPmuScript::Flags(uint64_t aux_flags) { return Number(SOFTPMU_FLAGS, aux_flags); }

SoftPmuScript& SoftPmuScript::Rate(uint64_t bytes_per_second) {
  return Number(SOFTPMU_RATE, bytes_per_second);
}

SoftPmuScript& SoftPmuScript::Gap() { return Op(SOFTPMU_GAP, {}); }

SoftPmuScript& SoftPmuScript::Task(std::string_view name) {
  std::string payload(name.substr(0, SOFTPMU_TASK_BYTES - 1));
  payload.resize(SOFTPMU_TASK_BYTES, '\0');
  return Op(SOFTPMU_TASK, payload);
}

SoftPmuScript& SoftPmuScript::LoopTo(const Loop& loop) {
  const softpmu_loop payload = {loop.target, loop.times};
  return Op(SOFTPMU_LOOP, BytesOfValue(payload));
}

uint64_t AppendPt(std::string_view trace, const PtScriptOptions& options, SoftPmuScript* script) {
  const Bytes bytes(reinterpret_cast<const std::byte*>(trace.data()), trace.size());
  uint64_t left_out = 0;
  size_t begin = 0;  // of the piece
  SoftPmuScript::LiveTime time;
  const auto end_piece = [&](size_t end) {
    if (end == begin) return;
    if (time.bytes > 0) script->Time(time);
    script->Data(trace.substr(begin, end - begin));
    begin = end;
    time = {};
  };
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = internal::PtPacketBytes(bytes.subspan(at));
    if (size == 0) {
      end_piece(at);
      begin = std::min(trace.find(kPsb, at), trace.size());
      left_out += begin - at;
      at = begin;
      continue;
    }
    if (size == kPsb.size() && trace.substr(at, size) == kPsb) {
      end_piece(at);
      if (options.syncs) script->Sync();
    } else if (options.live_time && trace[at] == kTscHeader) {
      if (time.bytes > 0) end_piece(at);
      time = {static_cast<uint32_t>(at - begin + 1), kTscBytes};
    }
    at += size;
    if (at - begin >= options.piece_bytes) end_piece(at);
  }
  end_piece(trace.size());
  return left_out;
}

Status AppendRecords(std::string_view records, size_t record_bytes, SoftPmuScript* script) {
  if (record_bytes == 0 || records.size() % record_bytes != 0) {
    return Error{ErrorCode::kInvalidInput, std::to_string(records.size()) +
                                               " bytes are no whole records of " +
                                               std::to_string(record_bytes)};
  }
  for (size_t at = 0; at < records.size(); at += record_bytes) {
    script->Sync().Data(records.substr(at, record_bytes));
  }
  return {};
}

std::vector<std::string_view> PiecesOf(std::string_view script) {
  std::vector<std::string_view> pieces;
  for (size_t at = sizeof(softpmu_header); at + sizeof(softpmu_op) <= script.size();) {
    softpmu_op op = {};
    std::memcpy(&op, script.data() + at, sizeof(op));
    at += sizeof(op);
    if (op.code == SOFTPMU_DATA) pieces.push_back(script.substr(at, op.bytes));
    at += Aligned(op.bytes);
  }
  return pieces;
}

std::string BytesOf(std::string_view script) {
  std::string bytes;
  for (const std::string_view piece : PiecesOf(script)) bytes += piece;
  return bytes;
}

}  // namespace ptarmigan
