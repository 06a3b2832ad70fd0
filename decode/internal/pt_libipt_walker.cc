// PtWalker by libipt's block decoder (intel-pt.h, libipt 2.0.5 and later).
//
// A libipt decoder is bound to one buffer for its life, and making one costs as much as decoding a small segment. So a
// walker keeps one over a buffer of its own, and copies each segment to the end of it.
//
// Code reaches libipt as sections of files, through its section cache, which keeps what it learnt about them: the open
// files of CodeRegion, or memory files that hold a copy. Never through the read-memory callback, for which it keeps
// nothing.
//
// libipt begins only at a PSB. Where code is missing, flow is known again from the next packet that names an address: there
// the walker writes a PSB of its own, over bytes that have been used.
#include <intel-pt.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "base/str_format.h"
#include "decode/internal/pt_address_scan.h"
#include "decode/internal/pt_packet_scan.h"
#include "decode/internal/pt_walker.h"

namespace ptarmigan::internal {
namespace {

// Segments up to this are copied; larger ones (a PSB every 64 KiB is the rarest that hardware can be asked for) get a
// decoder of their own.
constexpr size_t kBufferBytes = size_t{256} << 10;
// How far from the epoch that the clock says code is looked for that is not in it.
constexpr size_t kEpochsTried = 16;
// Images that a walker keeps set up.
constexpr size_t kImagesMax = 256;
// With CYC packets times are known this many times better than to an MTC period.
constexpr uint64_t kCycSlackPart = 8;
// Blocks are not put together beyond this.
constexpr uint32_t kBlockInstructionsMax = 1 << 16;
// How many parts a segment may have, if who runs keeps changing.
constexpr size_t kPartsMax = 4096;
// Steps of the decoder for each byte of trace, beyond the budget without packets: no packet holds more than 47 branches,
// each of which ends a block and may come with an event.
constexpr uint64_t kStepsPerByte = 64;

struct DecoderDeleter {
  void operator()(pt_block_decoder* decoder) const { pt_blk_free_decoder(decoder); }
};
struct ImageDeleter {
  void operator()(pt_image* image) const { pt_image_free(image); }
};
struct CacheDeleter {
  void operator()(pt_image_section_cache* cache) const { pt_iscache_free(cache); }
};
using Decoder = std::unique_ptr<pt_block_decoder, DecoderDeleter>;
using Image = std::unique_ptr<pt_image, ImageDeleter>;

// The sections of all images, shared by all walkers.
class SectionCache {
 public:
  explicit SectionCache(uint64_t bytes_max) : cache_(pt_iscache_alloc("ptarmigan")) {
    if (cache_ != nullptr) pt_iscache_set_limit(cache_.get(), bytes_max);
  }
  bool ok() const { return cache_ != nullptr; }
  pt_image_section_cache* get() const { return cache_.get(); }

  // The number of a region's section, negative if it cannot be read.
  int Find(const CodeImage* image, size_t epoch, const CodeRegion& region) {
    const bool shared = region.content != 0;
    const Key key = {shared ? nullptr : image, shared ? 0 : epoch, region.content,
                     region.file_offset,       region.start.value, region.bytes.size()};
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = sections_.find(key);
    if (found != sections_.end()) return found->second;
    const int section = Add(region);
    sections_.emplace(key, section);
    return section;
  }

 private:
  using Key = std::tuple<const CodeImage*, size_t, uint64_t, uint64_t, uint64_t, uint64_t>;

  int Add(const CodeRegion& region) {
    int fd = region.fd;
    uint64_t offset = region.file_offset;
    if (fd < 0) {
      Fd memory(memfd_create("ptarmigan-code", MFD_CLOEXEC));
      if (memory.get() < 0 || !WriteAll(memory.get(), region.bytes, "code")) return -pte_bad_file;
      fd = memory.get();
      offset = 0;
      memory_files_.push_back(std::move(memory));
    }
    const std::string name = StrFormat("/proc/self/fd/{}", fd);
    return pt_iscache_add_file(cache_.get(), name.c_str(), offset, region.bytes.size(),
                               region.start.value);
  }

