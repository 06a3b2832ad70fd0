#include "decode/pt_decoder.h"

namespace ptarmigan {

std::string_view PtUnsupportedSentence() {
  return "this program was built without libipt, so the Intel PT part of the recording was left "
         "out";
}

Result<std::unique_ptr<PtDecoder>> PtDecoder::Create(const PtConfig&, const PtOptions&) {
  return Error(ErrorCode::kUnsupported, std::string(PtUnsupportedSentence()));
}

}  // namespace ptarmigan
