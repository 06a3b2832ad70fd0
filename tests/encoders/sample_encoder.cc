#include "tests/encoders/sample_encoder.h"

#include "base/byte_cursor.h"
#include "tests/support/byte_writer.h"

namespace ptarmigan {

std::string EncodeSample(const CapturedSample& sample, uint64_t sample_type, uint16_t misc,
                         std::endian order) {
  const auto has = [sample_type](unsigned bit) { return (sample_type >> bit & 1) != 0; };
  const RecordIdentity& who = sample.identity;
  ByteWriter body(order);
  if (has(16)) body.U64(who.id);
  if (has(0)) body.U64(sample.ip.value);
  if (has(1)) body.U32(static_cast<uint32_t>(who.pid)).U32(static_cast<uint32_t>(who.tid));
  if (has(2)) body.U64(who.time_ns);
  if (has(3)) body.U64(sample.addr.value);
  if (has(6)) body.U64(who.id);
  if (has(9)) body.U64(who.stream_id);
  if (has(7)) body.U32(who.cpu).U32(0);
  if (has(8)) body.U64(sample.period);
  if (has(5)) {
    body.U64(sample.chain.size());
    for (const uint64_t entry : sample.chain) body.U64(entry);
  }
  if (has(10)) {
    // The kernel pads so that size and bytes together end at a multiple of 8; the size counts the padding.
    const size_t padded = (sample.raw.size() + 4 + 7) / 8 * 8 - 4;
    body.U32(padded).Text(AsText(sample.raw));
    for (size_t i = sample.raw.size(); i < padded; ++i) body.U8(0);
  }
  if (has(14) || has(24)) body.U64(sample.weight);
  if (has(15)) body.U64(sample.data_src);
  if (has(17)) body.U64(sample.transaction);
  if (has(19)) body.U64(sample.phys_addr);
  if (has(21)) body.U64(sample.cgroup_id);
  if (has(22)) body.U64(sample.data_page_bytes);
  if (has(23)) body.U64(sample.code_page_bytes);
  ByteWriter record(order);
  record.U32(9).U16(misc).U16(8 + body.bytes().size()).Text(body.bytes());
  return record.bytes();
}

}  // namespace ptarmigan
