#include "tests/encoders/pt_decoding.h"

#include <algorithm>
#include <memory>

#include "decode/instruction.h"
#include "tests/encoders/pt_perf_data.h"

namespace ptarmigan {
namespace {

// Follows a segment's path from block to block.
class PtPathReader : public FlowSink {
 public:
  PtPathReader(const CodeImage& image, PtDecoding* decoding)
      : image_(image),
        instructions_64_(Arch::kX86_64),
        instructions_32_(Arch::kX86),
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
      const std::vector<uint64_t>& block = BlockOf(graph, graph.edges[edge].to).addresses;
      seen.addresses.insert(seen.addresses.end(), block.begin(), block.end());
    }
    for (const EdgeCount& count : segment.edges) {
      BlockOf(graph, graph.edges[count.edge].to).runs += count.count;
    }
  }

 private:
  PtDecoding::Block& BlockOf(const FlowGraph& graph, uint32_t id) {
    if (decoding_.blocks.size() <= id) decoding_.blocks.resize(id + 1);
    std::vector<uint64_t>& addresses = decoding_.blocks[id].addresses;
    const CodeBlock& block = graph.blocks[id];
    VirtAddr at = block.start;
    while (addresses.size() < block.instructions) {
      addresses.push_back(at.value);
      at.value += (block.is_64_bit ? instructions_64_ : instructions_32_)
                      .Decode(image_.CodeAt(at, block.epoch))
                      .size_bytes;
    }
    return decoding_.blocks[id];
  }

  const CodeImage& image_;
  InstructionDecoder instructions_64_;
  InstructionDecoder instructions_32_;
  PtDecoding& decoding_;
  uint64_t last_number_ = 0;
};

}  // namespace

std::vector<uint64_t> PtDecoding::Addresses() const {
  std::vector<uint64_t> all;
  for (const Segment& segment : segments) {
    all.insert(all.end(), segment.addresses.begin(), segment.addresses.end());
  }
  return all;
}

PtWalkImage::PtWalkImage(const PtWalk& walk, const PtTraceSettings& settings) {
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

Result<PtDecoding> PtWalkImage::Decode(std::string_view trace, size_t threads,
                                       PtWalkerKind walker) const {
  return DecodePt(config_,
                  {.bytes = AsBytes(trace), .occupants = {{.image = &image_}}, .breaks = {}},
                  image_, threads, walker);
}

Result<PtDecoding> DecodePt(const PtConfig& config, const PtStream& stream, const CodeImage& image,
                            size_t threads, PtWalkerKind walker) {
  PtOptions options;
  options.walker = walker;
  options.threads = threads;
  options.want_path = true;
  TRY_ASSIGN(const std::unique_ptr<PtDecoder> decoder, PtDecoder::Create(config, options));
  PtDecoding decoding;
  PtPathReader reader(image, &decoding);
  TRY(decoder->Decode(stream, reader));
  decoding.statistics = decoder->statistics();
  return decoding;
}

}  // namespace ptarmigan
