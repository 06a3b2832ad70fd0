#include "decode/instruction_bytes.h"

#include <algorithm>

namespace ptarmigan {

Bytes InstructionBytesAt(const CodeImage& image, VirtAddr address, size_t epoch,
                         InstructionBuffer* buffer) {
  const Bytes code = image.CodeAt(address, epoch);
  if (code.empty() || code.size() >= buffer->size()) return code;
  std::ranges::copy(code, buffer->begin());
  const Bytes next = image.CodeAt(address + code.size(), epoch);
  const size_t more = std::min(next.size(), buffer->size() - code.size());
  std::copy_n(next.begin(), more, buffer->begin() + static_cast<ptrdiff_t>(code.size()));
  return Bytes(*buffer).first(code.size() + more);
}

}  // namespace ptarmigan
