// GoTableBytes: writes Go symbol tables (.gopclntab) of every version in small ELF files for tests.
#pragma once

#include <elf.h>

#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/byte_writer.h"
#include "tests/support/elf_bytes.h"

namespace ptarmigan {

enum class GoTableVersion { k1_2, k1_16, k1_18, k1_20 };

struct GoTableFunction {
  struct Run {
    uint32_t size_bytes = 0;
    int32_t value = 0;
  };
  struct Inlined {
    std::string name;
    uint32_t parent_pc = 0;  // from the function's entry
    uint32_t start_line = 0;
  };
  std::string name = {};
  std::string file = {};
  uint32_t size_bytes = 0;
  uint32_t start_line = 0;
  std::vector<Run> lines = {};
  // Inline tree indexes by pc, and the tree; before 1.18 they are not written.
  std::vector<Run> inline_index = {};
  std::vector<Inlined> inline_tree = {};
};

class GoTableBytes {
 public:
  static constexpr uint64_t kTextVaddr = 0x401000;
  static constexpr uint64_t kFuncdataVaddr = 0x500000;
  static constexpr uint64_t kTableVaddr = 0x600000;
  static constexpr uint64_t kModuleVaddr = 0x700000;

  GoTableBytes(GoTableVersion version, std::endian order) : version_(version), order_(order) {}

  // The whole ELF file, without a symbol table; functions follow each other from kTextVaddr on.
  std::string Build(const std::vector<GoTableFunction>& functions) const;

 private:
  bool has_units() const { return version_ != GoTableVersion::k1_2; }
  bool has_offsets() const { return version_ >= GoTableVersion::k1_18; }
  std::string PcValues(const std::vector<GoTableFunction::Run>& runs) const {
    ByteWriter out;
    int64_t value = -1;
    for (const GoTableFunction::Run& run : runs) {
      const int64_t delta = run.value - value;
      out.Uleb(delta < 0 ? (static_cast<uint64_t>(-(delta + 1)) << 1) | 1
                         : static_cast<uint64_t>(delta) << 1);
      out.Uleb(run.size_bytes);
      value = run.value;
    }
    return out.U8(0).bytes();
  }

