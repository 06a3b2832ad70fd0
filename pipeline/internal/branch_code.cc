#include "pipeline/internal/branch_code.h"

namespace ptarmigan::internal {

CodeRun BranchCode::Walk(uint32_t start, uint32_t end) {
  const Place& first = table_.places()[start];
  const Place& last = table_.places()[end];
  if (first.object != last.object || last.position < first.position) return {};
  const uint64_t length_bytes = last.position - first.position;
  const Bytes code = CodeAt(first, length_bytes + kInstructionBytesMax);
  if (code.empty()) return {};
  return WalkCodeRun(FileOf(*first.object)->arch(), code, length_bytes);
}

bool BranchCode::IsReturn(uint32_t place) {
  const Place& at = table_.places()[place];
  const Bytes code = CodeAt(at, kInstructionBytesMax);
  return !code.empty() && IsReturnInstruction(FileOf(*at.object)->arch(), code);
}

std::optional<uint64_t> BranchCode::FunctionStart(uint32_t place) {
  const Place& at = table_.places()[place];
  const NamedPlace& named = resolver_.places()[place];
  const NamedObject& object = resolver_.objects()[at.object->index];
  if (named.miss != SymbolMiss::kNone || object.symbols == nullptr) return std::nullopt;
  if (object.symbols->by_runtime_address()) {
    const auto start =
        symbolizer_.FunctionStartRuntime(*object.symbols, {named.address}, at.time_ns);
    return start ? std::optional(start->value) : std::nullopt;
  }
  if (!HasFilePositions(*at.object)) return std::nullopt;
  const auto start = symbolizer_.FunctionStart(*object.symbols, FileVaddr{named.address});
  return start ? std::optional(start->value) : std::nullopt;
}

Bytes BranchCode::CodeAt(const Place& place, uint64_t size_bytes) {
  if (!HasFilePositions(*place.object)) return {};
  const ElfFile* file = FileOf(*place.object);
  if (file == nullptr) return {};
  const auto vaddr = file->ToVaddr({place.position});
  return vaddr ? file->ReadAt(*vaddr, size_bytes) : Bytes();
}

const ElfFile* BranchCode::FileOf(const CodeObject& object) {
  if (object.index >= files_.size()) files_.resize(object.index + 1);
  OpenedFile& opened = files_[object.index];
  if (!opened.tried) {
    opened.tried = true;
    LoadHints hints;
    if (object.index < resolver_.objects().size()) hints = resolver_.objects()[object.index].hints;
    opened.file = symbolizer_.OpenObject(object, hints);
  }
  return opened.file.get();
}

}  // namespace ptarmigan::internal
