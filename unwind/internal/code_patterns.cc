#include "unwind/internal/code_patterns.h"

#include <elf.h>

#include <string_view>

namespace ptarmigan::internal {
namespace {

using namespace std::
    string_view_literals;  // NOLINT(google-build-using-namespace): only for literals

constexpr std::string_view kEndbr64 = "\xf3\x0f\x1e\xfa"sv;
// `_start` of glibc and musl is 40 to 60 bytes long.
constexpr uint64_t kEntryCodeBytesMax = 64;

bool IsPltSection(const ElfSection& section) {
  return (section.flags & SHF_EXECINSTR) != 0 &&
         (section.name.starts_with(".plt") || section.name.starts_with(".iplt"));
}

// x86_64 PLT stubs are 16 bytes (".plt.got" 8) and begin with `jmp *slot(%rip)` or endbr64. The lazy ones in ".plt"
// then push the slot's index, so that the return address lies one word higher; the first stub pushes the link map
// upon that.
LeafReturn PltReturnAmd64(const UnwindObject& object, const ElfSection& section, FileVaddr pc) {
  constexpr uint64_t kStubBytes = 16;
  if (section.name != ".plt") return {};
  const uint64_t offset = pc - section.vaddr;
  const uint64_t in_stub = offset % kStubBytes;
  const std::string_view stub = AsText(object.ReadOnlyBytes(pc - in_stub, kStubBytes));
  if (offset < kStubBytes && stub.starts_with("\xff\x35"sv)) {  // push link map; jmp resolver
    return {.stack_offset = in_stub >= 6 ? uint64_t{16} : uint64_t{8}};
  }
  constexpr std::string_view kPush = "\x68"sv;  // push imm32, 5 bytes
  if (stub.starts_with(kEndbr64)) {
    if (stub.substr(4).starts_with(kPush)) return {.stack_offset = in_stub >= 9 ? uint64_t{8} : 0};
    return {};
  }
  if (stub.starts_with("\xff\x25"sv) && stub.substr(6).starts_with(kPush)) {
    return {.stack_offset = in_stub >= 11 ? uint64_t{8} : 0};
  }
  return {};
}

std::optional<LeafReturn> FunctionEdgeAmd64(const UnwindObject& object, FileVaddr pc) {
  const std::string_view code = AsText(object.ReadOnlyBytes(pc, 8));
  const std::string_view after_endbr = code.starts_with(kEndbr64) ? code.substr(4) : code;
  if (after_endbr.starts_with("\x55\x48\x89\xe5"sv))
    return LeafReturn{};                                // push %rbp; mov %rsp,%rbp
  if (code.starts_with(kEndbr64)) return LeafReturn{};  // a function's first instruction
  if (code.starts_with("\x48\x89\xe5"sv)) return LeafReturn{.stack_offset = 8};  // mov %rsp,%rbp
  if (code.starts_with("\xc3"sv) || code.starts_with("\xf3\xc3"sv)) return LeafReturn{};  // ret
  return std::nullopt;
}

}  // namespace

std::optional<LeafReturn> FindLeafReturn(const UnwindObject& object, Arch arch, FileVaddr pc) {
  for (const ElfSection& section : object.file().sections()) {
    if (!IsPltSection(section) || pc < section.vaddr || pc - section.vaddr >= section.size_bytes) {
      continue;
    }
    if (arch == Arch::kX86_64) return PltReturnAmd64(object, section, pc);
    if (arch == Arch::kArm64) return LeafReturn{.in_link_register = true};
  }
  if (arch == Arch::kX86_64) return FunctionEdgeAmd64(object, pc);
  return std::nullopt;
}

bool IsSignalTrampoline(const UnwindObject& object, Arch arch, FileVaddr pc) {
  // The number of rt_sigreturn goes to its register, then the system call.
  std::string_view pattern;
  if (arch == Arch::kX86_64) {
    pattern = "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"sv;
  } else if (arch == Arch::kArm64) {
    pattern = "\x68\x11\x80\xd2\x01\x00\x00\xd4"sv;
  } else {
    return false;
  }
  return AsText(object.ReadOnlyBytes(pc, pattern.size())) == pattern;
}

bool IsEntryCode(const UnwindObject& object, FileVaddr pc) {
  const FileVaddr entry = object.file().entry();
  return entry.value != 0 && pc >= entry && pc - entry < kEntryCodeBytesMax;
}

}  // namespace ptarmigan::internal
