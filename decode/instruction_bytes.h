// The bytes that an instruction is decoded from, wherever it lies.
#pragma once

#include <array>
#include <cstddef>

#include "base/byte_cursor.h"
#include "decode/instruction.h"
#include "model/code_image.h"

namespace ptarmigan {

using InstructionBuffer = std::array<std::byte, kInstructionBytesMax>;

// At least kInstructionBytesMax bytes from `address` on, if the image has so many; empty where there is no code. Two regions
// may meet inside an instruction: then its bytes are put together in `buffer`.
Bytes InstructionBytesAt(const CodeImage& image, VirtAddr address, size_t epoch,
                         InstructionBuffer* buffer);

}  // namespace ptarmigan
