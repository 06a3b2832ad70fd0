#include "symbolize/demangle.h"

#include <libiberty/demangle.h>

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace ptarmigan {
namespace {

// libiberty refuses names that may need more components than this unless told that depth does not
// matter; they are then bounded by kMangledBytesMax alone.
constexpr size_t kAlwaysShallowBytes = DEMANGLE_RECURSION_LIMIT / 2;
// Back references of D may expand without bound and its demangler cannot be stopped: names above
// this much estimated work are left alone.
constexpr uint64_t kDlangWorkMax = uint64_t{1} << 20;

// Where libiberty puts the text. Its callbacks cannot say "stop", so the sink leaves by longjmp
// once it is full: libiberty's C++ demangler holds only stack memory, and its Rust demangler holds
// heap memory only while it hands over a decoded punycode identifier, which is never pure ASCII;
// there the sink just drops the text.
struct Sink {
  std::string* out = nullptr;
  bool full = false;
  std::jmp_buf leave;
};

bool IsAscii(const char* text, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0x80) != 0) return false;
  }
  return true;
}

// No object with a destructor may live in this function: it leaves by longjmp.
void Append(const char* text, size_t size, void* opaque) {
  Sink* const sink = static_cast<Sink*>(opaque);
  if (!sink->full) {
    const size_t room = kDemangledBytesMax - sink->out->size();
    sink->out->append(text, std::min(size, room));
    if (size <= room) return;
    sink->full = true;
  }
  if (IsAscii(text, size)) std::longjmp(sink->leave, 1);  // NOLINT(cert-err52-cpp)
}

using CallbackDemangler = int (*)(const char*, int, demangle_callbackref, void*);

// False if `mangled` is not of this scheme; `out` is then unspecified.
bool RunBounded(CallbackDemangler demangler, const char* mangled, int options, std::string* out) {
  Sink sink;
  sink.out = out;
  out->clear();
  out->reserve(256);  // so that most names do not grow step by step
  int result = 0;
  if (setjmp(sink.leave) == 0) {  // NOLINT(cert-err52-cpp)
    result = demangler(mangled, options, &Append, &sink);
  }
  if (sink.full) {
    out->append("...");
    return true;
  }
  return result != 0 && !out->empty();
}

// An upper estimate of how many bytes a D name expands to: one per byte, and for each type back
// reference ("Q" and a number in base 26) what lies between its target and itself. D ABI, "Back
// references": https://dlang.org/spec/abi.html#back_ref
bool DlangWorkIsBounded(std::string_view name) {
  uint64_t cost[kMangledBytesMax + 1];
  cost[0] = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    uint64_t step = 1;
    if (name[i] == 'Q') {
      size_t distance = 0;
      size_t at = i + 1;
      while (at < name.size() && name[at] >= 'A' && name[at] <= 'Z' && distance <= i) {
        distance = distance * 26 + static_cast<size_t>(name[at] - 'A');
        ++at;
      }
      if (at < name.size() && name[at] >= 'a' && name[at] <= 'z') {
        distance = distance * 26 + static_cast<size_t>(name[at] - 'a');
        const bool inside = distance > 0 && distance <= i;
        const bool identifier = inside && name[i - distance] >= '0' && name[i - distance] <= '9';
        if (inside && !identifier) step += cost[i] - cost[i - distance];
        if (identifier) step += std::min<uint64_t>(distance, 256);
      }
    }
    cost[i + 1] = cost[i] + step;
    if (cost[i + 1] > kDlangWorkMax) return false;
  }
  return true;
}

bool DemangleDlang(std::string_view name, const char* mangled, std::string* out) {
  if (!DlangWorkIsBounded(name)) return false;
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  const std::unique_ptr<char, Free> text(dlang_demangle(mangled, DMGL_NO_OPTS));
  if (text == nullptr || *text == '\0') return false;
  out->assign(text.get());
  if (out->size() > kDemangledBytesMax) {
    out->resize(kDemangledBytesMax);
    out->append("...");
  }
  return true;
}

// "….llvm.1234": what LLVM appends to promoted local symbols. The Rust demangler does not expect
// it.
std::string_view WithoutLlvmSuffix(std::string_view name) {
  const size_t at = name.rfind(".llvm.");
  if (at == std::string_view::npos || at == 0) return name;
  const std::string_view digits = name.substr(at + 6);
  const bool hex = digits.find_first_not_of("0123456789ABCDEFabcdef@") == std::string_view::npos;
  return hex ? name.substr(0, at) : name;
}

bool IsRustLegacy(std::string_view name) {
  constexpr size_t kHashBytes = 20;  // "17h" + 16 digits + "E"
  return name.size() > kHashBytes && name.back() == 'E' &&
         name.substr(name.size() - kHashBytes, 3) == "17h";
}

}  // namespace

bool LooksMangled(std::string_view name) {
  if (name.size() < 3 || name[0] != '_') return false;
  switch (name[1]) {
    case 'Z':
    case 'R':
      return true;
    case 'D':
      return name == "_Dmain" || (name[2] >= '0' && name[2] <= '9');
    case '_':
      return name[2] == 'Z' || name[2] == 'R';  // Mach-O's extra underscore
    case 'G':
      return name.starts_with("_GLOBAL_");
    default:
      return false;
  }
}

std::string Demangle(std::string_view system_name) {
  if (!LooksMangled(system_name) || system_name.size() > kMangledBytesMax)
    return std::string(system_name);
  std::string_view name = system_name;
  if (name[1] == '_') name.remove_prefix(1);

  std::string out;
  const std::string_view plain = WithoutLlvmSuffix(name);
  if (name[1] == 'R' || (name[1] == 'Z' && IsRustLegacy(plain))) {
    if (RunBounded(&rust_demangle_callback, std::string(plain).c_str(), DMGL_NO_OPTS, &out))
      return out;
  }
  const std::string mangled(name);
  if (name[1] == 'D' && DemangleDlang(name, mangled.c_str(), &out)) return out;
  if (name[1] == 'Z' || name[1] == 'G') {
    int options = DMGL_PARAMS | DMGL_ANSI;
    if (mangled.size() >= kAlwaysShallowBytes) options |= DMGL_NO_RECURSE_LIMIT;
    if (RunBounded(&cplus_demangle_v3_callback, mangled.c_str(), options, &out)) return out;
  }
  return std::string(system_name);
}

}  // namespace ptarmigan