  std::unique_ptr<pt_image_section_cache, CacheDeleter> cache_;
  std::mutex mutex_;
  std::map<Key, int> sections_;
  std::vector<Fd> memory_files_;  // libipt opens them again and again
};

// Packets newer than libipt: their length is all that is needed.
int SkipUnknownPacket(pt_packet_unknown*, const pt_config* config, const uint8_t* position,
                      void* counter) {
  const size_t size = PtPacketBytes(
      std::as_bytes(std::span(position, static_cast<size_t>(config->end - position))));
  if (size == 0) return -pte_bad_opc;
  ++*static_cast<uint64_t*>(counter);
  return static_cast<int>(size);
}

FlowTrust TrustOf(uint32_t reasons) {
  constexpr uint32_t kWrong =
      FlowChecks::kDecoderError | FlowChecks::kEndNotReached | FlowChecks::kBudget;
  constexpr uint32_t kDoubtful =
      FlowChecks::kReturnMismatch | FlowChecks::kCallIntoFunction | FlowChecks::kImplausible;
  if ((reasons & kWrong) != 0) return FlowTrust::kBad;
  if ((reasons & kDoubtful) != 0) return FlowTrust::kSuspect;
  return FlowTrust::kVerified;
}

class LibiptWalker : public PtWalker {
 public:
  LibiptWalker(const PtConfig& config, const pt_config& base, const PtOptions& options,
               SectionCache* sections)
      : config_(config),
        options_(options),
        sections_(sections),
        base_(base),
        scan_(config, options.want_time),
        recorder_({.want_path = options.want_path,
                   .want_calls = options.want_calls,
                   .want_contexts = options.want_contexts,
                   .check_landings = true}) {
    base_.decode.callback = SkipUnknownPacket;
    base_.decode.context = &unknown_packets_;
  }

  bool Open() {
    buffer_.resize(kBufferBytes);
    decoder_ = OpenDecoder(buffer_.data(), buffer_.size());
    return decoder_ != nullptr;
  }

  void Walk(const PtSegmentTask& task, PtWalkResult* result) override;

 private:
  enum class End : uint8_t { kRunning, kEndOfTrace, kArrived, kError, kBudget };

  Decoder OpenDecoder(uint8_t* begin, size_t size) {
    pt_config config = base_;
    config.begin = begin;
    config.end = begin + size;
    return Decoder(pt_blk_alloc_decoder(&config));
  }
  // The buffer's offset of the segment's first byte.
  uint64_t Load(Bytes bytes, pt_block_decoder** decoder);
  pt_image* ImageOf(const CodeImage* image, size_t epoch);
  void UseOccupant(size_t index, uint64_t ticks);
  bool SetImage(const CodeImage* image, size_t epoch);
  // Takes up new code when its time comes. `enabled_now`: tracing has just begun, so that another owner may run.
  void FollowTime(uint64_t ticks, uint64_t cycles, bool enabled_now);
  void StartPart(FlowStrand::Start start);
  void FinishPart();
  void Run();
  void FollowPackets();
  size_t Position() const;
  void TakeMark(PtPacketScan::Mark::Kind kind);
  void ArriveBeforeOverflow();
  int DrainEvents(int status);
  void TakeEvent(const pt_event& event);
  [[gnu::always_inline]] inline void TakeBlock(const pt_block& block, int status);
  void TakeOddBlock(const pt_block& block, int status);
  void TakeAlongJumps(const FlowRecorder::Block& block);
  void FlushHalf();
  void Settle(int status);
  void RecordError(int code);
  bool TryOtherEpoch(uint64_t address);
  bool ResumeBehindMissingCode(int* status);
  uint64_t ContentBytes(size_t begin, size_t end) const;
  void AddMissing(uint64_t bytes);
  void Judge();
  void CountBytes();

  const PtConfig& config_;
  const PtOptions& options_;
  SectionCache* sections_;
  pt_config base_;
  PtPacketScan scan_;
  PtAddressScan addresses_;
  FlowRecorder recorder_;
  std::vector<uint8_t> buffer_;
  Decoder decoder_;
  Decoder large_decoder_;
  uint64_t unknown_packets_ = 0;
  std::map<std::pair<const CodeImage*, size_t>, Image> images_;

