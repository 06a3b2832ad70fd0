// What rows of memory samples (not of AUX data) have in common, for the `events` view: the samples decoded, the names of
// their code, the cells at both ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "decode/memory_decoder.h"
#include "pipeline/internal/code_names.h"
#include "pipeline/internal/event_rows.h"

namespace ptarmigan::internal {

class MemoryRows : public EventRows {
 public:
  MemoryRows(const RecordingDescription& description, const SymbolizerOptions& symbolizer)
      : description_(description), decoder_(description), names_(description, symbolizer) {}

  void AddLosses(LossLedger* losses) const override;

  void OnSample(const CapturedSample& sample) final;
  void OnMmap(const MmapEvent& event) override { names_.OnMmap(event); }
  void OnComm(const CommEvent& event) override { names_.OnComm(event); }
  void OnFork(const TaskEvent& event) override { names_.OnFork(event); }
  void OnExit(const TaskEvent& event) override { names_.OnExit(event); }
  void OnKsymbol(const KsymbolEvent& event) override { names_.OnKsymbol(event); }
  void OnBuildId(const BuildIdEvent& event) override { names_.OnBuildId(event); }

 protected:
  // The text of column `event`.
  virtual std::string_view EventName(std::string_view name) const { return name; }
  // The cells between the ip and the chain.
  virtual void AppendMemory(const CapturedSample& sample, const MemSample& memory) = 0;
  const MemoryDecoder& decoder() const { return decoder_; }
  const EventAttr& AttrOf(const CapturedSample& sample) const {
    return description_.events[sample.event].attr;
  }

  void AppendFlag(std::optional<bool> flag) { AppendText(!flag ? "" : *flag ? "1" : "0"); }
  template <typename T>
  void AppendNumber(std::optional<T> number) {
    if (number) Append("{}", *number);
    AppendEmpty();
  }
  void AppendHex(std::optional<uint64_t> number) {
    if (number) Append("0x{:x}", *number);
    AppendEmpty();
  }
  void AppendEmpty(size_t cells) { text_.append(cells, '\t'); }
  using EventRows::AppendEmpty;

 private:
  const RecordingDescription& description_;
  MemoryDecoder decoder_;
  CodeNames names_;
  uint64_t rows_ = 0;
};

}  // namespace ptarmigan::internal