  GoTableVersion version_;
  std::endian order_;
};

inline std::string GoTableBytes::Build(const std::vector<GoTableFunction>& functions) const {
  // Strings and pc-value tables; offset 0 means "none", so both start with a byte nobody points at.
  std::string names(1, '\0');
  std::string files(1, '\0');
  std::string pc_values(1, '\0');
  ByteWriter units(order_);
  ByteWriter funcdata(order_);
  const auto add = [](std::string* to, const std::string& text) {
    const uint64_t at = to->size();
    *to += text;
    return at;
  };
  struct Placed {
    uint64_t name, file, lines, file_runs, inline_runs, tree;
  };
  std::vector<Placed> placed;
  std::vector<uint64_t> file_offsets;
  uint64_t text_bytes = 0;
  for (const GoTableFunction& function : functions) {
    Placed place = {};
    place.name = add(&names, function.name + '\0');
    file_offsets.push_back(add(&files, function.file + '\0'));
    units.U32(file_offsets.back());
    place.file = file_offsets.size() - 1;
    // In 1.2 file numbers count from 1 and are global; later they are local to a unit, and here each function is one.
    const int32_t number = has_units() ? 0 : static_cast<int32_t>(place.file) + 1;
    place.file_runs = add(&pc_values, PcValues({{function.size_bytes, number}}));
    place.lines = add(&pc_values, PcValues(function.lines));
    place.inline_runs =
        function.inline_index.empty() ? 0 : add(&pc_values, PcValues(function.inline_index));
    place.tree = funcdata.size();
    for (const GoTableFunction::Inlined& inlined : function.inline_tree) {
      const uint64_t name = add(&names, inlined.name + '\0');
      if (version_ == GoTableVersion::k1_20) {
        funcdata.U32(0).U32(name).U32(inlined.parent_pc).U32(inlined.start_line);
      } else {
        funcdata.U32(0).U32(0).U32(0).U32(name).U32(inlined.parent_pc);
      }
    }
    placed.push_back(place);
    text_bytes += function.size_bytes;
  }

  // The header's size is known beforehand; parts follow in the order that Go's linker uses.
  const uint64_t words = version_ == GoTableVersion::k1_2    ? 1
                         : version_ == GoTableVersion::k1_16 ? 7
                                                             : 8;
  const uint64_t header_bytes = 8 + words * 8;
  const uint64_t entry_bytes = has_offsets() ? 4 : 8;
  const uint64_t functab_bytes = (functions.size() * 2 + 1) * entry_bytes + (has_units() ? 0 : 4);
  uint64_t at = header_bytes;
  const auto reserve = [&](uint64_t bytes) { return std::exchange(at, (at + bytes + 7) / 8 * 8); };
  uint64_t names_at = 0, units_at = 0, files_at = 0, pc_at = 0, functab_at = header_bytes;
  if (has_units()) {
    names_at = reserve(names.size());
    units_at = reserve(units.size());
    files_at = reserve(files.size());
    pc_at = reserve(pc_values.size());
    functab_at = reserve(0);
  }
  ByteWriter structures(order_);
  std::vector<uint64_t> structure_offsets;
  const uint64_t structures_at = (functab_at + functab_bytes + 7) / 8 * 8;
  const uint64_t structure_bytes = 96;
  if (!has_units()) {
    at = structures_at + functions.size() * structure_bytes;
    names_at = reserve(names.size());
    files_at = reserve(files.size());
    pc_at = reserve(pc_values.size());
    units_at = reserve((functions.size() + 1) * 4);  // the file table
  }
  // 1.2 counts strings and pc-value tables from the start of the whole table.
  const uint64_t name_base = has_units() ? 0 : names_at;
  const uint64_t pc_base = has_units() ? 0 : pc_at;
  uint64_t entry = kTextVaddr;
  for (size_t i = 0; i < functions.size(); ++i) {
    const GoTableFunction& function = functions[i];
    const bool has_tree = has_offsets() && !function.inline_tree.empty();
    structure_offsets.push_back(structures_at + structures.size());
    const size_t start = structures.size();
    structures.Number(has_offsets() ? entry - kTextVaddr : entry, entry_bytes);
    structures.U32(name_base + placed[i].name).U32(0).U32(0).U32(0);
    structures.U32(pc_base + placed[i].file_runs)
        .U32(pc_base + placed[i].lines)
        .U32(has_tree ? 3 : 0);
    if (has_units()) structures.U32(placed[i].file);
    if (version_ == GoTableVersion::k1_20) structures.U32(function.start_line);
    if (has_offsets()) {
      structures.U8(0).U8(0).U8(0).U8(has_tree ? 4 : 0);
      if (has_tree) {
        structures.U32(0).U32(0).U32(pc_base + placed[i].inline_runs);
        structures.U32(~uint32_t{0}).U32(~uint32_t{0}).U32(~uint32_t{0}).U32(placed[i].tree);
      }
    }
    while (structures.size() < start + structure_bytes) structures.U8(0);
    entry += function.size_bytes;
  }

  ByteWriter table(order_);
  constexpr uint32_t kMagics[] = {0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1};
  table.U32(kMagics[static_cast<size_t>(version_)]).U16(0).U8(1).U8(8).U64(functions.size());
  if (has_units()) {
    table.U64(functions.size());
    if (has_offsets()) table.U64(kTextVaddr);
    table.U64(names_at).U64(units_at).U64(files_at).U64(pc_at).U64(functab_at);
  }
  const auto pad_to = [&](uint64_t position) {
    while (table.size() < position) table.U8(0);
  };
  const auto put = [&](uint64_t position, const std::string& bytes) {
    pad_to(position);
    table.Text(bytes);
  };
  const auto put_functab = [&] {
    pad_to(functab_at);
    uint64_t pc = has_offsets() ? 0 : kTextVaddr;
    const uint64_t base = has_units() ? functab_at : 0;
    for (size_t i = 0; i < functions.size(); ++i) {
      table.Number(pc, entry_bytes).Number(structure_offsets[i] - base, entry_bytes);
      pc += functions[i].size_bytes;
    }
    table.Number(pc, entry_bytes);
    if (!has_units()) table.U32(units_at);
    put(structures_at, structures.bytes());
  };
  if (!has_units()) put_functab();
  put(names_at, names);
  if (has_units()) put(units_at, units.bytes());
  put(files_at, files);
  put(pc_at, pc_values);
  if (has_units()) {
    put_functab();
  } else {
    pad_to(units_at);
    table.U32(functions.size() + 1);
    for (const uint64_t offset : file_offsets) table.U32(files_at + offset);
  }

  // runtime.moduledata: what the reader looks for is its first word and those from minpc on.
  ByteWriter module(order_);
  const size_t gofunc_word = version_ == GoTableVersion::k1_20 ? 40 : 38;
  for (size_t word = 0; word <= gofunc_word; ++word) {
    uint64_t value = 0;
    if (word == 0) value = kTableVaddr;
    if (word == 20 || word == 22) value = kTextVaddr;
    if (word == 21 || word == 23) value = kTextVaddr + text_bytes;
    if (word >= gofunc_word - 1) value = kFuncdataVaddr;
    module.U64(value);
  }

  ElfBytes elf({.order = order_, .machine = EM_X86_64, .type = ET_EXEC});
  const uint32_t text = elf.Add({.name = ".text",
                                 .flags = SHF_ALLOC | SHF_EXECINSTR,
                                 .vaddr = kTextVaddr,
                                 .content = std::string(text_bytes, '\x90')});
  elf.AddSegment(PT_LOAD, PF_R | PF_X, {text, text});
  const uint32_t read_only = elf.Add({.name = ".rodata",
                                      .flags = SHF_ALLOC,
                                      .vaddr = kFuncdataVaddr,
                                      .content = funcdata.bytes() + std::string(8, '\0')});
  elf.AddSegment(PT_LOAD, PF_R, {read_only, read_only});
  const uint32_t go_table = elf.Add(
      {.name = ".gopclntab", .flags = SHF_ALLOC, .vaddr = kTableVaddr, .content = table.bytes()});
  elf.AddSegment(PT_LOAD, PF_R, {go_table, go_table});
  const uint32_t data = elf.Add({.name = ".noptrdata",
                                 .flags = SHF_ALLOC | SHF_WRITE,
                                 .vaddr = kModuleVaddr,
                                 .content = module.bytes()});
  elf.AddSegment(PT_LOAD, PF_R | PF_W, {data, data});
  return elf.Build();
}

// Three functions; "main.work" holds "main.square" inlined twice, once through "main.sum".
inline std::vector<GoTableFunction> GoTableExample() {
  return {
      {.name = "main.leaf",
       .file = "/src/a.go",
       .size_bytes = 32,
       .start_line = 3,
       .lines = {{16, 4}, {16, 5}}},
      {.name = "main.work",
       .file = "/src/b.go",
       .size_bytes = 64,
       .start_line = 10,
       .lines = {{8, 11}, {8, 21}, {8, 31}, {8, 21}, {8, 12}, {24, 13}},
       .inline_index = {{8, -1}, {8, 0}, {8, 1}, {8, 2}, {32, -1}},
       .inline_tree = {{"main.sum", 4, 30}, {"main.square", 12, 20}, {"main.square", 34, 20}}},
      {.name = "main.main",
       .file = "/src/a.go",
       .size_bytes = 16,
       .start_line = 40,
       .lines = {{16, 41}}},
  };
}

}  // namespace ptarmigan
