#include "symbolize/internal/plt_names.h"

#include <elf.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {
namespace {

constexpr size_t kRelocationsMax = size_t{1} << 20;
constexpr uint64_t kPltEntriesMax = uint64_t{1} << 20;

std::string_view WithoutVersion(std::string_view name) { return name.substr(0, name.find('@')); }

// What fills the slots of the global offset table.
class Slots {
 public:
  explicit Slots(const ElfFile& object) : object_(object) {
    object.ForEachSymbol(".dynsym", [&](const ElfSymbol& symbol) {
      dynamic_.push_back(WithoutVersion(symbol.name));
    });
    lazy_ = Read(".rela.plt");
    Read(".rela.dyn");
    Read(".rela.iplt");
  }

  // By the address of the slot; empty if nothing names it.
  std::string_view At(uint64_t slot_vaddr) const {
    const auto found = by_slot_.find(slot_vaddr);
    return found == by_slot_.end() ? std::string_view() : found->second;
  }
  // By position in .rela.plt.
  std::string_view Lazy(uint64_t index) const {
    return index < lazy_.size() ? lazy_[index] : std::string_view();
  }

 private:
  std::vector<std::string_view> Read(std::string_view section_name) {
    std::vector<std::string_view> names;
    const ElfSection* section = object_.FindSection(section_name);
    if (section == nullptr) return names;
    ByteCursor cursor(object_.RawContent(*section), object_.byte_order());
    constexpr size_t kEntryBytes = sizeof(Elf64_Rela);
    while (cursor.remaining() >= kEntryBytes && names.size() < kRelocationsMax) {
      const uint64_t slot = cursor.U64();
      const uint64_t info = cursor.U64();
      const uint64_t addend = cursor.U64();
      const uint64_t symbol = ELF64_R_SYM(info);
      std::string_view name;
      if (symbol != 0) {
        if (symbol < dynamic_.size()) name = dynamic_[symbol];
      } else if (IsIrelative(ELF64_R_TYPE(info))) {
        name = ResolverName(addend);
      }
      names.push_back(name);
      if (!name.empty()) by_slot_.emplace(slot, name);
    }
    return names;
  }

  bool IsIrelative(uint64_t type) const {
    return object_.arch() == Arch::kArm64 ? type == R_AARCH64_IRELATIVE
                                          : type == R_X86_64_IRELATIVE;
  }

  std::string_view ResolverName(uint64_t vaddr) {
    if (!have_resolvers_) {
      have_resolvers_ = true;
      for (const std::string_view table : {".symtab", ".dynsym"}) {
        object_.ForEachSymbol(table, [&](const ElfSymbol& symbol) {
          if (symbol.type != STT_GNU_IFUNC || symbol.section == SHN_UNDEF) return;
          // Of aliases the one with fewer leading underscores is the one that people call.
          std::string_view& known = resolvers_[symbol.value.value];
          const std::string_view name = WithoutVersion(symbol.name);
          if (known.empty() || Underscores(name) < Underscores(known)) known = name;
        });
      }
    }
    const auto found = resolvers_.find(vaddr);
    return found == resolvers_.end() ? std::string_view() : found->second;
  }
  static size_t Underscores(std::string_view name) {
    return std::min(name.find_first_not_of('_'), name.size());
  }

  const ElfFile& object_;
  std::vector<std::string_view> dynamic_;
  std::vector<std::string_view> lazy_;
  std::unordered_map<uint64_t, std::string_view> by_slot_;
  std::unordered_map<uint64_t, std::string_view> resolvers_;
  bool have_resolvers_ = false;
};

class PltNamer {
 public:
  PltNamer(const ElfFile& object, SymbolRows* rows)
      : slots_(object), object_(object), rows_(rows) {}

  void AddX86(const ElfSection& section);
  void AddArm64(const ElfSection& section);
  uint64_t added() const { return added_; }

 private:
  void Add(uint64_t vaddr, uint64_t size_bytes, std::string_view name) {
    if (name.empty() || added_ >= kPltEntriesMax) return;
    const std::string text = std::string(name) + "@plt";
    FunctionRow row;
    row.start = {vaddr};
    row.size_bytes = size_bytes;
    row.names.system_name = text;
    row.source = SymbolSource::kPlt;
    rows_->AddFunction(row);
    ++added_;
  }

