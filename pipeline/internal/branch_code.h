// BranchCode: the code of places that branch records name: whether it runs straight on between two of them, and where
// functions begin. Reads the objects' files; code that has none, and the kernel's (which patches itself), is unknown.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "decode/code_run.h"
#include "elf/elf_file.h"
#include "pipeline/internal/place_resolver.h"
#include "pipeline/internal/stack_table.h"
#include "symbolize/symbolizer.h"

namespace ptarmigan::internal {

class BranchCode {
 public:
  // `resolver` must be finished and know the places that are asked for; all references must outlive the object.
  BranchCode(Symbolizer& symbolizer, const PlaceResolver& resolver, const StackTable& table)
      : symbolizer_(symbolizer), resolver_(resolver), table_(table) {}

  // From the place `start` to the branch at the place `end`, which lies behind it in the same object.
  CodeRun Walk(uint32_t start, uint32_t end);
  bool IsReturn(uint32_t place);
  // Where the function that holds the place begins, in the address space of its NamedPlace.
  std::optional<uint64_t> FunctionStart(uint32_t place);

 private:
  // Up to `size_bytes` bytes from the place on; none where its code is unknown.
  Bytes CodeAt(const Place& place, uint64_t size_bytes);
  const ElfFile* FileOf(const CodeObject& object);

  struct OpenedFile {
    bool tried = false;
    std::shared_ptr<const ElfFile> file;
  };

  Symbolizer& symbolizer_;
  const PlaceResolver& resolver_;
  const StackTable& table_;
  std::vector<OpenedFile> files_;  // by CodeObject::index
};

}  // namespace ptarmigan::internal
