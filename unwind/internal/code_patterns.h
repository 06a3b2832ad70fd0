// What machine code says about its frame where no call frame information does.
#pragma once

#include <cstdint>
#include <optional>

#include "model/address.h"
#include "model/arch.h"
#include "unwind/unwind_object.h"

namespace ptarmigan::internal {

// Where the return address is at an instruction that was interrupted (not behind a call): in a PLT stub, at the start
// of a function before its frame is made, or at its `ret`.
struct LeafReturn {
  bool in_link_register = false;
  // Else: in bytes above the stack pointer.
  uint64_t stack_offset = 0;
};
std::optional<LeafReturn> FindLeafReturn(const UnwindObject& object, Arch arch, FileVaddr pc);

// Whether `pc` is the return address that the kernel gives to signal handlers: the instructions of sigreturn.
bool IsSignalTrampoline(const UnwindObject& object, Arch arch, FileVaddr pc);

// Whether `pc` lies in the first instructions behind the entry point, which nobody called.
bool IsEntryCode(const UnwindObject& object, FileVaddr pc);

}  // namespace ptarmigan::internal