  Slots slots_;
  const ElfFile& object_;
  SymbolRows* rows_;
  uint64_t added_ = 0;
};

// x86-64 psABI, "Procedure Linkage Table": an entry jumps through its slot with `jmp *disp32(%rip)` (ff 25), which
// may follow endbr64 (f3 0f 1e fa) and a bnd prefix (f2); in the lazy half of a split table it pushes its index in
// .rela.plt (68 imm32) instead. Entry 0 starts with a push through the table (ff 35) and has no name.
void PltNamer::AddX86(const ElfSection& section) {
  const Bytes code = object_.RawContent(section);
  const uint64_t entry = section.name == ".plt.got" && section.entry_bytes == 8 ? 8 : 16;
  for (uint64_t at = 0; at + entry <= code.size() || at + 6 <= code.size(); at += entry) {
    ByteCursor cursor(code.subspan(at), std::endian::little);
    const auto byte_at = [&](size_t index) {
      return at + index < code.size() ? std::to_integer<uint8_t>(code[at + index]) : uint8_t{0};
    };
    size_t skip = 0;
    if (byte_at(0) == 0xf3 && byte_at(1) == 0x0f && byte_at(2) == 0x1e && byte_at(3) == 0xfa)
      skip = 4;
    if (byte_at(skip) == 0xf2) ++skip;
    std::string_view name;
    if (byte_at(skip) == 0xff && byte_at(skip + 1) == 0x25) {
      cursor.Seek(skip + 2);
      const int64_t displacement = cursor.S32();
      const uint64_t next = section.vaddr.value + at + skip + 6;
      if (cursor.ok()) name = slots_.At(next + static_cast<uint64_t>(displacement));
    } else if (byte_at(skip) == 0x68) {
      cursor.Seek(skip + 1);
      const uint32_t index = cursor.U32();
      if (cursor.ok()) name = slots_.Lazy(index);
    }
    Add(section.vaddr.value + at, entry, name);
  }
}

// Arm ABI for the 64-bit architecture, "Dynamic linking": adrp x16, slot page; ldr x17, [x16, slot]; add; br x17,
// with `bti c` in front where branch targets are checked.
void PltNamer::AddArm64(const ElfSection& section) {
  constexpr uint32_t kBtiC = 0xd503245f;
  // Instructions are little-endian even where data is not.
  ByteCursor cursor(object_.RawContent(section), std::endian::little);
  struct Entry {
    uint64_t vaddr;
    std::string_view name;
  };
  std::vector<Entry> entries;
  uint32_t before = 0;
  uint32_t adrp = 0;
  uint64_t vaddr = section.vaddr.value;
  uint64_t end = vaddr;
  while (cursor.remaining() >= 4 && entries.size() < kPltEntriesMax) {
    const uint32_t word = cursor.U32();
    const bool loads_slot = (word & 0xffc003ff) == 0xf9400211;  // ldr x17, [x16, #imm]
    if (loads_slot && (adrp & 0x9f00001f) == 0x90000010) {      // adrp x16, page
      const uint64_t adrp_vaddr = vaddr - 4;
      const uint64_t high = (adrp >> 5) & 0x7ffff;
      const uint64_t low = (adrp >> 29) & 3;
      uint64_t pages = high << 2 | low;
      if ((pages & (uint64_t{1} << 20)) != 0) pages |= ~uint64_t{0} << 21;
      const uint64_t page = (adrp_vaddr & ~uint64_t{0xfff}) + (pages << 12);
      const uint64_t slot = page + uint64_t{(word >> 10) & 0xfff} * 8;
      entries.push_back({before == kBtiC ? adrp_vaddr - 4 : adrp_vaddr, slots_.At(slot)});
    }
    before = adrp;
    adrp = word;
    vaddr += 4;
    end = vaddr;
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    const uint64_t next = i + 1 < entries.size() ? entries[i + 1].vaddr : end;
    Add(entries[i].vaddr, next - entries[i].vaddr, entries[i].name);
  }
}

}  // namespace

uint64_t AddPltNames(const ElfFile& object, SymbolRows* rows) {
  const bool x86 = object.arch() == Arch::kX86_64;
  if (!object.is_64_bit() || (!x86 && object.arch() != Arch::kArm64)) return 0;
  PltNamer namer(object, rows);
  for (const ElfSection& section : object.sections()) {
    if (section.type != SHT_PROGBITS || (section.flags & SHF_EXECINSTR) == 0) continue;
    if (section.name != ".plt" && section.name != ".plt.sec" && section.name != ".plt.got" &&
        section.name != ".plt.bnd" && section.name != ".iplt") {
      continue;
    }
    if (x86) {
      namer.AddX86(section);
    } else {
      namer.AddArm64(section);
    }
  }
  return namer.added();
}

}  // namespace ptarmigan::internal
