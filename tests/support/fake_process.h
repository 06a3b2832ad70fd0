// FakeProcess: a ModuleFinder over mappings that a test lists, with object files from memory.
#pragma once

#include <elf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "elf/elf_file.h"
#include "unwind/stack_walker.h"

namespace ptarmigan {

class FakeProcess : public ModuleFinder {
 public:
  struct Object {
    std::string name;
    std::string bytes;
    std::unique_ptr<ElfFile> file;
    std::unique_ptr<UnwindObject> unwind;
  };
  struct Mapping {
    VirtAddr start = {};
    VirtAddr end = {};
    FileOffset offset = {};
    Object* object = nullptr;  // null: code without a file
    bool is_vdso = false;
  };

  // Keeps the bytes. Null if they are no ELF file.
  Object* AddObject(std::string name, std::string bytes) {
    auto object = std::make_unique<Object>();
    object->name = std::move(name);
    object->bytes = std::move(bytes);
    auto file = ElfFile::FromBytes(AsBytes(object->bytes), object->name);
    if (!file) return nullptr;
    object->file = std::move(file).value();
    object->unwind = std::make_unique<UnwindObject>(*object->file);
    objects_.push_back(std::move(object));
    return objects_.back().get();
  }
  void Map(const Mapping& mapping) { mappings_.push_back(mapping); }
  const std::vector<Mapping>& mappings() const { return mappings_; }
  // Maps every executable segment with the given bias.
  void MapSegments(Object* object, uint64_t bias) {
    for (const ElfSegment& segment : object->file->segments()) {
      if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
      const VirtAddr start{segment.vaddr.value + bias};
      Map({.start = start,
           .end = start + segment.memory_bytes,
           .offset = segment.offset,
           .object = object});
    }
  }

  bool Find(VirtAddr pc, CodeModule* module) override {
    const Mapping* mapping = FindMapping(pc);
    if (mapping == nullptr) return false;
    *module = {.start = mapping->start, .end = mapping->end, .is_vdso = mapping->is_vdso};
    const auto vaddr = ToVaddr(pc);
    if (vaddr) {
      module->object = mapping->object->unwind.get();
      module->bias = pc.value - vaddr->value;
    }
    return true;
  }
  const Mapping* FindMapping(VirtAddr pc) const {
    for (const Mapping& mapping : mappings_) {
      if (pc >= mapping.start && pc < mapping.end) return &mapping;
    }
    return nullptr;
  }
  std::optional<FileVaddr> ToVaddr(VirtAddr pc) const {
    const Mapping* mapping = FindMapping(pc);
    if (mapping == nullptr || mapping->object == nullptr) return std::nullopt;
    return mapping->object->file->ToVaddr(mapping->offset + (pc.value - mapping->start.value));
  }
  // The function symbol that covers `pc`; else the last one before it that has no size (assembly); "?" if none.
  std::string FunctionAt(VirtAddr pc) const {
    const auto vaddr = ToVaddr(pc);
    if (!vaddr) return "?";
    std::string covering;
    std::string before = "?";
    FileVaddr before_start;
    FindMapping(pc)->object->file->ForEachSymbol(".symtab", [&](const ElfSymbol& symbol) {
      if (*vaddr < symbol.value || (symbol.type != STT_FUNC && symbol.type != STT_NOTYPE)) return;
      if (*vaddr - symbol.value < symbol.size_bytes) covering = symbol.name;
      const bool named = !symbol.name.empty() && symbol.name.front() != '$';
      if (symbol.size_bytes == 0 && named && symbol.value >= before_start) {
        before = symbol.name;
        before_start = symbol.value;
      }
    });
    return covering.empty() ? before : covering;
  }

 private:
  std::vector<std::unique_ptr<Object>> objects_;
  std::vector<Mapping> mappings_;
};

}  // namespace ptarmigan
