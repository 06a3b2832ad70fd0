// The architectures whose recordings we can read; only some can be unwound.
#pragma once

#include <cstdint>
#include <string_view>

namespace ptarmigan {

enum class Arch : uint8_t { kUnknown, kX86_64, kX86, kArm64, kArm, kRiscv64, kPpc64, kS390, kMips };

// The architecture this program was built for.
constexpr Arch NativeArch() {
#if defined(__x86_64__)
  return Arch::kX86_64;
#elif defined(__aarch64__)
  return Arch::kArm64;
#else
  return Arch::kUnknown;
#endif
}

// From `uname -m` as perf's HEADER_ARCH holds it ("x86_64", "aarch64", "armv7l", "i686", ...).
constexpr Arch ArchFromUname(std::string_view machine) {
  if (machine == "x86_64" || machine == "amd64") return Arch::kX86_64;
  if (machine.size() == 4 && machine[0] == 'i' && machine.substr(2) == "86") return Arch::kX86;
  if (machine == "x86") return Arch::kX86;
  if (machine.starts_with("aarch64") || machine == "arm64") return Arch::kArm64;
  if (machine.starts_with("arm")) return Arch::kArm;
  if (machine == "riscv64") return Arch::kRiscv64;
  if (machine.starts_with("ppc64")) return Arch::kPpc64;
  if (machine.starts_with("s390")) return Arch::kS390;
  if (machine.starts_with("mips")) return Arch::kMips;
  return Arch::kUnknown;
}

// From an ELF header's e_machine.
constexpr Arch ArchFromElfMachine(uint16_t machine) {
  switch (machine) {
    case 3:
      return Arch::kX86;  // EM_386
    case 8:
      return Arch::kMips;  // EM_MIPS
    case 21:
      return Arch::kPpc64;  // EM_PPC64
    case 22:
      return Arch::kS390;  // EM_S390
    case 40:
      return Arch::kArm;  // EM_ARM
    case 62:
      return Arch::kX86_64;  // EM_X86_64
    case 183:
      return Arch::kArm64;  // EM_AARCH64
    case 243:
      return Arch::kRiscv64;  // EM_RISCV
    default:
      return Arch::kUnknown;
  }
}

}  // namespace ptarmigan
