// The input is an AUX stream: decoded as one fragment, it must be accounted for byte by byte; cut into fragments and
// pieces by its own bytes, SpeStream must count each byte once.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "decode/spe_data_source.h"
#include "decode/spe_decoder.h"
#include "decode/spe_packet.h"
#include "decode/spe_stream.h"

namespace ptarmigan {
namespace {

class CheckingSink : public SpeRecordSink {
 public:
  void OnSpeRecord(const SpeRecord& record, const SpeOrigin& origin) override {
    CHECK(record.Has(SpeAddress::kPc));
    CHECK(record.NonSecure(SpeAddress::kPc));
    CHECK(ToMemSample(record, origin).has_ip);
    ++records;
  }
  uint64_t records = 0;
};

void DescribeAll(Bytes bytes) {
  std::string text;
  while (!bytes.empty()) {
    const SpePacket packet = ReadSpePacket(bytes);
    CHECK(packet.size_bytes > 0 && packet.size_bytes <= bytes.size());
    text.clear();
    DescribeSpePacket(packet, &text);
    bytes = bytes.subspan(packet.size_bytes);
  }
}

void DecodeWhole(Bytes bytes) {
  SpeDecoder decoder;
  SpeRecord record;
  uint64_t records = 0;
  uint64_t last_end = 0;
  decoder.Start(bytes, 0);
  while (decoder.Next(&record)) {
    ++records;
    CHECK(record.aux_offset >= last_end && record.aux_offset < bytes.size());
    last_end = record.aux_offset + 1;
  }
  CHECK(decoder.counts().records == records);
  CHECK(decoder.counts().bytes.Sum() == bytes.size());
}

uint64_t SmallNumber(Bytes bytes, size_t at) {
  return at < bytes.size() ? std::to_integer<uint64_t>(bytes[at]) : 1;
}

void DecodeInPieces(Bytes bytes) {
  RecordingDescription description;
  SpeStream stream(description, {.copied_bytes_max = 4096, .waiting_max = 64});
  CheckingSink sink;
  stream.SetSink(&sink);
  constexpr uint8_t kInfo[32] = {70, 0, 0, 0, 0, 0, 32, 0, 4, 0, 0, 0, 0, 0, 0, 0,
                                 9,  0, 0, 0, 0, 0, 0,  0, 1, 0, 0, 0, 0, 0, 0, 0};
  stream.OnOther({.identity = {}, .type = 70, .misc = 0, .bytes = std::as_bytes(std::span(kInfo))});
  uint64_t fragments_end = 0;
  for (size_t at = 0; at < bytes.size();) {
    const uint64_t choice = SmallNumber(bytes, at);
    if (choice % 3 != 0) {
      AuxEvent event;
      event.identity.cpu = 0;
      event.aux_offset = fragments_end + choice % 5;
      event.size_bytes = SmallNumber(bytes, at + 1) * 2;
      event.flags = choice % 32 == 1 ? 2 : choice >> 4;
      fragments_end = event.aux_offset + event.size_bytes;
      stream.OnAux(event);
    }
    AuxChunk chunk;
    chunk.cpu = 0;
    chunk.offset = at + (choice % 7 == 0 ? 3 : 0);
    chunk.data = bytes.subspan(at, std::min<size_t>(bytes.size() - at, 1 + choice * 2));
    chunk.data_outlives_call = choice % 2 == 0;
    stream.OnAuxChunk(chunk);
    at += chunk.data.size();
  }
  stream.Finish();
  const SpeStatistics& counts = stream.statistics();
  CHECK(counts.decode.records == sink.records);
  CHECK(counts.auxtrace_bytes + counts.auxtrace_filling_bytes == bytes.size());
  CHECK(counts.auxtrace_bytes ==
        counts.decode.bytes.Sum() + counts.uncovered_bytes + counts.refused_bytes);
  CHECK(counts.aux_bytes + counts.bytes_without_record ==
        counts.decode.bytes.Sum() + counts.missing_bytes);
  CHECK(stream.losses().Balances());
}

}  // namespace
}  // namespace ptarmigan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  ptarmigan::DescribeAll(bytes);
  ptarmigan::DecodeWhole(bytes);
  ptarmigan::DecodeInPieces(bytes);
  return 0;
}
