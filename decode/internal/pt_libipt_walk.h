// LibiptWalk: walks a segment by libipt's block decoder (LibiptDecoder).
//
// libipt begins only at a PSB. Where code is missing, flow is known again from the next packet that names an address: there
// the walk has a PSB written.
#pragma once

#include <algorithm>
#include <cstddef>

#include "decode/internal/pt_address_scan.h"
#include "decode/internal/pt_libipt_decoder.h"
#include "decode/internal/pt_segment_walk.h"
#include "decode/internal/pt_walker.h"

namespace ptarmigan::internal {

class LibiptWalk {
 public:
  using End = PtSegmentWalk::End;

  // The options and `walk` outlive it.
  LibiptWalk(const pt_config& base, const PtOptions& options, PtSegmentWalk* walk)
      : options_(options),
        decoder_(base, options.code_cache_bytes_max / std::max<size_t>(options.threads, 1)),
        walk_(*walk),
        recorder_(walk->recorder()) {}

  bool Open() { return decoder_.Open(); }
  // All of the segment that has been begun.
  void Walk(PtWalkResult* result);

 private:
  // Looks at the code that the walk has come to.
  bool UseImage();
  void Run();
  void FollowPackets();
  void ArriveBeforeOverflow();
  int DrainEvents(int status);
  void TakeEvent(const pt_event& event);
  [[gnu::always_inline]] inline void TakeBlock(const pt_block& block, int status);
  void TakeOddBlock(const pt_block& block, int status);
  void TakeAlongJumps(const FlowRecorder::Block& block);
  void FlushHalf();
  void Settle(int status);
  void RecordError(int code) {
    walk_.RecordError(code == -pte_nomap, static_cast<uint64_t>(-code));
  }
  bool ResumeBehindMissingCode(int* status);

  const PtOptions& options_;
  LibiptDecoder decoder_;
  PtSegmentWalk& walk_;
  FlowRecorder& recorder_;
  PtAddressScan addresses_;

  // Of the segment being walked.
  pt_block_decoder* now_ = nullptr;
  const CodeImage* image_ = nullptr;  // that libipt looks at
  size_t epoch_ = 0;
  size_t position_ = 0;       // of the packet that libipt uses next, in the segment
  FlowRecorder::Block half_;  // waits for what follows it; no instructions: none does
  bool started_ = false;      // behind the events of the segment's own header
  uint64_t steps_left_ = 0;
};

}  // namespace ptarmigan::internal
