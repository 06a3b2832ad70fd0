#include "unwind/internal/walk_memory.h"

namespace ptarmigan::internal {

WalkMemory::Status WalkMemory::ReadElsewhere(uint64_t address, size_t size_bytes,
                                             uint64_t* value) const {
  if (module_ != nullptr && module_->object != nullptr) {
    const Bytes bytes =
        module_->object->ReadOnlyBytes(FileVaddr{address - module_->bias}, size_bytes);
    if (bytes.size() == size_bytes) {
      *value = Load(bytes.data(), size_bytes);
      return Status::kOk;
    }
  }
  // Words that begin below the stack pointer or far above the stack are not "cut off": nothing says how far the
  // stack goes, but no stack is larger than this.
  constexpr uint64_t kStackBytesMax = uint64_t{1} << 32;
  const uint64_t offset = address - start_;
  return offset < kStackBytesMax ? Status::kBeyondStack : Status::kMissing;
}

}  // namespace ptarmigan::internal
