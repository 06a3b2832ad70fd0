#include "pipeline/event_table.h"

#include <memory>
#include <string>
#include <utility>

#include "pipeline/internal/event_rows.h"
#include "pipeline/internal/sample_rows.h"
#include "pipeline/internal/spe_rows.h"

namespace ptarmigan {
namespace {

using internal::EventRows;
using internal::SpeRows;

constexpr size_t kPieceBytes = size_t{256} << 10;

EventKind KindOfSamples(const RecordingDescription& description) {
  for (const EventDescription& event : description.events) {
    if (event.attr.Samples(kSampleBranchStack)) return EventKind::kBranch;
  }
  return EventKind::kSample;
}

// Hands events to the rows that print them. Which rows these are may be known only once an AUXTRACE_INFO says that the
// recording holds Arm SPE, or a sample comes first: until then the SPE rows listen, since they need the events before.
class EventTable : public EventSink {
 public:
  EventTable(const RecordingDescription& description, const EventTableOptions& options)
      : description_(description), kind_(options.kind) {
    if (kind_ == EventKind::kAny || kind_ == EventKind::kMemory) {
      spe_ = std::make_unique<SpeRows>(description, options.symbolizer);
    }
  }

  void OnSample(const CapturedSample& event) override { Chosen().OnSample(event); }
  void OnMmap(const MmapEvent& event) override { Listener().OnMmap(event); }
  void OnComm(const CommEvent& event) override { Listener().OnComm(event); }
  void OnFork(const TaskEvent& event) override { Listener().OnFork(event); }
  void OnExit(const TaskEvent& event) override { Listener().OnExit(event); }
  void OnSwitch(const SwitchEvent& event) override { Listener().OnSwitch(event); }
  void OnKsymbol(const KsymbolEvent& event) override { Listener().OnKsymbol(event); }
  void OnCgroup(const CgroupEvent& event) override { Listener().OnCgroup(event); }
  void OnBuildId(const BuildIdEvent& event) override { Listener().OnBuildId(event); }
  void OnAux(const AuxEvent& event) override { Listener().OnAux(event); }
  void OnAuxChunk(const AuxChunk& chunk) override { Listener().OnAuxChunk(chunk); }
  void OnOther(const OtherRecord& record) override {
    Listener().OnOther(record);
    if (rows_ == nullptr && spe_->active()) rows_ = std::move(spe_);
  }

  // The rows that print, chosen now if they were not before.
  EventRows& Chosen() {
    if (rows_ == nullptr) Choose();
    return *rows_;
  }
  bool is_chosen() const { return rows_ != nullptr; }

 private:
  EventRows& Listener() {
    if (rows_ != nullptr) return *rows_;
    if (spe_ != nullptr) return *spe_;
    return Chosen();
  }
  void Choose() {
    const EventKind kind = kind_ == EventKind::kAny ? KindOfSamples(description_) : kind_;
    if (kind == EventKind::kMemory) {
      rows_ = std::move(spe_);
    } else if (kind == EventKind::kBranch) {
      rows_ = std::make_unique<internal::BranchRows>(description_);
    } else {
      rows_ = std::make_unique<internal::SampleRows>(description_);
    }
    spe_.reset();
  }

  const RecordingDescription& description_;
  const EventKind kind_;
  std::unique_ptr<SpeRows> spe_;  // while it is not decided
  std::unique_ptr<EventRows> rows_;
};

// The header line in front of the first piece.
class PieceWriter {
 public:
  explicit PieceWriter(const std::function<Status(std::string_view)>& write) : write_(write) {}

  Status Write(EventRows& rows) {
    if (!std::exchange(started_, true)) TRY(write_(std::string(rows.Header()) + '\n'));
    const Status status = write_(rows.text());
    rows.text().clear();
    return status;
  }

 private:
  const std::function<Status(std::string_view)>& write_;
  bool started_ = false;
};

}  // namespace

Result<LossLedger> WriteEventTable(EventSource& source, const EventTableOptions& options,
                                   const std::function<Status(std::string_view)>& write) {
  EventTable table(source.description(), options);
  PieceWriter pieces(write);
  for (;;) {
    Result<PollOutcome> outcome = source.Poll(table);
    const bool ended = !outcome || *outcome == PollOutcome::kEnd;
    if (ended) table.Chosen().Finish();
    if (ended || (table.is_chosen() && table.Chosen().text().size() >= kPieceBytes)) {
      TRY(pieces.Write(table.Chosen()));
    }
    if (!outcome) return std::move(outcome).error();
    if (!ended) continue;
    LossLedger losses = source.losses();
    table.Chosen().AddLosses(&losses);
    return losses;
  }
}

}  // namespace ptarmigan
