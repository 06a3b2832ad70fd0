// KernelSymbols: names of the kernel's code by run-time address, from kallsyms text: that of the running kernel, or a
// copy that perf's build-id cache or a given directory keeps. Modules and BPF programs are in the same list.
//
// Making the text takes the kernel longer than everything that we do with it, so a list can be kept as a table
// (docs/formats/ksym.md) that is mapped and asked as it lies there. Hostile input: FromTable checks sizes and checksums
// and refuses what is damaged; make the table again. Nothing outside of the table is read, whatever stands in it.
//
// Immutable after parsing but for MoveTo; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_cursor.h"
#include "base/file.h"
#include "base/result.h"
#include "model/address.h"
#include "model/build_id.h"
#include "symbolize/frame_numbers.h"

namespace ptarmigan {

class KernelSymbols final : public FrameNames {
 public:
  static constexpr uint64_t kTextBytesMax = uint64_t{256} << 20;
  static constexpr size_t kSymbolsMax = size_t{8} << 20;
  static constexpr size_t kNameBytesMax = 512;  // KSYM_NAME_LEN since Linux 6.1

  struct Symbol {
    VirtAddr start;
    VirtAddr end;           // exclusive: the next symbol, or the end of its last page
    std::string_view name;  // the best of its aliases; lives as long as the table
    std::string_view
        module;          // without brackets; empty for the kernel itself; "bpf" for BPF programs
    uint32_t index = 0;  // the same number for the same symbol of one table
    // No code follows this symbol in the kernel's or the module's text and the address lies behind the symbol's first
    // page: it is this symbol's only if nothing else begins in between.
    bool is_guess = false;
  };

  // From the text of kallsyms. kPermission if every address in it is zero, with the way to see them in the sentence;
  // kInvalidInput if no line is a symbol. Lines that cannot be read are counted.
  static Result<KernelSymbols> Parse(std::string_view text);
  // <proc_root>/kallsyms of the running kernel.
  static Result<KernelSymbols> OfRunningKernel(const std::string& proc_root = "/proc");

  struct TableOptions {
    // Kept in the table, to tell later whether it is still the right one.
    std::string_view identity;
    // Not null: leave out everything but the kernel and these modules; the table is not whole() then.
    const std::vector<std::string>* modules = nullptr;
  };
  static constexpr size_t kIdentityBytesMax = 4096;
  std::string ToTable(const TableOptions& options) const;
  // kInvalidInput if it is damaged, of another version or made by a machine of the other byte order; kNotFound if its
  // identity is another one.
  static Result<KernelSymbols> FromTable(MappedFile file, std::string_view identity);
  // `bytes` must outlive the result and what was copied from it, and start at an address that is a multiple of 8.
  static Result<KernelSymbols> FromTable(Bytes bytes, std::string_view identity);
  // False: what comes and goes without a module (BPF programs, trampolines) is not in it.
  bool whole() const { return whole_; }

  // The symbol whose code holds the address. False if none does.
  bool Find(VirtAddr address, Symbol* symbol) const;
  // Function numbers are those of Symbol::index.
  void Describe(const FrameNumbers& numbers, SourceFrame* frame) const override;
  // Whether the address lies between the first and the last address of the kernel itself: no other code is there.
  bool IsInKernelItself(VirtAddr address) const;
  // The address of a symbol of the kernel itself, code or data; nothing if there is none of that name.
  std::optional<VirtAddr> AddressOf(std::string_view name) const;

  // For a kernel that was loaded elsewhere (address-space randomization differs from boot to boot): moves the kernel
  // itself so that `name` stands at `address`, and drops modules and BPF programs, whose places then say nothing.
  // False, and no change, if there is no such symbol.
  bool MoveTo(std::string_view name, VirtAddr address);

  size_t size() const { return entries_.size(); }
  uint64_t malformed_lines() const { return malformed_; }

 private:
  static constexpr size_t kAnchorsCount = 4;  // _text, _stext, _etext, _end

  // As it stands in tables, but for the start, which is in a list of its own.
  struct Entry {
    uint32_t name_at = 0;  // in text_
    uint16_t name_bytes = 0;
    uint16_t module = 0;  // in modules_
    uint8_t type = 0;     // as nm prints it; 0 for what only ends the symbol before
    uint8_t reserved[3] = {};
  };
  struct Symbolled {
    uint64_t start = 0;
    Entry entry;
  };
  struct TableHeader;
  struct Storage;

  void Finish(std::vector<Symbolled> symbols, std::string text);
  Status ReadTable(Bytes bytes, std::string_view identity);
  std::string_view NameOf(const Entry& entry) const {
    return entry.name_at <= text_.size()
               ? text_.substr(entry.name_at, std::min<size_t>(entry.name_bytes, kNameBytesMax))
               : std::string_view();
  }
  std::string_view ModuleOf(const Entry& entry) const {
    return entry.module < modules_.size() ? modules_[entry.module] : std::string_view();
  }

  std::shared_ptr<const Storage>
      storage_;  // what the following three point to, unless it is the caller's
  std::span<const uint64_t> starts_;  // sorted, each once
  std::span<const Entry> entries_;
  std::string_view text_;  // names only
  std::vector<std::string> modules_;
  std::array<std::optional<uint64_t>, kAnchorsCount> anchors_;
  uint64_t malformed_ = 0;
  bool whole_ = true;
};

// The running kernel's build id from <sys_root>/kernel/notes; empty if it has none or it cannot be read.
BuildId RunningKernelBuildId(const std::string& sys_root = "/sys");

// How a recording names the kernel's map: "[kernel.kallsyms]_text" says that the file offset of its MMAP record is the
// run-time address of `_text` (perf's reference for address-space randomization). Empty without such a suffix.
std::string_view KernelReferenceSymbol(std::string_view mapping_path);
// "[guest.kernel.kallsyms]" and the like: a kernel that this machine's symbols say nothing about.
bool IsGuestKernelPath(std::string_view mapping_path);

}  // namespace ptarmigan