  // Of the segment being walked.
  pt_block_decoder* now_ = nullptr;
  uint64_t begin_ = 0;        // of the segment in libipt's buffer
  size_t position_ = 0;       // of the packet that libipt uses next, in the segment
  FlowRecorder::Block half_;  // waits for what follows it; no instructions: none does
  const PtSegmentTask* task_ = nullptr;
  PtWalkResult* result_ = nullptr;
  FlowSegment* part_ = nullptr;
  size_t occupant_ = 0;
  size_t epoch_ = 0;
  const CodeImage* image_ = nullptr;
  uint64_t next_change_ticks_ = 0;  // when the image or its epoch changes
  bool tracing_ = false;
  bool started_ = false;  // behind the events of the segment's own header
  End end_ = End::kRunning;
  int error_ = 0;
  uint64_t address_ = 0;  // where the last event took place
  uint64_t overflows_ = 0;
  uint64_t steps_left_ = 0;
  // Parts of the segment that ran in code that is missing.
  struct Skip {
    size_t begin = 0;
    size_t end = 0;
  };
  std::vector<Skip> skips_;
};

uint64_t LibiptWalker::Load(Bytes bytes, pt_block_decoder** decoder) {
  large_decoder_.reset();
  if (bytes.size() <= buffer_.size()) {
    const size_t offset = buffer_.size() - bytes.size();
    std::memcpy(buffer_.data() + offset, bytes.data(), bytes.size());
    *decoder = decoder_.get();
    return offset;
  }
  // libipt only reads, but its buffer is not const.
  uint8_t* begin = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(bytes.data()));
  large_decoder_ = OpenDecoder(begin, bytes.size());
  *decoder = large_decoder_.get();
  return 0;
}

pt_image* LibiptWalker::ImageOf(const CodeImage* image, size_t epoch) {
  const auto found = images_.find({image, epoch});
  if (found != images_.end()) return found->second.get();
  if (images_.size() >= kImagesMax) {
    pt_blk_set_image(now_, nullptr);
    images_.clear();
  }
  Image made(pt_image_alloc(nullptr));
  if (made == nullptr) return nullptr;
  if (image != nullptr) {
    for (const CodeRegion& region : image->Regions(epoch)) {
      const int section = sections_->Find(image, epoch, region);
      // What cannot be read is missing code, and is met and counted as such.
      if (section > 0) pt_image_add_cached(made.get(), sections_->get(), section, nullptr);
    }
  }
  return images_.emplace(std::pair(image, epoch), std::move(made)).first->second.get();
}

bool LibiptWalker::SetImage(const CodeImage* image, size_t epoch) {
  image_ = image;
  epoch_ = epoch;
  recorder_.SetCode(image, epoch);
  pt_image* made = ImageOf(image, epoch);
  return made != nullptr && pt_blk_set_image(now_, made) >= 0;
}

void LibiptWalker::UseOccupant(size_t index, uint64_t ticks) {
  occupant_ = index;
  const std::span<const CodeOccupant> occupants = task_->occupants;
  const CodeImage* image = occupants[index].image;
  // Code is published a little before it is known to have run: times are those of the last timing packet.
  const uint64_t slack = config_.MtcPeriodTicks() / (config_.cyc ? kCycSlackPart : 1);
  size_t epoch = 0;
  if (image != nullptr) {
    // Without a clock: what was mapped in the end, which holds most of what was mapped at all.
    epoch = ticks == 0 || !config_.has_clock() ? image->Epochs() - 1
                                               : image->EpochAt(config_.ToNs(ticks + slack));
  }
  SetImage(image, epoch);
  uint64_t next = UINT64_MAX;
  if (index + 1 < occupants.size()) next = occupants[index + 1].since_ticks;
  if (image != nullptr && epoch + 1 < image->Epochs()) {
    const uint64_t begins = config_.ToTicks(image->EpochStartNs(epoch + 1));
    next = std::min(next, begins - std::min(begins, slack));
  }
  next_change_ticks_ = next;
}

void LibiptWalker::FollowTime(uint64_t ticks, uint64_t cycles, bool enabled_now) {
  if (ticks < next_change_ticks_) return;
  const std::span<const CodeOccupant> occupants = task_->occupants;
  size_t index = occupant_;
  while (index + 1 < occupants.size() && occupants[index + 1].since_ticks <= ticks) ++index;
  const bool same_owner = occupants[index].owner == occupants[occupant_].owner;
  // Somebody else's code runs only behind a switch, where tracing was off.
  if (!same_owner && !enabled_now) return;
  if (!same_owner && result_->size < kPartsMax) {
    FinishPart();
    UseOccupant(index, ticks);
    StartPart(FlowStrand::Start::kEnabled);
    if (options_.want_time) recorder_.OnTime(ticks, cycles);
    return;
  }
  UseOccupant(index, ticks);
}

void LibiptWalker::StartPart(FlowStrand::Start start) {
  part_ = result_->NextPart();
  part_->number = task_->number;
  part_->owner = task_->occupants[occupant_].owner;
  part_->begin_offset = task_->offset;
  part_->end_offset = task_->offset + task_->bytes.size();
  recorder_.Begin(part_, start);
}

void LibiptWalker::FinishPart() { recorder_.Finish(&result_->graph); }

void LibiptWalker::Walk(const PtSegmentTask& task, PtWalkResult* result) {
  task_ = &task;
  result_ = result;
  result->Clear();
  end_ = End::kRunning;
  error_ = 0;
  overflows_ = 0;
  unknown_packets_ = 0;
  tracing_ = false;
  started_ = false;
  const Bytes bytes = task.bytes_and_header;
  steps_left_ = bytes.size() * kStepsPerByte + options_.packetless_blocks_max;
  begin_ = Load(bytes, &now_);
  position_ = 0;
  half_.instructions = 0;
  skips_.clear();
  scan_.Scan(bytes);
  const uint64_t ticks = task.begin.has_tsc ? task.begin.tsc : 0;
  size_t index = 0;
  while (index + 1 < task.occupants.size() && task.occupants[index + 1].since_ticks <= ticks) {
    ++index;
  }
  if (now_ == nullptr) {
    occupant_ = index;
    StartPart(FlowStrand::Start::kSegment);
    RecordError(-pte_nomem);
  } else {
    UseOccupant(index, ticks);
    StartPart(FlowStrand::Start::kSegment);
    if (options_.want_time && task.begin.has_tsc) recorder_.OnTime(ticks);
    Run();
  }
  // What an error left unfinished is not known to have run: not its first half either, which depends on what libipt has seen.
  if (end_ == End::kError && error_ != -pte_nomap) half_.instructions = 0;
  FlushHalf();
  Judge();
  CountBytes();
  result->counts.overflows = overflows_;
  result->counts.unknown_packets = unknown_packets_;
}

// Where libipt meets code that it has seen before, it ends the block it is in, whether or not a branch stands there. What
// other segments have run must make no difference, so such blocks wait for what follows.
void LibiptWalker::TakeBlock(const pt_block& block, int status) {
  if (block.iclass != ptic_other && block.iclass != ptic_ptwrite && block.ninsn != 0 &&
      half_.instructions == 0 && block.mode != ptem_16bit) [[likely]] {
    recorder_.OnBlock({.start = block.ip,
                       .last = block.end_ip,
                       .instructions = block.ninsn,
                       .is_64_bit = block.mode != ptem_32bit});
    return;
  }
  TakeOddBlock(block, status);
}

void LibiptWalker::Run() {
  int status = pt_blk_sync_set(now_, begin_);
  tracing_ = status >= 0 && (status & pts_ip_suppressed) == 0;
  result_->began_tracing = tracing_;
  for (;;) {
    if (status != 0) {
      status = DrainEvents(status);
      if (status < 0) {
        RecordError(status);
        return;
      }
      if (end_ != End::kRunning) return;
      if ((status & pts_eos) != 0) {
        Settle(status);
        return;
      }
    }
    started_ = true;
    if (steps_left_-- == 0) {
      end_ = End::kBudget;
      return;
    }
    pt_block block;
    status = pt_blk_next(now_, &block, sizeof(block));
    if (status < 0) {
      if (status == -pte_nomap && block.ninsn == 0 && TryOtherEpoch(block.ip)) {
        status = 0;
        continue;
      }
      // What was run up to where code is missing did run; what an error left unfinished is not known to have.
      if (status == -pte_nomap) TakeBlock(block, status);
      if (status == -pte_eos) {
        end_ = End::kEndOfTrace;
        return;
      }
      // Behind missing code a return may be compressed whose call was there.
      const bool lacks_call = status == -pte_retstack_empty && !skips_.empty();
      if (!lacks_call) address_ = block.ninsn > 0 ? block.end_ip : block.ip;
      if ((lacks_call || status == -pte_nomap) && ResumeBehindMissingCode(&status)) continue;
      RecordError(lacks_call ? -pte_nomap : status);
      return;
    }
    if (block.mode == ptem_16bit) {
      address_ = block.ip;
      RecordError(-pte_bad_insn);
      return;
    }
    TakeBlock(block, status);
    if (options_.want_time) FollowPackets();
  }
}

// How far libipt has read: it has just used the packet at which it stood before, and waits at the next one that tells of
// flow.
void LibiptWalker::FollowPackets() {
  const size_t position = Position();
  if (position == position_) return;
  uint64_t ticks = 0;
  uint64_t cycles = 0;
  if (scan_.TicksAt(position_, &ticks, &cycles) && ticks > recorder_.last_ticks()) {
    recorder_.OnTime(ticks, cycles);
    FollowTime(ticks, cycles, false);
  }
  position_ = position;
}

size_t LibiptWalker::Position() const {
  uint64_t offset = 0;
  return pt_blk_get_offset(now_, &offset) == 0 ? static_cast<size_t>(offset - begin_) : 0;
}

void LibiptWalker::TakeOddBlock(const pt_block& block, int status) {
  // Nobody traces 16-bit code: a mode packet was wrong.
  if (block.ninsn == 0 || block.mode == ptem_16bit) return;
  FlowRecorder::Block whole = {.start = block.ip,
                               .last = block.end_ip,
                               .instructions = block.ninsn,
                               .is_64_bit = block.mode != ptem_32bit};
  if (half_.instructions != 0) [[unlikely]] {
    whole.start = half_.start;
    whole.instructions += half_.instructions;
    half_.instructions = 0;
  }
  const bool ends_without_branch = block.iclass == ptic_other || block.iclass == ptic_ptwrite;
  if (ends_without_branch && status >= 0 && (status & (pts_event_pending | pts_eos)) == 0 &&
      whole.instructions < kBlockInstructionsMax) [[unlikely]] {
    half_ = whole;
    return;
  }
  if (block.iclass == ptic_ptwrite && whole.instructions > 1) {
    TakeAlongJumps(whole);
    return;
  }
  recorder_.OnBlock(whole);
}

// On its way to a PTWRITE libipt (2.0.5) passes direct jumps and calls, whatever its flags say.
void LibiptWalker::TakeAlongJumps(const FlowRecorder::Block& block) {
  FlowRecorder::Block piece = {.start = block.start, .is_64_bit = block.is_64_bit};
  uint64_t at = block.start;
  for (uint32_t left = block.instructions; left > 1; --left) {
    const Instruction instruction = recorder_.InstructionAt(at, block.is_64_bit);
    piece.last = at;
    ++piece.instructions;
    if (instruction.leaves() && instruction.displacement) {
      recorder_.OnBlock(piece);
      at += static_cast<uint64_t>(*instruction.displacement);
      piece = {.start = at, .is_64_bit = block.is_64_bit};
    } else {
      at += instruction.size_bytes;
    }
  }
  piece.last = block.last;
  ++piece.instructions;
  recorder_.OnBlock(piece);
}

// What waits has run.
void LibiptWalker::FlushHalf() {
  if (half_.instructions == 0) return;
  recorder_.OnBlock(half_);
  half_.instructions = 0;
}

// Code that is missing may be there a little later, or may have been until now: times are uncertain.
bool LibiptWalker::TryOtherEpoch(uint64_t address) {
  if (image_ == nullptr) return false;
  const size_t epochs = image_->Epochs();
  for (size_t step = 1; step <= kEpochsTried; ++step) {
    for (const size_t epoch : {epoch_ + step, epoch_ - step}) {
      if (epoch < epochs && !image_->CodeAt({address}, epoch).empty()) {
        return SetImage(image_, epoch);
      }
    }
  }
  return false;
}

// Only behind code of an object that is known to have been there: what leads to where nothing is mapped is more likely wrong.
bool LibiptWalker::ResumeBehindMissingCode(int* status) {
  // (The bytes of large segments are not ours to overwrite.)
  if (large_decoder_ != nullptr || image_ == nullptr) return false;
  if (image_->ObjectAt({address_}, epoch_).empty()) return false;
  const size_t begin = Position();
  if (skips_.empty()) addresses_.Begin(task_->bytes);
  for (;;) {
    const auto landing = addresses_.Next(begin);
    if (!landing || landing->end_offset < kPtEntryBytes) return false;
    if (image_->CodeAt({landing->address}, epoch_).empty()) continue;
    FlushHalf();
    skips_.push_back({begin, landing->end_offset});
    AddMissing(ContentBytes(begin, landing->end_offset));
    recorder_.OnEvent(FlowEvent::Kind::kMissingCode, address_, pte_nomap);
    recorder_.OnStoppedBehindBlock(/*by_kernel=*/false);
    uint64_t ticks = 0;
    uint64_t cycles = 0;
    if (options_.want_time && scan_.TicksAt(landing->end_offset, &ticks, &cycles)) {
      recorder_.OnTime(ticks, cycles);
      FollowTime(ticks, cycles, landing->enables);
    }
    recorder_.OnResumed(landing->address);
    scan_.SkipMarks(landing->end_offset);
    position_ = landing->end_offset;
    tracing_ = true;
    started_ = false;
    const size_t entry_at = static_cast<size_t>(begin_) + landing->end_offset - kPtEntryBytes;
    const auto entry = PtEntryAt(landing->address, landing->is_64_bit);
    std::ranges::copy(entry, buffer_.begin() + static_cast<ptrdiff_t>(entry_at));
    *status = pt_blk_sync_set(now_, entry_at);
    return true;
  }
}

int LibiptWalker::DrainEvents(int status) {
  if (status >= 0 && (status & (pts_event_pending | pts_eos)) != 0) FlushHalf();
  while (status >= 0 && (status & pts_event_pending) != 0) {
    if (steps_left_-- == 0) {
      end_ = End::kBudget;
      return status;
    }
    if (tracing_ && scan_.OverflowBefore(Position())) ArriveBeforeOverflow();
    pt_event event;
    status = pt_blk_event(now_, &event, sizeof(event));
    if (status < 0) return status;
    TakeEvent(event);
    position_ = Position();
  }
  return status;
}

void LibiptWalker::TakeEvent(const pt_event& event) {
  if (event.status_update != 0) {
    // Of a PSB's header. Only the mode of execution comes with every header while tracing is on.
    if (started_ && event.type == ptev_exec_mode && event.ip_suppressed == 0 &&
        task_->next != nullptr && task_->next->has_address &&
        event.variant.exec_mode.ip == task_->next->address) {
      // If a branch led there: the next segment only knows that it begins at its target.
      recorder_.OnArrival(task_->next->address);
      end_ = End::kArrived;
    }
    return;
  }
  switch (event.type) {
    case ptev_enabled:
      tracing_ = true;
      TakeMark(PtPacketScan::Mark::Kind::kEnable);
      recorder_.OnResumed(event.variant.enabled.ip);
      recorder_.OnEvent(FlowEvent::Kind::kEnabled, event.variant.enabled.ip, 0);
      break;
    case ptev_disabled:
      tracing_ = false;
      TakeMark(PtPacketScan::Mark::Kind::kDisable);
      recorder_.OnStoppedBehindBlock(/*by_kernel=*/event.ip_suppressed != 0);
      recorder_.OnEvent(FlowEvent::Kind::kDisabled,
                        event.ip_suppressed != 0 ? 0 : event.variant.disabled.ip, 0);
      break;
    case ptev_async_disabled:
      tracing_ = false;
      TakeMark(PtPacketScan::Mark::Kind::kDisable);
      recorder_.OnArrival(event.variant.async_disabled.at);
      recorder_.OnStopped(event.variant.async_disabled.at);
      recorder_.OnEvent(FlowEvent::Kind::kDisabled, event.variant.async_disabled.at, 0);
      break;
    case ptev_async_branch:
      recorder_.OnArrival(event.variant.async_branch.from);
      recorder_.OnInterrupt(event.variant.async_branch.from);
      recorder_.OnEvent(FlowEvent::Kind::kInterrupted, event.variant.async_branch.from, 0);
      break;
    case ptev_overflow:
      ++overflows_;
      TakeMark(PtPacketScan::Mark::Kind::kOverflow);
      tracing_ = event.ip_suppressed == 0;
      recorder_.OnGap();
      recorder_.OnEvent(FlowEvent::Kind::kOverflow, tracing_ ? event.variant.overflow.ip : 0, 0);
      break;
    case ptev_exec_mode:
      recorder_.OnEvent(FlowEvent::Kind::kExecutionMode, event.variant.exec_mode.ip,
                        event.variant.exec_mode.mode);
      break;
    case ptev_tsx:
      recorder_.OnEvent(
          FlowEvent::Kind::kTransaction, event.ip_suppressed != 0 ? 0 : event.variant.tsx.ip,
          uint64_t{event.variant.tsx.speculative} | uint64_t{event.variant.tsx.aborted} << 1U);
      break;
    case ptev_ptwrite:
      recorder_.OnEvent(FlowEvent::Kind::kPtWrite,
                        event.ip_suppressed != 0 ? 0 : event.variant.ptwrite.ip,
                        event.variant.ptwrite.payload);
      break;
    default:
      break;
  }
}

// Times are those of the packets that events come from: libipt has read on since.
void LibiptWalker::TakeMark(PtPacketScan::Mark::Kind kind) {
  const PtPacketScan::Mark* mark = scan_.NextMark(kind, Position());
  if (!options_.want_time || mark == nullptr || !mark->has_time) return;
  recorder_.OnTime(mark->ticks, mark->cycles);
  if (kind == PtPacketScan::Mark::Kind::kEnable) FollowTime(mark->ticks, mark->cycles, true);
}

// Where the last branch before an overflow led is known, though not what ran there. An event that waits to be taken makes
// libipt say where it stands.
void LibiptWalker::ArriveBeforeOverflow() {
  pt_block block;
  const int status = pt_blk_next(now_, &block, sizeof(block));
  if (status >= 0 && block.ninsn == 0) recorder_.OnArrival(block.ip);
}

// The packets are used up: execution runs on without branches that need any, to where the next segment begins.
void LibiptWalker::Settle(int status) {
  const PtSyncPoint* next = task_->next;
  end_ = End::kEndOfTrace;
  if (next == nullptr || !tracing_ || !next->has_address) return;
  for (uint32_t left = options_.packetless_blocks_max; left > 0; --left) {
    pt_block block;
    status = pt_blk_next(now_, &block, sizeof(block));
    if (block.ninsn == 0 || block.mode == ptem_16bit) {
      if (status < 0 && status != -pte_eos) RecordError(status);
      return;
    }
    uint32_t before = 0;
    uint64_t last = 0;
    const FlowRecorder::Block whole = {.start = block.ip,
                                       .last = block.end_ip,
                                       .instructions = block.ninsn,
                                       .is_64_bit = block.mode != ptem_32bit};
    if (next->address >= block.ip && next->address <= block.end_ip &&
        recorder_.InstructionsBefore(whole, next->address, &before, &last)) {
      if (before > 0) {
        block.end_ip = last;
        block.ninsn = static_cast<uint16_t>(before);
        TakeBlock(block, pts_eos);
      } else {
        FlushHalf();
        recorder_.OnArrival(next->address);
      }
      end_ = End::kArrived;
      return;
    }
    if (status < 0) {
      if (status != -pte_eos) RecordError(status);
      return;
    }
    TakeBlock(block, 0);
  }
  end_ = End::kBudget;
}

void LibiptWalker::RecordError(int code) {
  end_ = End::kError;
  error_ = code;
  recorder_.OnEvent(code == -pte_nomap ? FlowEvent::Kind::kMissingCode : FlowEvent::Kind::kError,
                    address_, static_cast<uint64_t>(-code));
}

void LibiptWalker::Judge() {
  const PtSyncPoint* next = task_->next;
  uint32_t reasons = 0;
  bool end_checked = false;
  switch (end_) {
    case End::kError:
      reasons |= error_ == -pte_nomap ? FlowChecks::kMissingCode : FlowChecks::kDecoderError;
      break;
    case End::kBudget:
      reasons |= FlowChecks::kBudget;
      break;
    case End::kArrived:
      end_checked = true;
      break;
    case End::kRunning:
    case End::kEndOfTrace:
      if (next == nullptr || next->header_end == 0) break;
      end_checked = true;
      // Tracing is off here and there, or goes on somewhere else than here.
      if (tracing_ || next->has_address) reasons |= FlowChecks::kEndNotReached;
      break;
  }
  if (scan_.implausible()) reasons |= FlowChecks::kImplausible;
  result_->ended_well = (reasons & ~uint32_t{FlowChecks::kImplausible}) == 0;
  if (!skips_.empty()) reasons |= FlowChecks::kMissingCode;
  result_->ended_tracing = tracing_;
  if (result_->ended_well && options_.want_time && next != nullptr && next->has_tsc &&
      part_ != nullptr) {
    recorder_.OnTime(next->tsc);
  }
  FinishPart();
  // What is wrong with one part may have been wrong before.
  uint64_t instructions = 0;
  for (size_t i = 0; i < result_->size; ++i) {
    reasons |= result_->parts[i]->checks.reasons;
    instructions += result_->parts[i]->instructions;
  }
  // Where nothing could be followed, nothing has been verified.
  const bool is_empty = end_ == End::kError && instructions == 0;
  for (size_t i = 0; i < result_->size; ++i) {
    FlowSegment& part = *result_->parts[i];
    part.checks.reasons = reasons;
    part.checks.end_checked = end_checked;
    part.trust = is_empty ? FlowTrust::kBad : TrustOf(reasons);
  }
}

void LibiptWalker::CountBytes() {
  FlowBytes& bytes = result_->parts[0]->bytes;
  const size_t size = task_->bytes.size();
  size_t used = size;
  if (end_ == End::kError || end_ == End::kBudget) {
    used = now_ != nullptr ? std::min(Position(), size) : 0;
  }
  bytes.padding = scan_.PaddingBefore(size);
  bytes.overflow = 2 * scan_.OverflowsBefore(used);
  bytes.decoded = ContentBytes(0, used);
  for (const Skip& skip : skips_) {
    const uint64_t skipped = ContentBytes(skip.begin, skip.end);
    bytes.decoded -= skipped;
    bytes.no_image += skipped;
  }
  const uint64_t rest = size - used - (bytes.padding - scan_.PaddingBefore(used));
  if (error_ == -pte_nomap) {
    bytes.no_image += rest;
    AddMissing(rest);
  } else {
    bytes.after_error = rest;
  }
}

// Of a piece of the segment, what is neither padding nor an overflow.
uint64_t LibiptWalker::ContentBytes(size_t begin, size_t end) const {
  return end - begin - (scan_.PaddingBefore(end) - scan_.PaddingBefore(begin)) -
         2 * (scan_.OverflowsBefore(end) - scan_.OverflowsBefore(begin));
}

// Of the object that holds the place where the trace led last.
void LibiptWalker::AddMissing(uint64_t bytes) {
  const std::string_view object =
      image_ == nullptr ? std::string_view() : image_->ObjectAt({address_}, epoch_);
  const auto known = std::ranges::find(result_->missing, object, &PtMissingCode::object);
  if (known != result_->missing.end()) {
    known->bytes += bytes;
  } else {
    result_->missing.push_back({object, {address_}, bytes});
  }
}

class LibiptWalkers : public PtWalkerFactory {
 public:
  LibiptWalkers(const PtConfig& config, const PtOptions& options)
      : config_(config), options_(options), sections_(options.code_cache_bytes_max) {
    pt_config_init(&base_);
    base_.cpu.vendor = config.cpu_is_intel ? pcv_intel : pcv_unknown;
    base_.cpu.family = config.cpu_family;
    base_.cpu.model = config.cpu_model;
    base_.cpu.stepping = config.cpu_stepping;
    // Without errata rather than not at all.
    knows_cpu_ = config.cpu_is_intel && pt_cpu_errata(&base_.errata, &base_.cpu) >= 0;
    // Harmless where it does not apply, and newer processors have it too.
    base_.errata.bdm70 = 1;
    base_.cpuid_0x15_eax = config.crystal_ratio;
    base_.cpuid_0x15_ebx = config.tsc_ratio;
    base_.mtc_freq = config.mtc_frequency;
    base_.nom_freq = config.nominal_ratio;
    base_.flags.variant.block.end_on_call = 1;
    base_.flags.variant.block.end_on_jump = 1;
  }
  bool ok() const { return sections_.ok(); }
  bool knows_cpu() const override { return knows_cpu_; }
  Result<std::unique_ptr<PtWalker>> Make() override {
    auto walker = std::make_unique<LibiptWalker>(config_, base_, options_, &sections_);
    if (!walker->Open()) {
      return Error{ErrorCode::kResourceLimit, "libipt cannot make a decoder"};
    }
    return std::unique_ptr<PtWalker>(std::move(walker));
  }

 private:
  PtConfig config_;
  PtOptions options_;
  SectionCache sections_;
  pt_config base_;
  bool knows_cpu_ = false;
};

}  // namespace

Result<std::unique_ptr<PtWalkerFactory>> MakeLibiptWalkers(const PtConfig& config,
                                                           const PtOptions& options) {
  auto walkers = std::make_unique<LibiptWalkers>(config, options);
  if (!walkers->ok()) return Error{ErrorCode::kResourceLimit, "libipt cannot make a section cache"};
  return std::unique_ptr<PtWalkerFactory>(std::move(walkers));
}

}  // namespace ptarmigan::internal
