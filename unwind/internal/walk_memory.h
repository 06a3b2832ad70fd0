// The memory a walk may read: the copied part of the stack, and what a file says of memory that is never written.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/byte_cursor.h"
#include "unwind/stack_walker.h"

namespace ptarmigan::internal {

class WalkMemory {
 public:
  enum class Status : uint8_t { kOk, kBeyondStack, kMissing };

  WalkMemory() = default;
  WalkMemory(Bytes stack, uint64_t start, uint8_t word_bytes)
      : stack_(stack), start_(start), word_bytes_(word_bytes) {}

  uint8_t word_bytes() const { return word_bytes_; }
  uint64_t stack_end() const { return start_ + stack_.size(); }
  // The module of the current frame, for reads outside the stack.
  void SetModule(const CodeModule* module) { module_ = module; }

  Status ReadWord(uint64_t address, uint64_t* value) const {
    return Read(address, word_bytes_, value);
  }
  // `size_bytes` is 1, 2, 4 or 8.
  Status Read(uint64_t address, size_t size_bytes, uint64_t* value) const {
    const uint64_t offset = address - start_;
    if (offset < stack_.size() && stack_.size() - offset >= size_bytes) [[likely]] {
      *value = Load(stack_.data() + offset, size_bytes);
      return Status::kOk;
    }
    return ReadElsewhere(address, size_bytes, value);
  }

 private:
  static uint64_t Load(const std::byte* bytes, size_t size_bytes) {
    uint64_t value = 0;
    if constexpr (std::endian::native == std::endian::little) {
      if (size_bytes == 8) [[likely]] {
        std::memcpy(&value, bytes, 8);  // nearly always: without a call
      } else {
        std::memcpy(&value, bytes, size_bytes);
      }
    } else {
      for (size_t i = 0; i < size_bytes; ++i) value |= std::to_integer<uint64_t>(bytes[i]) << 8 * i;
    }
    return value;
  }
  Status ReadElsewhere(uint64_t address, size_t size_bytes, uint64_t* value) const;

  Bytes stack_;
  uint64_t start_ = 0;
  uint8_t word_bytes_ = 8;
  const CodeModule* module_ = nullptr;
};

}  // namespace ptarmigan::internal
