// Rows of Arm SPE records, for the `events` view. Columns are those of docs/commands.md.
#pragma once

#include <string_view>

#include "decode/spe_stream.h"
#include "pipeline/internal/code_names.h"
#include "pipeline/internal/event_rows.h"

namespace ptarmigan::internal {

class SpeRows : public EventRows, public SpeRecordSink {
 public:
  SpeRows(const RecordingDescription& description, const SymbolizerOptions& symbolizer);

  std::string_view Header() const override;
  void Finish() override { stream_.Finish(); }
  void AddLosses(LossLedger* losses) const override { losses->Merge(stream_.losses()); }
  // Whether the recording has turned out to hold SPE records.
  bool active() const { return stream_.active(); }

  void OnMmap(const MmapEvent& event) override { names_.OnMmap(event); }
  void OnComm(const CommEvent& event) override;
  void OnFork(const TaskEvent& event) override;
  void OnExit(const TaskEvent& event) override { names_.OnExit(event); }
  void OnKsymbol(const KsymbolEvent& event) override { names_.OnKsymbol(event); }
  void OnBuildId(const BuildIdEvent& event) override { names_.OnBuildId(event); }
  void OnSwitch(const SwitchEvent& event) override { stream_.OnSwitch(event); }
  void OnAux(const AuxEvent& event) override { stream_.OnAux(event); }
  void OnAuxChunk(const AuxChunk& chunk) override { stream_.OnAuxChunk(chunk); }
  void OnOther(const OtherRecord& record) override { stream_.OnOther(record); }

  void OnSpeRecord(const SpeRecord& record, const SpeOrigin& origin) override;

 private:
  void AppendThread(const SpeOrigin& origin);
  void AppendOperation(const SpeRecord& record);
  void AppendData(const SpeRecord& record, const SpeOrigin& origin);
  void AppendAddress(const SpeRecord& record, SpeAddress address);

  CodeNames names_;
  SpeStream stream_;
};

}  // namespace ptarmigan::internal
