#include <opencsd/c_api/opencsd_c_api.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/str_format.h"
#include "decode/coresight_decoder.h"

namespace ptarmigan {
namespace {

// A trace index of OpenCSD is 64 bits wide only where it was built so.
constexpr uint64_t kIndexMask = ocsd_trc_index_t(-1);
// What DATA takes at once.
constexpr size_t kPieceBytesMax = size_t{1} << 20;
constexpr uint8_t kTraceIdMax = 0x6f;

// Guards everything in OpenCSD that decoders share: the list of trees, the error logger, the last error.
std::mutex& Library() {
  static std::mutex mutex;
  return mutex;
}

// Errors are asked for (ocsd_get_last_err), never printed.
void StartLogger() {
  static const ocsd_err_t started =
      ocsd_def_errlog_init(OCSD_ERR_SEV_ERROR, /*create_output_logger=*/0);
  CHECK(started == OCSD_OK);
}

std::string TextOf(ocsd_err_t error) {
  std::array<char, 256> text = {};
  ocsd_err_str(error, text.data(), static_cast<int>(text.size()));
  return text.data();
}

ocsd_arch_version_t ArchitectureOf(const EtmUnit& unit) {
  switch (unit.protocol) {
    case EtmProtocol::kEte:
      return ARCH_AA64;
    case EtmProtocol::kEtm4: {
      // TRCIDR1.TRCARCHMIN, bits 7:4: from 4.4 on of processors with Armv8.3 and later.
      constexpr uint32_t kMinorShift = 4;
      constexpr uint32_t kMinorMask = 0xf;
      constexpr uint32_t kMinorAa64 = 4;
      return (unit.idr1 >> kMinorShift & kMinorMask) >= kMinorAa64 ? ARCH_AA64 : ARCH_V8;
    }
    case EtmProtocol::kEtm3:
    case EtmProtocol::kPtm:
      return ARCH_V7;
  }
  CHECK(false);
}

// What the configurations of all protocols have; those of ETMv3 and PTM, and those of ETMv4 and ETE, are alike in more.
template <typename Config>
Config ConfigOf(const CoreSightSource& source) {
  constexpr bool kIsOld =
      std::is_same_v<Config, ocsd_etmv3_cfg> || std::is_same_v<Config, ocsd_ptm_cfg>;
  const EtmUnit& unit = source.unit;
  Config config = {};
  config.arch_ver = ArchitectureOf(unit);
  config.core_prof = profile_CortexA;
  if constexpr (kIsOld) {
    config.reg_idr = unit.idr0;
    config.reg_ctrl = unit.config;
    config.reg_ccer = unit.ccer;
    config.reg_trc_id = source.trace_id;
  } else {
    config.reg_idr0 = unit.idr0;
    config.reg_idr1 = unit.idr1;
    config.reg_idr2 = unit.idr2;
    config.reg_idr8 = unit.idr8;
    config.reg_configr = unit.config;
    config.reg_traceidr = source.trace_id;
  }
  return config;
}

// Makes the unit's decoder. OpenCSD copies the configuration.
ocsd_err_t AddDecoder(dcd_tree_handle_t tree, const CoreSightSource& source) {
  const auto create = [tree](const char* name, const auto& config) {
    unsigned char id = 0;
    return ocsd_dt_create_decoder(tree, name, OCSD_CREATE_FLG_FULL_DECODER, &config, &id);
  };
  switch (source.unit.protocol) {
    case EtmProtocol::kEtm3:
      return create(OCSD_BUILTIN_DCD_ETMV3, ConfigOf<ocsd_etmv3_cfg>(source));
    case EtmProtocol::kPtm:
      return create(OCSD_BUILTIN_DCD_PTM, ConfigOf<ocsd_ptm_cfg>(source));
    case EtmProtocol::kEtm4:
      return create(OCSD_BUILTIN_DCD_ETMV4I, ConfigOf<ocsd_etmv4_cfg>(source));
    case EtmProtocol::kEte: {
      auto config = ConfigOf<ocsd_ete_cfg>(source);
      config.reg_devarch = source.unit.devarch;
      return create(OCSD_BUILTIN_DCD_ETE, config);
    }
  }
  CHECK(false);
}

// The number of an enumerator. libopencsd leaves fields unset that an element says nothing about, and then they may be none
// of the enumerators.
template <typename Enum>
uint32_t NumberOf(const Enum& value) {
  uint32_t number = 0;
  static_assert(sizeof(number) == sizeof(value));
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

ArmInstructionSet IsaOf(const ocsd_isa& isa) {
  switch (NumberOf(isa)) {
    case ocsd_isa_aarch64:
      return ArmInstructionSet::kA64;
    case ocsd_isa_arm:
      return ArmInstructionSet::kA32;
    case ocsd_isa_thumb2:
      return ArmInstructionSet::kT32;
    default:
      return ArmInstructionSet::kUnknown;
  }
}

ArmBranch BranchOf(const ocsd_generic_trace_elem& element) {
  const uint32_t type = NumberOf(element.last_i_type);
  const uint32_t subtype = NumberOf(element.last_i_subtype);
  if (type == OCSD_INSTR_BR)
    return subtype == OCSD_S_INSTR_BR_LINK ? ArmBranch::kDirectCall : ArmBranch::kDirect;
  if (type != OCSD_INSTR_BR_INDIRECT) return ArmBranch::kNone;
  switch (subtype) {
    case OCSD_S_INSTR_BR_LINK:
      return ArmBranch::kIndirectCall;
    case OCSD_S_INSTR_V8_RET:
    case OCSD_S_INSTR_V7_IMPLIED_RET:
      return ArmBranch::kReturn;
    case OCSD_S_INSTR_V8_ERET:
      return ArmBranch::kExceptionReturn;
    default:
      return ArmBranch::kIndirect;
  }
}

CoreSightElement::Reason ReasonOf(const unsync_info_t& why) {
  switch (NumberOf(why)) {
    case UNSYNC_OVERFLOW:
      return CoreSightElement::Reason::kOverflow;
    case UNSYNC_BAD_PACKET:
      return CoreSightElement::Reason::kBadPacket;
    default:
      return CoreSightElement::Reason::kNormal;
  }
}

CoreSightElement::Reason ReasonOf(const trace_on_reason_t& why) {
  switch (NumberOf(why)) {
    case TRACE_ON_OVERFLOW:
      return CoreSightElement::Reason::kOverflow;
    case TRACE_ON_EX_DEBUG:
      return CoreSightElement::Reason::kDebug;
    default:
      return CoreSightElement::Reason::kNormal;
  }
}

CoreSightElement::ProcessorState ContextOf(const ocsd_pe_context& from) {
  CoreSightElement::ProcessorState context;
  if (from.el_valid != 0)
    context.exception_level = static_cast<int8_t>(NumberOf(from.exception_level));
  context.is_64_bit = from.bits64 != 0;
  context.is_secure = NumberOf(from.security_level) == ocsd_sec_secure;
  if (from.ctxt_id_valid != 0) context.context_id = from.context_id;
  if (from.vmid_valid != 0) context.vm_id = from.vmid;
  return context;
}

void TakeRange(const ocsd_generic_trace_elem& from, CoreSightElement* element) {
  element->isa = IsaOf(from.isa);
  element->branch = BranchOf(from);
  element->taken = from.last_instr_exec != 0;
  element->conditional = from.last_instr_cond != 0;
  element->last_bytes = static_cast<uint8_t>(from.last_instr_sz);
  element->instructions = from.num_instr_range;
}

CoreSightElement ElementOf(const ocsd_generic_trace_elem& from) {
  using Kind = CoreSightElement::Kind;
  CoreSightElement element;
  element.start = {from.st_addr};
  element.end = {from.en_addr};
  if (from.has_cc != 0) element.cycles = from.cycle_count;
  switch (from.elem_type) {
    case OCSD_GEN_TRC_ELEM_NO_SYNC:
      element.kind = Kind::kNoSync;
      element.reason = ReasonOf(from.unsync_eot_info);
      break;
    case OCSD_GEN_TRC_ELEM_TRACE_ON:
      element.kind = Kind::kTraceOn;
      element.reason = ReasonOf(from.trace_on_reason);
      break;
    case OCSD_GEN_TRC_ELEM_EO_TRACE:
      element.kind = Kind::kEnd;
      element.reason = ReasonOf(from.unsync_eot_info);
      break;
    case OCSD_GEN_TRC_ELEM_PE_CONTEXT:
      element.kind = Kind::kContext;
      element.context = ContextOf(from.context);
      element.isa = element.context.is_64_bit ? ArmInstructionSet::kA64 : IsaOf(from.isa);
      break;
    case OCSD_GEN_TRC_ELEM_INSTR_RANGE:
      element.kind = Kind::kRange;
      TakeRange(from, &element);
      break;
    case OCSD_GEN_TRC_ELEM_I_RANGE_NOPATH:
      // How its last instruction ends is not known, and not set.
      element.kind = Kind::kUnknownPath;
      element.instructions = from.num_instr_range;
      break;
    case OCSD_GEN_TRC_ELEM_ADDR_NACC:
      element.kind = Kind::kNoImage;
      break;
    case OCSD_GEN_TRC_ELEM_ADDR_UNKNOWN:
      element.kind = Kind::kUnknownAddress;
      break;
    case OCSD_GEN_TRC_ELEM_EXCEPTION:
      element.kind = Kind::kException;
      element.number = from.exception_number;
      if (from.excep_ret_addr != 0) element.return_address = VirtAddr{from.en_addr};
      break;
    case OCSD_GEN_TRC_ELEM_EXCEPTION_RET:
      element.kind = Kind::kExceptionReturn;
      break;
    case OCSD_GEN_TRC_ELEM_TIMESTAMP:
      element.kind = Kind::kTimestamp;
      element.value = from.timestamp;
      break;
    case OCSD_GEN_TRC_ELEM_CYCLE_COUNT:
      element.kind = Kind::kCycles;
      element.value = from.cycle_count;
      break;
    default:
      break;
  }
  return element;
}

class OpencsdDecoder : public CoreSightDecoder {
 public:
  OpencsdDecoder(const CoreSightOptions& options, CoreSightCode* code, CoreSightSink* sink)
      : options_(options), code_(code), sink_(sink) {}
  OpencsdDecoder(const OpencsdDecoder&) = delete;
  OpencsdDecoder& operator=(const OpencsdDecoder&) = delete;
  ~OpencsdDecoder() override {
    if (tree_ == C_API_INVALID_TREE_HANDLE) return;
    const std::lock_guard lock(Library());
    ocsd_destroy_dcd_tree(tree_);
  }

  Status Open();
  void Decode(uint64_t offset, Bytes bytes) override;
  void Restart() override;
  void Finish() override;
  const CoreSightCounts& counts() const override { return counts_; }
  const std::vector<CoreSightError>& errors() const override { return errors_; }

 private:
  // What the bytes of one unit are at the moment, and how many have been given a count.
  struct Channel {
    uint64_t* state = nullptr;  // of counts_.bytes
    uint64_t counted = 0;
    uint64_t bad_packets = 0;
    uint64_t untraced_bytes = 0;  // of code, since the last element
    bool ran_away = false;
  };

  static ocsd_datapath_resp_t OnElement(const void* context, ocsd_trc_index_t index,
                                        uint8_t trace_id, const ocsd_generic_trace_elem* element);
  static uint32_t OnRead(const void* context, ocsd_vaddr_t address, ocsd_mem_space_acc_t space,
                         uint8_t trace_id, uint32_t size, uint8_t* buffer);

  Channel& ChannelOf(uint8_t trace_id) { return channels_[options_.is_formatted ? trace_id : 0]; }
  const ocsd_decode_stats_t* StatisticsOf(uint8_t trace_id) const;
  // Gives the bytes that the unit has taken since the last time to the state that it was in.
  void Settle(uint8_t trace_id);
  void SettleAll();
  void Follow(uint8_t trace_id, const CoreSightElement& element);
  // Feeds one piece; how many bytes of it were taken.
  size_t Feed(uint64_t offset, Bytes piece);
  void AddError(uint64_t offset);
  uint64_t OffsetOf(ocsd_trc_index_t index) const;

  CoreSightCounts counts_;
  std::vector<CoreSightError> errors_;
  const CoreSightOptions options_;
  CoreSightCode* code_;
  CoreSightSink* sink_;
  dcd_tree_handle_t tree_ = C_API_INVALID_TREE_HANDLE;
  std::array<Channel, kTraceIdMax + 1> channels_ = {};
  uint64_t piece_offset_ = 0;
  ocsd_demux_stats_t demuxed_ = {};
  bool finished_ = false;
};

Status OpencsdDecoder::Open() {
  if (options_.sources.empty() || (!options_.is_formatted && options_.sources.size() != 1)) {
    return Error{ErrorCode::kInvalidInput, "a CoreSight stream needs the trace unit that made it"};
  }
  const std::lock_guard lock(Library());
  StartLogger();
  tree_ = options_.is_formatted
              ? ocsd_create_dcd_tree(OCSD_TRC_SRC_FRAME_FORMATTED,
                                     OCSD_DFRMTR_FRAME_MEM_ALIGN | OCSD_DFRMTR_RESET_ON_4X_FSYNC)
              : ocsd_create_dcd_tree(OCSD_TRC_SRC_SINGLE, 0);
  if (tree_ == C_API_INVALID_TREE_HANDLE)
    return Error{ErrorCode::kResourceLimit, "OpenCSD made no decode tree"};
  for (const CoreSightSource& source : options_.sources) {
    // (A unit with a buffer of its own needs no id.)
    if (source.trace_id > kTraceIdMax || (source.trace_id == 0 && options_.is_formatted)) {
      return Error{ErrorCode::kInvalidInput,
                   StrFormat("trace id {:#x} of CPU {} is none", source.trace_id, source.unit.cpu)};
    }
    const ocsd_err_t added = AddDecoder(tree_, source);
    if (added != OCSD_OK) {
      return Error{ErrorCode::kUnsupported, StrFormat("OpenCSD takes no {} of CPU {}: {}",
                                                      EtmProtocolName(source.unit.protocol),
                                                      source.unit.cpu, TextOf(added))};
    }
    ChannelOf(source.trace_id).state = &counts_.bytes.before_sync;
  }
  ocsd_err_t set = ocsd_dt_set_gen_elem_outfn(tree_, &OpencsdDecoder::OnElement, this);
  if (set == OCSD_OK) {
    set = ocsd_dt_add_callback_trcid_mem_acc(tree_, 0, UINT64_MAX, OCSD_MEM_SPACE_ANY,
                                             &OpencsdDecoder::OnRead, this);
  }
  if (set != OCSD_OK)
    return Error{ErrorCode::kInternal, StrFormat("OpenCSD takes no callback: {}", TextOf(set))};
  return {};
}

uint64_t OpencsdDecoder::OffsetOf(ocsd_trc_index_t index) const {
  // An element can belong to a packet before the piece, whose index is the wider one's low bits.
  const uint64_t back = (piece_offset_ - index) & kIndexMask;
  const uint64_t ahead = (index - piece_offset_) & kIndexMask;
  return ahead <= back ? piece_offset_ + ahead : piece_offset_ - std::min(back, piece_offset_);
}

const ocsd_decode_stats_t* OpencsdDecoder::StatisticsOf(uint8_t trace_id) const {
  ocsd_decode_stats_t* statistics = nullptr;
  const ocsd_err_t got = ocsd_dt_get_decode_stats(tree_, trace_id, &statistics);
  return got == OCSD_OK ? statistics : nullptr;
}

void OpencsdDecoder::Settle(uint8_t trace_id) {
  Channel& channel = ChannelOf(trace_id);
  const ocsd_decode_stats_t* statistics = StatisticsOf(trace_id);
  if (statistics == nullptr || channel.state == nullptr) return;
  *channel.state += statistics->channel_total - channel.counted;
  channel.counted = statistics->channel_total;
  const uint64_t bad = uint64_t{statistics->bad_header_errs} + statistics->bad_sequence_errs;
  counts_.bad_packets += bad - channel.bad_packets;
  channel.bad_packets = bad;
}

void OpencsdDecoder::SettleAll() {
  for (const CoreSightSource& source : options_.sources) Settle(source.trace_id);
  if (!options_.is_formatted) return;
  // (Every unit's block has the whole stream's.)
  const ocsd_decode_stats_t* statistics = StatisticsOf(options_.sources.front().trace_id);
  if (statistics == nullptr) return;
  const ocsd_demux_stats_t& now = statistics->demux;
  const auto ids = [](const ocsd_demux_stats_t& demuxed) {
    return demuxed.no_id_bytes + demuxed.reserved_id_bytes + demuxed.unknown_id_bytes;
  };
  counts_.unknown_id_bytes += now.no_id_bytes - demuxed_.no_id_bytes;
  counts_.bytes.padding += ids(now) + now.frame_bytes - ids(demuxed_) - demuxed_.frame_bytes;
  demuxed_ = now;
}

void OpencsdDecoder::Follow(uint8_t trace_id, const CoreSightElement& element) {
  using Kind = CoreSightElement::Kind;
  Channel& channel = ChannelOf(trace_id);
  if (channel.state == nullptr) return;
  uint64_t* next = channel.state;
  switch (element.kind) {
    case Kind::kNoSync:
      next = element.reason == CoreSightElement::Reason::kOverflow    ? &counts_.bytes.overflow
             : element.reason == CoreSightElement::Reason::kBadPacket ? &counts_.bytes.after_error
                                                                      : &counts_.bytes.before_sync;
      break;
    case Kind::kNoImage:
      next = &counts_.bytes.no_image;
      break;
    case Kind::kTraceOn:
    case Kind::kRange:
    case Kind::kUnknownPath:
      next = &counts_.bytes.decoded;
      break;
    default:
      break;
  }
  if (next == channel.state) return;
  Settle(trace_id);
  channel.state = next;
}

ocsd_datapath_resp_t OpencsdDecoder::OnElement(const void* context, ocsd_trc_index_t index,
                                               uint8_t trace_id,
                                               const ocsd_generic_trace_elem* element) {
  auto* self = const_cast<OpencsdDecoder*>(static_cast<const OpencsdDecoder*>(context));
  if (trace_id > kTraceIdMax) return OCSD_RESP_CONT;
  Channel& channel = self->ChannelOf(trace_id);
  channel.untraced_bytes = 0;
  channel.ran_away = false;
  const CoreSightElement ours = ElementOf(*element);
  self->Follow(trace_id, ours);
  self->sink_->OnElement(trace_id, self->OffsetOf(index), ours);
  return OCSD_RESP_CONT;
}

uint32_t OpencsdDecoder::OnRead(const void* context, ocsd_vaddr_t address,
                                ocsd_mem_space_acc_t /*space*/, uint8_t trace_id, uint32_t size,
                                uint8_t* buffer) {
  auto* self = const_cast<OpencsdDecoder*>(static_cast<const OpencsdDecoder*>(context));
  if (trace_id > kTraceIdMax) return 0;
  Channel& channel = self->ChannelOf(trace_id);
  ++self->counts_.code_reads;
  if (channel.untraced_bytes >= kUntracedBytesMax) {
    if (!std::exchange(channel.ran_away, true)) ++self->counts_.runaways;
    return 0;
  }
  channel.untraced_bytes += size;
  const size_t read =
      self->code_->Read(trace_id, {address}, std::as_writable_bytes(std::span(buffer, size)));
  CHECK(read <= size);
  return static_cast<uint32_t>(read);
}

void OpencsdDecoder::AddError(uint64_t offset) {
  ++counts_.errors;
  if (errors_.size() >= options_.errors_max) return;
  ocsd_trc_index_t index = 0;
  uint8_t channel = 0;
  std::array<char, 512> message = {};
  const ocsd_err_t code =
      ocsd_get_last_err(&index, &channel, message.data(), static_cast<int>(message.size()));
  const bool has_index = index != OCSD_BAD_TRC_INDEX;
  errors_.push_back({.offset = has_index ? OffsetOf(index) : offset,
                     .code = static_cast<int>(code),
                     .reason = TextOf(code)});
}

size_t OpencsdDecoder::Feed(uint64_t offset, Bytes piece) {
  piece_offset_ = offset;
  uint32_t taken = 0;
  const ocsd_datapath_resp_t response = ocsd_dt_process_data(
      tree_, OCSD_OP_DATA, static_cast<ocsd_trc_index_t>(offset),
      static_cast<uint32_t>(piece.size()), reinterpret_cast<const uint8_t*>(piece.data()), &taken);
  taken = std::min(taken, static_cast<uint32_t>(piece.size()));
  if (OCSD_DATA_RESP_IS_FATAL(response)) {
    AddError(offset + taken);
    SettleAll();
    // What a tree that has failed knows is worth nothing. It starts again behind what it took.
    ocsd_dt_process_data(tree_, OCSD_OP_RESET, 0, 0, nullptr, nullptr);
    for (Channel& channel : channels_) {
      if (channel.state != nullptr) channel.state = &counts_.bytes.after_error;
    }
  } else if (OCSD_DATA_RESP_IS_WAIT(response)) {
    ocsd_dt_process_data(tree_, OCSD_OP_FLUSH, 0, 0, nullptr, nullptr);
  }
  return taken;
}

void OpencsdDecoder::Decode(uint64_t offset, Bytes bytes) {
  CHECK(!finished_);
  const std::lock_guard lock(Library());
  const size_t step = options_.is_formatted ? kFrameBytes : 1;
  Bytes rest = bytes.first(bytes.size() / step * step);
  counts_.bytes.padding += bytes.size() - rest.size();
  while (!rest.empty()) {
    const uint64_t before = counts_.bytes.Sum();
    const size_t taken = Feed(offset, rest.first(std::min(rest.size(), kPieceBytesMax)));
    SettleAll();
    const auto counted = static_cast<size_t>(counts_.bytes.Sum() - before);
    // A tree that takes nothing and reports nothing would be asked for ever.
    const size_t passed =
        std::min(rest.size(), (std::max({taken, counted, step}) + step - 1) / step * step);
    // A failing tree leaves out what it was working on.
    counts_.bytes.after_error += passed - std::min(counted, passed);
    offset += passed;
    rest = rest.subspan(passed);
  }
}

void OpencsdDecoder::Restart() {
  const std::lock_guard lock(Library());
  finished_ = false;
  SettleAll();
  ocsd_dt_process_data(tree_, OCSD_OP_RESET, 0, 0, nullptr, nullptr);
  for (Channel& channel : channels_) {
    if (channel.state != nullptr) channel.state = &counts_.bytes.before_sync;
  }
}

void OpencsdDecoder::Finish() {
  const std::lock_guard lock(Library());
  finished_ = true;
  ocsd_dt_process_data(tree_, OCSD_OP_EOT, 0, 0, nullptr, nullptr);
  SettleAll();
}

}  // namespace

Result<std::unique_ptr<CoreSightDecoder>> CoreSightDecoder::Create(const CoreSightOptions& options,
                                                                   CoreSightCode* code,
                                                                   CoreSightSink* sink) {
  auto decoder = std::make_unique<OpencsdDecoder>(options, code, sink);
  TRY(decoder->Open());
  return std::unique_ptr<CoreSightDecoder>(std::move(decoder));
}

}  // namespace ptarmigan
