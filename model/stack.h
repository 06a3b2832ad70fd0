// How a stack was found and where it ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ptarmigan {

enum class StackOrigin : uint8_t {
  kNone,          // a lone instruction pointer
  kKernelChain,   // the kernel's own call chain (its kernel part, or frame pointers for the user
                  // part)
  kFramePointer,  // our walk over saved frame pointers
  kCfi,           // our walk by .eh_frame/.debug_frame
  kMixed,         // frame pointers and CFI, chosen per frame
  kLbr,
  kPt,
  kCoresight,
  kInterpreter,
  kApproximate,  // joined from two sources; a guess
};

enum class StackEnd : uint8_t {
  kComplete,       // reached the outermost frame: undefined return address, thread or process start
  kUserStackCut,   // the dumped part of the stack ended
  kFrameLimit,     // our bound or the kernel's sysctl
  kNoMapping,      // an address outside every mapping
  kNoUnwindTable,  // no CFI, and the frame pointer led nowhere
  kBadFrame,       // CFI or frame pointer gave an impossible frame
  kBadMemory,      // needed a word that was not recorded
  kNoUserRegisters,
  kUnsupportedArch,
};
// Of one stack. What is longer is cut at the root end (kFrameLimit). The kernel's own limit is 127 unless a sysctl says
// otherwise.
constexpr size_t kStackFramesMax = 1024;

constexpr size_t kStackEnds = static_cast<size_t>(StackEnd::kUnsupportedArch) + 1;

constexpr std::string_view StackOriginName(StackOrigin origin) {
  switch (origin) {
    case StackOrigin::kNone:
      return "none";
    case StackOrigin::kKernelChain:
      return "kernel_chain";
    case StackOrigin::kFramePointer:
      return "fp";
    case StackOrigin::kCfi:
      return "cfi";
    case StackOrigin::kMixed:
      return "fp+cfi";
    case StackOrigin::kLbr:
      return "lbr";
    case StackOrigin::kPt:
      return "pt";
    case StackOrigin::kCoresight:
      return "coresight";
    case StackOrigin::kInterpreter:
      return "interpreter";
    case StackOrigin::kApproximate:
      return "approximate";
  }
  return "";
}

constexpr std::string_view StackEndName(StackEnd end) {
  switch (end) {
    case StackEnd::kComplete:
      return "complete";
    case StackEnd::kUserStackCut:
      return "user_stack_cut";
    case StackEnd::kFrameLimit:
      return "frame_limit";
    case StackEnd::kNoMapping:
      return "no_mapping";
    case StackEnd::kNoUnwindTable:
      return "no_unwind_table";
    case StackEnd::kBadFrame:
      return "bad_frame";
    case StackEnd::kBadMemory:
      return "bad_memory";
    case StackEnd::kNoUserRegisters:
      return "no_user_registers";
    case StackEnd::kUnsupportedArch:
      return "unsupported_arch";
  }
  return "";
}

}  // namespace ptarmigan
