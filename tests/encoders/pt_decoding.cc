#include "tests/encoders/pt_decoding.h"

#include <algorithm>
#include <map>

#include "decode/instruction.h"
#include "tests/encoders/pt_perf_data.h"

namespace ptarmigan {

// Follows a segment's path from block to block.
class PtPathReader : public FlowSink {
 public:
  PtPathReader(const PtWalk& walk, const ArrayCodeImage& image, PtDecoding* decoding)
      : image_(image),
        instructions_(walk.program().options().is_64_bit ? Arch::kX86_64 : Arch::kX86),
        decoding_(*decoding) {}

  void OnFlowSegment(const FlowGraph& graph, const FlowSegment& segment) override {
    // Several results of one segment are one here.
    if (decoding_.segments.empty() || segment.number != last_number_) {
      decoding_.segments.push_back({.begin_offset = segment.begin_offset, .addresses = {}});
    }
    last_number_ = segment.number;
    PtDecoding::Segment& seen = decoding_.segments.back();
    seen.end_offset = segment.end_offset;
    seen.trust = std::max(seen.trust, segment.trust);
    seen.reasons |= segment.checks.reasons;
    for (const uint32_t edge : segment.path) {
      const std::vector<uint64_t>& block = AddressesOf(graph, graph.edges[edge].to);
      seen.addresses.insert(seen.addresses.end(), block.begin(), block.end());
    }
  }

 private:
  const std::vector<uint64_t>& AddressesOf(const FlowGraph& graph, uint32_t id) {
    if (addresses_.size() <= id) addresses_.resize(id + 1);
    std::vector<uint64_t>& addresses = addresses_[id];
    const CodeBlock& block = graph.blocks[id];
    VirtAddr at = block.start;
    while (addresses.size() < block.instructions) {
      addresses.push_back(at.value);
      at.value += instructions_.Decode(image_.CodeAt(at, block.epoch)).size_bytes;
    }
    return addresses;
  }

  const ArrayCodeImage& image_;
  InstructionDecoder instructions_;
  PtDecoding& decoding_;
  std::vector<std::vector<uint64_t>> addresses_;  // of blocks
  uint64_t last_number_ = 0;
};

std::vector<uint64_t> PtDecoding::Addresses() const {
  std::vector<uint64_t> all;
  for (const Segment& segment : segments) {
    all.insert(all.end(), segment.addresses.begin(), segment.addresses.end());
  }
  return all;
}

PtWalkDecoder::PtWalkDecoder(const PtWalk& walk, const PtTraceSettings& settings, size_t threads)
    : walk_(walk), threads_(threads) {
  config_.cpu_is_intel = true;
  config_.cpu_family = 6;
  config_.cpu_model = 143;
  config_.cpu_stepping = 8;
  config_.tsc_ratio = 2 * PtTraceSettings::kTscPerCtc;
  config_.crystal_ratio = 2;
  config_.mtc_frequency = static_cast<uint8_t>(settings.mtc_period);
  config_.mtc = settings.mtc && settings.tsc;
  config_.cyc = settings.cyc;
  config_.nominal_ratio = PtTraceSettings::kNominalRatio;
  config_.return_compression = settings.return_compression;
  config_.time_shift = PtPerfData::kTimeShift;
  config_.time_mult = static_cast<uint32_t>(PtPerfData::kTimeMult);
  config_.time_zero = PtPerfData::kTimeZeroNs;
  const PtProgram& program = walk.program();
  uint64_t content = 0;
  const auto add = [&](const PtCode& code) {
    image_.AddRegion({.start = {code.address}, .bytes = AsBytes(code.bytes), .content = ++content});
  };
  for (const PtCode& code : program.code()) {
    if (code.region != PtRegion::kJit || code.version == 0) add(code);
  }
  for (const PtFunction& function : program.functions()) {
    if (function.region == PtRegion::kJit) continue;  // versions overlap
    image_.AddFunction({{function.start}, {function.end}});
  }
  for (const PtCodeChange& change : walk.code_changes()) {
    image_.StartEpoch(PtPerfData::TimeNs(walk.steps()[change.step - 1].tsc + 1));
    add(program.code()[program.JitCode(change.slot, change.version)]);
  }
}

Result<PtDecoding> PtWalkDecoder::Decode(std::string_view trace) const {
  PtOptions options;
  options.threads = threads_;
  options.want_path = true;
  TRY_ASSIGN(const std::unique_ptr<PtDecoder> decoder, PtDecoder::Create(config_, options));
  PtDecoding decoding;
  PtPathReader reader(walk_, image_, &decoding);
  TRY(decoder->Decode({.bytes = AsBytes(trace), .occupants = {{.image = &image_}}, .breaks = {}},
                      reader));
  decoding.statistics = decoder->statistics();
  return decoding;
}

PtSegmentTruth TruthOfSegment(const PtWalk& walk, const PtTrace& trace,
                              const PtSegmentRange& range) {
  const auto at = [&trace](uint64_t offset) {
    return std::find_if(trace.syncs.begin(), trace.syncs.end(),
                        [offset](const PtTrace::Sync& sync) { return sync.offset == offset; });
  };
  const auto begin = at(range.begin_offset);
  if (begin == trace.syncs.end()) return {};
  const auto end = at(range.end_offset);
  if (end == trace.syncs.end() && range.end_offset != trace.bytes.size()) return {};
  const size_t last = end == trace.syncs.end() ? trace.visible.size() : end->visible;
  PtSegmentTruth truth{.known = true, .addresses = {}};
  for (size_t i = begin->visible; i < last; ++i) {
    truth.addresses.push_back(walk.AddressOf(walk.steps()[trace.visible[i]]));
  }
  return truth;
}

}  // namespace ptarmigan
