#include "decode/coresight_decoder.h"

#include "base/check.h"

namespace ptarmigan {

std::string_view CoreSightElementName(CoreSightElement::Kind kind) {
  using Kind = CoreSightElement::Kind;
  switch (kind) {
    case Kind::kNoSync:
      return "no sync";
    case Kind::kTraceOn:
      return "trace on";
    case Kind::kContext:
      return "context";
    case Kind::kRange:
      return "range";
    case Kind::kUnknownPath:
      return "range without path";
    case Kind::kNoImage:
      return "no image";
    case Kind::kUnknownAddress:
      return "unknown address";
    case Kind::kException:
      return "exception";
    case Kind::kExceptionReturn:
      return "exception return";
    case Kind::kTimestamp:
      return "timestamp";
    case Kind::kCycles:
      return "cycles";
    case Kind::kEnd:
      return "end";
    case Kind::kOther:
      return "other";
  }
  CHECK(false);
}

std::string_view CoreSightUnsupportedSentence() {
  return "this program was built without OpenCSD, so the CoreSight part of the recording was left "
         "out";
}

#ifndef PTARMIGAN_WITH_OPENCSD
Result<std::unique_ptr<CoreSightDecoder>> CoreSightDecoder::Create(const CoreSightOptions&,
                                                                   CoreSightCode*, CoreSightSink*) {
  return Error{ErrorCode::kUnsupported, std::string(CoreSightUnsupportedSentence())};
}
#endif

}  // namespace ptarmigan
