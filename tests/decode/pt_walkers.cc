#include "tests/decode/pt_walkers.h"

#include <memory>

#include "base/str_format.h"
#include "decode/internal/flow_difference.h"

namespace ptarmigan {
namespace {

class KeepingSink : public FlowSink {
 public:
  void OnFlowSegment(const FlowGraph& graph, const FlowSegment& segment) override {
    graph_ = &graph;
    segments_.push_back(segment);
    streams_.push_back(stream);
  }
  size_t stream = 0;  // that is being decoded
  size_t stream_of(size_t i) const { return streams_[i]; }
  size_t size() const { return segments_.size(); }
  const FlowSegment& segment(size_t i) const { return segments_[i]; }
  internal::GraphedSegment graphed(size_t i) const { return {*graph_, segments_[i]}; }

 private:
  const FlowGraph* graph_ = nullptr;
  std::vector<FlowSegment> segments_;
  std::vector<size_t> streams_;
};

struct Decoding {
  std::unique_ptr<PtDecoder> decoder;  // holds the graph
  KeepingSink sink;
};

// Empty if built without libipt.
Decoding DecodeBy(PtWalkerKind walker, const PtConfig& config, const std::vector<PtStream>& streams,
                  PtOptions options) {
  Decoding decoding;
  options.walker = walker;
  auto decoder = PtDecoder::Create(config, options);
  if (!decoder) return decoding;
  decoding.decoder = std::move(*decoder);
  for (const PtStream& stream : streams) {
    if (!decoding.decoder->Decode(stream, decoding.sink)) return {};
    ++decoding.sink.stream;
  }
  return decoding;
}

// Whether both say what `segment` says if they begin with it.
bool AgreeAlone(const PtConfig& config, PtStream stream, const PtOptions& options,
                const FlowSegment& segment) {
  stream.bytes =
      stream.bytes.subspan(static_cast<size_t>(segment.begin_offset - stream.begin_offset));
  stream.begin_offset = segment.begin_offset;
  const Decoding ours = DecodeBy(PtWalkerKind::kFast, config, {stream}, options);
  const Decoding theirs = DecodeBy(PtWalkerKind::kLibipt, config, {stream}, options);
  return ours.sink.size() > 0 && theirs.sink.size() > 0 &&
         ours.sink.segment(0).instructions == segment.instructions &&
         internal::FlowDifference(ours.sink.graphed(0), theirs.sink.graphed(0)).empty();
}

}  // namespace

void PtWalkerComparison::Add(const PtWalkerComparison& other) {
  segments += other.segments;
  by_libipt += other.by_libipt;
  other_errors += other.other_errors;
  if (difference.empty()) difference = other.difference;
}

std::string PtWalkerComparison::Text() const {
  return StrFormat("{} of {} segments left to libipt, {} other errors", by_libipt, segments,
                   other_errors);
}

PtWalkerComparison ComparePtWalkers(const PtConfig& config, const std::vector<PtStream>& streams,
                                    PtOptions options) {
  const Decoding ours = DecodeBy(PtWalkerKind::kFast, config, streams, options);
  const Decoding theirs = DecodeBy(PtWalkerKind::kLibipt, config, streams, options);
  PtWalkerComparison comparison;
  if (ours.decoder == nullptr || theirs.decoder == nullptr) return comparison;
  const FlowStatistics& ours_counted = ours.decoder->statistics();
  const FlowStatistics& theirs_counted = theirs.decoder->statistics();
  comparison.segments = ours_counted.segments;
  comparison.by_libipt = ours_counted.segments_by_libipt;
  if (ours.sink.size() != theirs.sink.size() || ours_counted.segments != theirs_counted.segments ||
      ours_counted.bytes.Sum() != theirs_counted.bytes.Sum()) {
    comparison.difference = "the statistics differ";
    return comparison;
  }
  for (size_t i = 0; i < ours.sink.size(); ++i) {
    const FlowSegment& segment = ours.sink.segment(i);
    const std::string difference =
        internal::FlowDifference(ours.sink.graphed(i), theirs.sink.graphed(i));
    if (difference.empty()) continue;
    if (theirs.sink.segment(i).trust == FlowTrust::kBad &&
        (segment.trust == FlowTrust::kBad ||
         AgreeAlone(config, streams[ours.sink.stream_of(i)], options, segment))) {
      ++comparison.other_errors;
      continue;
    }
    comparison.difference = StrFormat("segment {} at {:#x} (ours, libipt's): {}", segment.number,
                                      segment.begin_offset, difference);
    break;
  }
  return comparison;
}

PtWalkerComparison ComparePtWalkersInAllWays(const PtConfig& config,
                                             const std::vector<PtStream>& streams) {
  PtWalkerComparison all;
  for (const bool more : {false, true}) {
    for (const bool time : {false, true}) {
      PtOptions options;
      options.want_path = options.want_calls = more;
      options.want_time = time;
      all.Add(ComparePtWalkers(config, streams, options));
    }
  }
  return all;
}

}  // namespace ptarmigan
