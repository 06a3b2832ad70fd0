// An object's debug sections in the shape that libdw 0.188 can read: it does not know
// zstd-compressed sections, does not apply the relocations of relocatable objects (kernel modules),
// and libelf writes to the section headers when it inflates, which a mapped file does not allow.
// Where sections are compressed or relocatable, a small ELF file with plain ones is made in memory;
// else the object's own bytes serve.
//
// Foreign bytes, bounded by ElfFile's bounds.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "elf/elf_file.h"

namespace ptarmigan::internal {

class DwarfImage {
 public:
  // `file` must outlive the image. kInvalidInput if a debug section does not inflate, kUnsupported for relocations
  // of an unknown machine.
  static Result<std::unique_ptr<DwarfImage>> Make(const ElfFile& file);

  // An ELF file for libelf's elf_memory.
  Bytes elf() const { return elf_; }
  // A plain debug section by its usual name (".debug_line"); empty if there is none.
  Bytes Section(std::string_view name);
  const ElfFile& file() const { return file_; }
  bool rebuilt() const { return !storage_.empty(); }

 private:
  struct PlainSection {
    std::string name;
    std::string storage;  // if it had to be inflated or relocated
    Bytes content;
  };
  explicit DwarfImage(const ElfFile& file) : file_(file) {}
  Result<PlainSection*> Load(const ElfSection& section);
  Status Relocate(const ElfSection& relocations, std::string* target) const;
  void Assemble();

  const ElfFile& file_;
  std::vector<std::unique_ptr<PlainSection>> sections_;
  std::string storage_;  // the ELF file made here
  Bytes elf_;
};

}  // namespace ptarmigan::internal
