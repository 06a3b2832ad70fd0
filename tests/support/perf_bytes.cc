#include "tests/support/perf_bytes.h"

#include <algorithm>

namespace ptarmigan {
namespace {

constexpr size_t kHeaderBytes = 104;
constexpr size_t kSectionBytes = 16;
constexpr size_t kHeaderStringBytes = 64;

uint64_t ReverseBits(uint64_t value) {
  uint64_t reversed = 0;
  for (unsigned bit = 0; bit < 64; ++bit) reversed |= (value >> bit & 1) << (63 - bit);
  return reversed;
}

}  // namespace

std::string PaddedName(std::string_view text) {
  std::string name(text);
  name.resize((text.size() + 1 + 7) / 8 * 8);
  return name;
}

std::string HeaderString(std::string_view text, std::endian order) {
  std::string padded(text);
  padded.resize((text.size() + 1 + kHeaderStringBytes - 1) / kHeaderStringBytes *
                kHeaderStringBytes);
  return ByteWriter(order).U32(padded.size()).Text(padded).bytes();
}

std::string AttrBytes(const PerfAttr& attr, std::endian order) {
  ByteWriter writer(order);
  writer.U32(attr.type)
      .U32(attr.size_bytes)
      .U64(attr.config)
      .U64(attr.period)
      .U64(attr.sample_type);
  writer.U64(attr.read_format);
  // A big-endian compiler starts bit fields at the most significant bit.
  writer.U64(order == std::endian::little ? attr.flags : ReverseBits(attr.flags));
  writer.U32(0).U32(0).U64(0).U64(0).U64(attr.branch_sample_type).U64(attr.regs_user);
  writer.U32(attr.stack_user_bytes)
      .U32(0)
      .U64(attr.regs_intr)
      .U32(0)
      .U16(0)
      .U16(0)
      .U32(attr.aux_sample_bytes)
      .U32(0)
      .U64(0)
      .U64(0);
  std::string bytes = writer.bytes();
  bytes.resize(attr.size_bytes);  // cut for an old one, zeros for a newer one
  return bytes;
}

std::string RecordBytes(uint32_t type, uint16_t misc, std::string_view body, std::endian order) {
  ByteWriter writer(order);
  writer.U32(type).U16(misc).U16(8 + body.size()).Text(body);
  return writer.bytes();
}

std::string PerfFileBuilder::Trailer(const PerfWho& who) const {
  return Writer()
      .U32(static_cast<uint32_t>(who.pid))
      .U32(static_cast<uint32_t>(who.tid))
      .U64(who.time_ns)
      .U32(who.cpu)
      .U32(0)
      .bytes();
}

void PerfFileBuilder::AddSample(const PerfSample& sample) {
  AddRecord(9, sample.misc,
            Writer().U64(sample.ip).Text(Trailer(sample.who)).U64(sample.period).bytes());
}

void PerfFileBuilder::AddMmap(const PerfMap& map) {
  AddRecord(1, map.misc,
            Writer()
                .U32(static_cast<uint32_t>(map.who.pid))
                .U32(static_cast<uint32_t>(map.who.tid))
                .U64(map.start)
                .U64(map.length)
                .U64(map.file_offset)
                .Text(PaddedName(map.path))
                .Text(Trailer(map.who))
                .bytes());
}

void PerfFileBuilder::AddComm(const PerfWho& who, std::string_view comm) {
  AddRecord(3, 0,
            Writer()
                .U32(static_cast<uint32_t>(who.pid))
                .U32(static_cast<uint32_t>(who.tid))
                .Text(PaddedName(comm))
                .Text(Trailer(who))
                .bytes());
}

std::string PerfFileBuilder::Build(bool version_1, bool killed) const {
  // header | ids | attrs | data | feature table | features
  size_t attr_bytes = 0;
  for (const PerfAttr& attr : attrs_) attr_bytes = std::max<size_t>(attr_bytes, attr.size_bytes);
  const size_t entry_bytes = attr_bytes + kSectionBytes;
  ByteWriter ids = Writer();
  ByteWriter entries = Writer();
  for (const PerfAttr& attr : attrs_) {
    std::string bytes = AttrBytes(attr, order_);
    bytes.resize(attr_bytes);
    entries.Text(bytes).U64(kHeaderBytes + ids.bytes().size()).U64(8 * attr.ids.size());
    for (const uint64_t id : attr.ids) ids.U64(id);
  }
  const size_t attrs_offset = kHeaderBytes + ids.bytes().size();
  const size_t data_offset = attrs_offset + entries.bytes().size();
  uint64_t words[4] = {};
  std::vector<std::pair<unsigned, std::string>> features = features_;
  std::sort(features.begin(), features.end());
  for (const auto& [id, bytes] : features) words[id / 64] |= uint64_t{1} << (id % 64);

  ByteWriter file = Writer();
  if (version_1) {
    file.Text("PERFFILE");
  } else {
    file.Text(order_ == std::endian::little ? "PERFILE2" : "2ELIFREP");
  }
  file.U64(kHeaderBytes).U64(entry_bytes);
  file.U64(attrs_offset).U64(entries.bytes().size());
  file.U64(data_offset).U64(killed ? 0 : data_.size());
  file.U64(0).U64(0);
  for (const uint64_t word : words) file.U64(word);
  file.Text(ids.bytes()).Text(entries.bytes()).Text(data_);
  if (killed) return file.bytes();
  size_t offset = file.bytes().size() + kSectionBytes * features.size();
  for (const auto& [id, bytes] : features) {
    file.U64(offset).U64(bytes.size());
    offset += bytes.size();
  }
  for (const auto& [id, bytes] : features) file.Text(bytes);
  return file.bytes();
}

std::string PerfFileBuilder::File(bool version_1) const { return Build(version_1, false); }
std::string PerfFileBuilder::KilledFile() const { return Build(false, true); }

std::string PerfFileBuilder::Pipe() const {
  ByteWriter pipe = Writer();
  pipe.Text(order_ == std::endian::little ? "PERFILE2" : "2ELIFREP").U64(kSectionBytes);
  for (const PerfAttr& attr : attrs_) {
    ByteWriter body = Writer();
    body.Text(AttrBytes(attr, order_));
    for (const uint64_t id : attr.ids) body.U64(id);
    pipe.Text(RecordBytes(64, 0, body.bytes(), order_));
  }
  for (const auto& [id, bytes] : features_) {
    pipe.Text(RecordBytes(80, 0, Writer().U64(id).Text(bytes).bytes(), order_));
  }
  return pipe.Text(data_).bytes();
}

}  // namespace ptarmigan
