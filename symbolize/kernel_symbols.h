// KernelSymbols: names of the kernel's code by run-time address, from kallsyms text: that of the running kernel, or a
// copy that perf's build-id cache or a given directory keeps. Modules and BPF programs are in the same list.
//
// Immutable after parsing; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/address.h"
#include "model/build_id.h"

namespace ptarmigan {

class KernelSymbols {
 public:
  static constexpr uint64_t kTextBytesMax = uint64_t{256} << 20;
  static constexpr size_t kSymbolsMax = size_t{8} << 20;
  static constexpr size_t kNameBytesMax = 512;  // KSYM_NAME_LEN since Linux 6.1

  struct Symbol {
    VirtAddr start;
    VirtAddr end;           // exclusive: the next symbol, or the end of its last page
    std::string_view name;  // the best of its aliases; lives as long as the table
    std::string_view
        module;  // without brackets; empty for the kernel itself; "bpf" for BPF programs
  };

  // From the text of kallsyms. kPermission if every address in it is zero, with the way to see them in the sentence;
  // kInvalidInput if no line is a symbol. Lines that cannot be read are counted.
  static Result<KernelSymbols> Parse(std::string_view text);
  // <proc_root>/kallsyms of the running kernel.
  static Result<KernelSymbols> OfRunningKernel(const std::string& proc_root = "/proc");

  // The symbol whose code holds the address. False if none does.
  bool Find(VirtAddr address, Symbol* symbol) const;
  // The address of a symbol of the kernel itself, code or data; nothing if there is none of that name.
  std::optional<VirtAddr> AddressOf(std::string_view name) const;

  // For a kernel that was loaded elsewhere (address-space randomization differs from boot to boot): moves the kernel
  // itself so that `name` stands at `address`, and drops modules and BPF programs, whose places then say nothing.
  // False, and no change, if there is no such symbol.
  bool MoveTo(std::string_view name, VirtAddr address);

  size_t size() const { return symbols_.size(); }
  uint64_t malformed_lines() const { return malformed_; }

 private:
  struct Entry {
    uint64_t start = 0;
    uint32_t name_at = 0;  // in text_
    uint16_t name_bytes = 0;
    uint16_t module = 0;  // in modules_
    char type = 0;        // as nm prints it; 0 for what only ends the symbol before
  };
  void Finish(std::vector<Entry> entries);
  std::string_view NameOf(const Entry& entry) const {
    return std::string_view(text_).substr(entry.name_at, entry.name_bytes);
  }

  std::string text_;  // names only
  std::vector<std::string> modules_;
  std::vector<Entry> symbols_;                             // sorted by start, one per start
  std::vector<std::pair<std::string, uint64_t>> anchors_;  // _text, _stext, _etext and the like
  uint64_t malformed_ = 0;
};

// The running kernel's build id from <sys_root>/kernel/notes; empty if it has none or it cannot be read.
BuildId RunningKernelBuildId(const std::string& sys_root = "/sys");

// How a recording names the kernel's map: "[kernel.kallsyms]_text" says that the file offset of its MMAP record is the
// run-time address of `_text` (perf's reference for address-space randomization). Empty without such a suffix.
std::string_view KernelReferenceSymbol(std::string_view mapping_path);
// "[guest.kernel.kallsyms]" and the like: a kernel that this machine's symbols say nothing about.
bool IsGuestKernelPath(std::string_view mapping_path);

}  // namespace ptarmigan
