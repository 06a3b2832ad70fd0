#include "pipeline/event_table.h"

#include <memory>
#include <string>
#include <utility>

#include "decode/memory_decoder.h"
#include "pipeline/internal/event_rows.h"
#include "pipeline/internal/ibs_rows.h"
#include "pipeline/internal/pebs_rows.h"
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

// Rows for the samples of memory events that the description names; null if there are none.
std::unique_ptr<EventRows> MemoryRowsOf(const RecordingDescription& description,
                                        const EventTableOptions& options) {
  using Expectation = MemoryDecoder::Expectation;
  Expectation expected = MemoryDecoder(description).Expect();
  if (options.kind != EventKind::kMemory && expected < Expectation::kDescribed) {
    expected = Expectation::kNothing;
  }
  switch (expected) {
    case Expectation::kNothing:
      return nullptr;
    case Expectation::kMaybeIbs:
    case Expectation::kIbs:
      return std::make_unique<internal::IbsRows>(description, options.symbolizer);
    case Expectation::kMaybeDescribed:
    case Expectation::kDescribed:
      return std::make_unique<internal::PebsRows>(description, options.symbolizer);
  }
  return nullptr;
}

// Hands events to the rows that print them. Which these are is known for memory records only when an AUXTRACE_INFO says
// that the recording holds Arm SPE, or a sample comes first. Until then all rows that may come into question listen, since
// they need the events before.
class EventTable : public EventSink {
 public:
  EventTable(const RecordingDescription& description, const EventTableOptions& options)
      : description_(description), options_(options) {}

  void OnSample(const CapturedSample& event) override { Chosen().OnSample(event); }
  void OnMmap(const MmapEvent& event) override { Tell(&EventSink::OnMmap, event); }
  void OnComm(const CommEvent& event) override { Tell(&EventSink::OnComm, event); }
  void OnFork(const TaskEvent& event) override { Tell(&EventSink::OnFork, event); }
  void OnExit(const TaskEvent& event) override { Tell(&EventSink::OnExit, event); }
  void OnSwitch(const SwitchEvent& event) override { Tell(&EventSink::OnSwitch, event); }
  void OnKsymbol(const KsymbolEvent& event) override { Tell(&EventSink::OnKsymbol, event); }
  void OnCgroup(const CgroupEvent& event) override { Tell(&EventSink::OnCgroup, event); }
  void OnBuildId(const BuildIdEvent& event) override { Tell(&EventSink::OnBuildId, event); }
  void OnAux(const AuxEvent& event) override { Tell(&EventSink::OnAux, event); }
  void OnAuxChunk(const AuxChunk& chunk) override { Tell(&EventSink::OnAuxChunk, chunk); }
  void OnOther(const OtherRecord& record) override {
    Tell(&EventSink::OnOther, record);
    if (spe_ != nullptr && spe_->active()) Decide(std::move(spe_));
  }

  // The rows that print, chosen now if they were not before.
  EventRows& Chosen() {
    Start();
    if (rows_ != nullptr) return *rows_;
    if (samples_ != nullptr) {
      Decide(std::move(samples_));
    } else if (options_.kind == EventKind::kMemory) {
      Decide(std::move(spe_));
    } else {
      Decide(RowsOfSamples(KindOfSamples(description_)));
    }
    return *rows_;
  }
  bool is_chosen() const { return rows_ != nullptr; }

 private:
  // With the first event, when the description is complete as far as events go (in pipe mode too).
  void Start() {
    if (std::exchange(started_, true)) return;
    if (options_.kind == EventKind::kSample || options_.kind == EventKind::kBranch) {
      rows_ = RowsOfSamples(options_.kind);
      return;
    }
    samples_ = MemoryRowsOf(description_, options_);
    spe_ = std::make_unique<SpeRows>(description_, options_.symbolizer);
  }
  std::unique_ptr<EventRows> RowsOfSamples(EventKind kind) const {
    if (kind == EventKind::kBranch) return std::make_unique<internal::BranchRows>(description_);
    return std::make_unique<internal::SampleRows>(description_);
  }
  void Decide(std::unique_ptr<EventRows> rows) {
    rows_ = std::move(rows);
    spe_.reset();
    samples_.reset();
  }
  template <typename Event>
  void Tell(void (EventSink::*what)(const Event&), const Event& event) {
    Start();
    for (EventRows* rows : {rows_.get(), samples_.get(), static_cast<EventRows*>(spe_.get())}) {
      if (rows != nullptr) (rows->*what)(event);
    }
  }

  const RecordingDescription& description_;
  const EventTableOptions options_;
  bool started_ = false;
  // While it is not decided.
  std::unique_ptr<SpeRows> spe_;
  std::unique_ptr<EventRows> samples_;
  // Afterwards.
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
