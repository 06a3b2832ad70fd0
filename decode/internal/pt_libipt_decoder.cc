#include "decode/internal/pt_libipt_decoder.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/str_format.h"
#include "decode/internal/pt_address_scan.h"
#include "decode/internal/pt_index.h"

namespace ptarmigan::internal {
namespace {

// Segments up to this are copied; larger ones (a PSB every 64 KiB is the rarest that hardware can be asked for) get a
// decoder of their own.
constexpr size_t kBufferBytes = size_t{256} << 10;
// Images that are kept set up.
constexpr size_t kImagesMax = 256;

// Packets newer than libipt: their length is all that is needed.
int SkipUnknownPacket(pt_packet_unknown*, const pt_config* config, const uint8_t* position,
                      void* counter) {
  const size_t size = PtPacketBytes(
      std::as_bytes(std::span(position, static_cast<size_t>(config->end - position))));
  if (size == 0) return -pte_bad_opc;
  ++*static_cast<uint64_t*>(counter);
  return static_cast<int>(size);
}

}  // namespace

pt_config LibiptConfig(const PtConfig& config, bool* knows_cpu) {
  pt_config base;
  pt_config_init(&base);
  base.cpu.vendor = config.cpu_is_intel ? pcv_intel : pcv_unknown;
  base.cpu.family = config.cpu_family;
  base.cpu.model = config.cpu_model;
  base.cpu.stepping = config.cpu_stepping;
  // Without errata rather than not at all.
  *knows_cpu = config.cpu_is_intel && pt_cpu_errata(&base.errata, &base.cpu) >= 0;
  // Harmless where it does not apply, and newer processors have it too.
  base.errata.bdm70 = 1;
  base.cpuid_0x15_eax = config.crystal_ratio;
  base.cpuid_0x15_ebx = config.tsc_ratio;
  base.mtc_freq = config.mtc_frequency;
  base.nom_freq = config.nominal_ratio;
  base.flags.variant.block.end_on_call = 1;
  base.flags.variant.block.end_on_jump = 1;
  return base;
}

LibiptSections::LibiptSections(uint64_t bytes_max) : cache_(pt_iscache_alloc("ptarmigan")) {
  if (cache_ != nullptr) pt_iscache_set_limit(cache_.get(), bytes_max);
}

int LibiptSections::Find(const CodeImage* image, size_t epoch, const CodeRegion& region) {
  const bool shared = region.content != 0;
  const Key key = {shared ? nullptr : image, shared ? 0 : epoch, region.content,
                   region.file_offset,       region.start.value, region.bytes.size()};
  const auto found = sections_.find(key);
  if (found != sections_.end()) return found->second;
  const int section = Add(region);
  sections_.emplace(key, section);
  return section;
}

int LibiptSections::Add(const CodeRegion& region) {
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

LibiptDecoder::LibiptDecoder(const pt_config& base, uint64_t code_bytes_max)
    : base_(base), sections_(code_bytes_max) {
  base_.decode.callback = SkipUnknownPacket;
  base_.decode.context = &unknown_packets_;
}

bool LibiptDecoder::Open() {
  if (!sections_.ok()) return false;
  buffer_.resize(kBufferBytes);
  decoder_ = OpenOver(buffer_.data(), buffer_.size());
  return decoder_ != nullptr;
}

LibiptDecoder::Decoder LibiptDecoder::OpenOver(uint8_t* begin, size_t size) {
  pt_config config = base_;
  config.begin = begin;
  config.end = begin + size;
  return Decoder(pt_blk_alloc_decoder(&config));
}

pt_block_decoder* LibiptDecoder::Load(Bytes segment) {
  unknown_packets_ = 0;
  large_decoder_.reset();
  if (segment.size() <= buffer_.size()) {
    begin_ = buffer_.size() - segment.size();
    std::memcpy(buffer_.data() + begin_, segment.data(), segment.size());
    now_ = decoder_.get();
    return now_;
  }
  // libipt only reads, but its buffer is not const.
  uint8_t* begin = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(segment.data()));
  large_decoder_ = OpenOver(begin, segment.size());
  begin_ = 0;
  now_ = large_decoder_.get();
  return now_;
}

pt_image* LibiptDecoder::ImageOf(const CodeImage* image, size_t epoch) {
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
      const int section = sections_.Find(image, epoch, region);
      // What cannot be read is missing code, and is met and counted as such.
      if (section > 0) pt_image_add_cached(made.get(), sections_.get(), section, nullptr);
    }
  }
  return images_.emplace(std::pair(image, epoch), std::move(made)).first->second.get();
}

bool LibiptDecoder::UseImage(const CodeImage* image, size_t epoch) {
  pt_image* made = ImageOf(image, epoch);
  return made != nullptr && pt_blk_set_image(now_, made) >= 0;
}

size_t LibiptDecoder::Position() const {
  uint64_t offset = 0;
  return pt_blk_get_offset(now_, &offset) == 0 ? static_cast<size_t>(offset - begin_) : 0;
}

int LibiptDecoder::Restart(size_t end_offset, uint64_t address, bool is_64_bit) {
  const size_t entry_at = static_cast<size_t>(begin_) + end_offset - kPtEntryBytes;
  const auto entry = PtEntryAt(address, is_64_bit);
  std::ranges::copy(entry, buffer_.begin() + static_cast<ptrdiff_t>(entry_at));
  return pt_blk_sync_set(now_, entry_at);
}

}  // namespace ptarmigan::internal
