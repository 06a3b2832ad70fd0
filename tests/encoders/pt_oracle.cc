#include "tests/encoders/pt_oracle.h"

#include <intel-pt.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "base/str_format.h"

namespace ptarmigan {
namespace {

struct Decoding {
  const PtCodeReader& code;
  PtOracleResult result;
};

int ReadCode(uint8_t* buffer, size_t size, const pt_asid* /*asid*/, uint64_t ip, void* decoding) {
  const auto* self = static_cast<const Decoding*>(decoding);
  const std::string_view code = self->code(ip, self->result.addresses.size()).substr(0, size);
  if (code.empty()) return -pte_nomap;
  std::memcpy(buffer, code.data(), code.size());
  return static_cast<int>(code.size());
}

// Packets that libipt 2.0.5 does not know.
int SkipUnknown(pt_packet_unknown* /*packet*/, const pt_config* config, const uint8_t* at,
                void* /*context*/) {
  constexpr std::ptrdiff_t kCfeBytes = 4;
  constexpr std::ptrdiff_t kEvdBytes = 11;
  constexpr std::ptrdiff_t kTrigBytes = 3;
  std::ptrdiff_t size = 0;
  if (config->end - at >= 2 && at[0] == 0x02 && at[1] == 0x13) size = kCfeBytes;
  if (config->end - at >= 2 && at[0] == 0x02 && at[1] == 0x53) size = kEvdBytes;
  if (at[0] == 0xd9) size = kTrigBytes;
  if (size == 0) return -pte_bad_opc;
  return config->end - at < size ? -pte_eos : static_cast<int>(size);
}

int DrainEvents(pt_insn_decoder* decoder, int status, PtOracleResult* result) {
  while (status >= 0 && (status & pts_event_pending) != 0) {
    pt_event event;
    status = pt_insn_event(decoder, &event, sizeof(event));
    if (status < 0) break;
    switch (event.type) {
      case ptev_overflow:
        ++result->overflows;
        break;
      case ptev_enabled:
        ++result->enabled;
        break;
      case ptev_disabled:
      case ptev_async_disabled:
        ++result->disabled;
        break;
      case ptev_ptwrite:
        ++result->ptwrites;
        break;
      case ptev_tsx:
        ++result->transactions;
        break;
      default:
        break;
    }
  }
  return status;
}

// From one PSB to the end or an error; the status.
int DecodeOn(pt_insn_decoder* decoder, int status, PtOracleResult* result) {
  for (;;) {
    status = DrainEvents(decoder, status, result);
    if (status < 0 || (status & pts_eos) != 0) return status;
    pt_insn instruction = {};
    status = pt_insn_next(decoder, &instruction, sizeof(instruction));
    if (instruction.iclass != ptic_error) result->addresses.push_back(instruction.ip);
    if (status < 0) return status;
  }
}

}  // namespace

std::string PtOracleResult::ErrorText() const {
  if (errors.empty()) return "";
  const Error& first = errors.front();
  return StrFormat("{} at offset {:#x}, after {} instructions",
                   pt_errstr(static_cast<pt_error_code>(-first.code)), first.offset,
                   first.instructions);
}

PtOracleResult DecodeByLibipt(std::string_view trace, const PtWalk& walk,
                              const std::vector<uint32_t>& visible) {
  return DecodeByLibipt(trace, [&](uint64_t address, size_t decoded) {
    // The step that is decoded next, as far as the decoder is right.
    const uint32_t step = visible.empty() ? 0 : visible[std::min(decoded, visible.size() - 1)];
    return walk.CodeAt(address, step);
  });
}

PtOracleResult DecodeByLibipt(std::string_view trace, const PtCodeReader& code) {
  Decoding decoding{.code = code, .result = {}};
  std::string copy(trace);
  pt_config config;
  pt_config_init(&config);
  config.begin = reinterpret_cast<uint8_t*>(copy.data());
  config.end = config.begin + copy.size();
  config.decode.callback = SkipUnknown;
  const std::unique_ptr<pt_insn_decoder, void (*)(pt_insn_decoder*)> decoder(
      pt_insn_alloc_decoder(&config), pt_insn_free_decoder);
  CHECK(decoder != nullptr);
  CHECK(pt_image_set_callback(pt_insn_get_image(decoder.get()), ReadCode, &decoding) == 0);
  PtOracleResult& result = decoding.result;
  uint64_t last_offset = 0;
  for (;;) {
    int status = pt_insn_sync_forward(decoder.get());
    if (status < 0) break;
    status = DecodeOn(decoder.get(), status, &result);
    if (status >= 0) break;
    uint64_t offset = 0;
    pt_insn_get_offset(decoder.get(), &offset);
    if (status == -pte_eos) break;
    // The same PSB again would go on for ever.
    if (!result.errors.empty() && offset <= last_offset) break;
    last_offset = offset;
    result.errors.push_back({offset, result.addresses.size(), status});
  }
  return std::move(decoding.result);
}

}  // namespace ptarmigan
