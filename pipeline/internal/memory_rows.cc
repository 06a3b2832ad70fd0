#include "pipeline/internal/memory_rows.h"

#include <utility>

namespace ptarmigan::internal {

// The source has kept what the decoder lost.
void MemoryRows::AddLosses(LossLedger* losses) const {
  LossLedger total = decoder_.losses();
  total.Capture(losses->captured());
  total.Keep(losses->kept() - decoder_.losses().Lost());
  for (const LossEntry& entry : losses->Entries()) {
    total.Lose(entry.stage, entry.reason, entry.count, entry.unit);
  }
  *losses = std::move(total);
}

void MemoryRows::OnSample(const CapturedSample& sample) {
  MemSample memory;
  if (decoder_.Decode(sample, &memory) != MemoryDecoder::Outcome::kDecoded) return;
  AppendCell("{}", rows_++);
  AppendText(EventName(description_.events[sample.event].name));
  const RecordIdentity& identity = sample.identity;
  if (identity.cpu != RecordIdentity::kNoCpu) Append("{}", identity.cpu);
  AppendEmpty();
  AppendNumber(identity.pid >= 0 ? std::optional(identity.pid) : std::nullopt);
  AppendNumber(identity.tid >= 0 ? std::optional(identity.tid) : std::nullopt);
  AppendNumber(identity.has_time ? std::optional(identity.time_ns) : std::nullopt);
  AppendHex(memory.has_ip ? std::optional(memory.ip.value) : std::nullopt);
  AppendMemory(sample, memory);
  for (size_t i = 0; i < sample.chain.size(); ++i)
    Append("{}{:x}", i == 0 ? "" : ",", sample.chain[i]);
  AppendEmpty();
  const CodeNames::Names names =
      memory.has_ip ? names_.Find(identity, memory.ip, memory.cpumode) : CodeNames::Names{};
  AppendText(names.binary);
  AppendText(names.function);
  AppendEnd();
}

}  // namespace ptarmigan::internal
