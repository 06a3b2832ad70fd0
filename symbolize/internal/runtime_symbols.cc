#include "symbolize/internal/runtime_symbols.h"

#include <elf.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "base/file.h"
#include "base/proc_fs.h"
#include "base/str_format.h"

namespace ptarmigan::internal {
namespace {

constexpr std::string_view kTemporaryDirectory = "/tmp";

std::optional<uint64_t> SymbolAddress(const LocatedObject& located, std::string_view name) {
  std::optional<uint64_t> address;
  for (const LocatedFile* file : {&located.object, &located.debug}) {
    if (file->file == nullptr || address) continue;
    file->file->ForEachSymbol(".symtab", [&](const ElfSymbol& symbol) {
      if (!address && symbol.name == name && symbol.section != SHN_UNDEF)
        address = symbol.value.value;
    });
  }
  return address;
}

// The run-time address of the symbol that tells where the kernel was loaded.
struct Reference {
  std::string symbol;
  uint64_t address = 0;
};

std::optional<Reference> ReferenceOf(const KernelChoice& choice, const KernelState& state) {
  if (choice.kernel != nullptr) {
    const std::string_view symbol = KernelReferenceSymbol(choice.kernel->path);
    if (!symbol.empty() && choice.kernel->first_offset.value != 0) {
      return Reference{std::string(symbol), choice.kernel->first_offset.value};
    }
  }
  if (!choice.live || !state.symbols) return std::nullopt;
  const auto address = state.symbols->AddressOf("_stext");
  return address ? std::optional(Reference{"_stext", address->value}) : std::nullopt;
}

void LoadVmlinux(const BuildId& build_id, const KernelChoice& choice, const ObjectLocator& locator,
                 TableCache* tables, KernelState* state) {
  if (build_id.empty()) return;
  CodeObject wanted;
  wanted.path = "vmlinux";
  wanted.build_id = build_id;
  const LocatedObject located = locator.Locate(wanted, {});
  if (located.object.file == nullptr && located.debug.file == nullptr) return;
  const auto reference = ReferenceOf(choice, *state);
  if (!reference) return;
  const auto vaddr = SymbolAddress(located, reference->symbol);
  if (!vaddr) return;
  auto outcome = tables->Get(build_id, located, {.from_debuginfod = located.debug_from_debuginfod});
  if (outcome->table == nullptr) return;
  state->vmlinux = std::move(outcome);
  state->vmlinux_shift = reference->address - *vaddr;
  state->vmlinux_path = located.debug.file != nullptr ? located.debug.path : located.object.path;
}

void TakeSymbols(Result<KernelSymbols> symbols, const KernelChoice& choice, KernelState* state) {
  if (!symbols) {
    state->miss = symbols.error().code == ErrorCode::kPermission ? SymbolMiss::kKernelHidden
                                                                 : SymbolMiss::kNoSymbols;
    state->reason = symbols.error().message;
    return;
  }
  state->symbols = *std::move(symbols);
  if (choice.kernel == nullptr || choice.live) return;
  const auto reference = ReferenceOf(choice, *state);
  if (reference && !state->symbols->MoveTo(reference->symbol, {reference->address})) {
    state->symbols.reset();
    state->miss = SymbolMiss::kOtherKernel;
    state->reason = StrFormat("kallsyms has no symbol '{}' to tell where the kernel was loaded",
                              reference->symbol);
  }
}

}  // namespace

const KernelSymbols* KernelNow::Symbols() const {
  std::call_once(once_, [&] {
    auto symbols = KernelSymbols::OfRunningKernel(proc_root_);
    if (symbols) symbols_ = *std::move(symbols);
  });
  return symbols_ ? &*symbols_ : nullptr;
}

bool KernelState::Find(VirtAddr address, KernelSymbols::Symbol* symbol,
                       const KernelSymbols** table) const {
  // The upper half of the address space is the kernel's, on every architecture that we know.
  constexpr uint64_t kKernelHalf = uint64_t{1} << 63;
  if (!symbols) return false;
  const KernelSymbols* asked = &*symbols;
  bool found = asked->Find(address, symbol);
  const bool certain = now == nullptr || asked->IsInKernelItself(address) ||
                       (found ? !symbol->is_guess : address.value < kKernelHalf);
  if (!certain && now->Symbols() != nullptr) {
    asked = now->Symbols();
    found = asked->Find(address, symbol);
  }
  if (table != nullptr) *table = asked;
  return found;
}

KernelState LoadKernel(const KernelChoice& choice, const ObjectLocator& locator, TableCache* tables,
                       const KernelCache& cache) {
  KernelState state;
  const BuildId running = RunningKernelBuildId(choice.sys_root);
  const BuildId wanted = choice.kernel != nullptr && !choice.kernel->build_id.empty()
                             ? choice.kernel->build_id
                         : choice.live ? running
                                       : BuildId();
  const bool is_running = choice.live || (!wanted.empty() && wanted == running);
  const std::string own_list = choice.copy.empty() ? "" : JoinPath(choice.copy, "kallsyms");
  if (!wanted.empty() && !own_list.empty() && PathExists(own_list)) {
    TakeSymbols(cache.OfCopy(wanted, own_list), choice, &state);
  } else if (is_running) {
    TakeSymbols(cache.OfRunningKernel(running, choice.proc_root, choice.sys_root), choice, &state);
    if (state.symbols && !state.symbols->whole()) {
      state.now = std::make_unique<const KernelNow>(choice.proc_root);
    }
  } else if (wanted.empty()) {
    state.miss = SymbolMiss::kOtherKernel;
    state.reason = "the recording does not tell the build id of its kernel";
  } else {
    const std::string copy = locator.FindByBuildId(wanted, "kallsyms");
    if (copy.empty()) {
      state.miss = SymbolMiss::kOtherKernel;
      state.reason = StrFormat(
          "recorded under the kernel with build id {}, which is not the running one; a copy of its "
          "kallsyms or its "
          "vmlinux is in none of the given directories or in ~/.debug",
          wanted.ToHex());
    } else {
      TakeSymbols(cache.OfCopy(wanted, copy), choice, &state);
    }
  }
  LoadVmlinux(wanted, choice, locator, tables, &state);
  if (state.vmlinux != nullptr && !state.symbols) {
    state.miss = SymbolMiss::kNone;
    state.reason = "modules and BPF programs are not known: " + state.reason;
  }
  return state;
}

JitState LoadJit(const JitChoice& choice, int32_t pid) {
  JitState state;
  std::string first_reason;
  const auto take_map = [&](Result<PerfMap> map) {
    if (map) {
      if (!state.map) state.map = *std::move(map);
    } else if (first_reason.empty() && map.error().code != ErrorCode::kNotFound) {
      first_reason = map.error().message;
    }
  };
  for (const std::string& directory : choice.directories) {
    take_map(ReadPerfMapIn(directory, pid));
    if (!state.map) take_map(ReadPerfMapIn(JoinPath(directory, "tmp"), pid));
  }
  if (choice.live) {
    const ProcFs proc(choice.proc_root);
    if (!state.map) take_map(ReadPerfMapOf(proc, pid));
    auto dump = ReadJitDumpOf(proc, pid);
    if (dump) {
      state.dump = *std::move(dump);
    } else if (first_reason.empty() && dump.error().code != ErrorCode::kNotFound) {
      first_reason = dump.error().message;
    }
  }
  // Also for live: the process may have ended.
  if (!state.map && (choice.live || choice.recorded_here))
    take_map(ReadPerfMapIn(std::string(kTemporaryDirectory), pid));
  if (!state.map && !state.dump) {
    state.reason = !first_reason.empty()
                       ? first_reason
                       : StrFormat("process {} left neither perf-{}.map nor a jitdump", pid, pid);
  }
  return state;
}

LocatedFile OwnVdso() {
  LocatedFile located;
  const unsigned long start = ::getauxval(AT_SYSINFO_EHDR);
  if (start == 0) return located;
  const auto maps = ProcFs().Maps(::getpid());
  if (!maps) return located;
  for (const ProcMap& map : *maps) {
    if (map.start != start) continue;
    Fd memory(::memfd_create("ptarmigan-vdso", MFD_CLOEXEC));
    if (!memory.valid()) return located;
    const Bytes image(reinterpret_cast<const std::byte*>(start), map.end - map.start);
    if (!WriteAll(memory.get(), image, "[vdso]")) return located;
    auto file = ElfFile::FromFd(memory.get(), "[vdso]");
    if (!file) return located;
    located.file = *std::move(file);
    located.fd = std::make_shared<const Fd>(std::move(memory));
    located.path = "[vdso]";
    return located;
  }
  return located;
}

}  // namespace ptarmigan::internal
