// LiveProcess: this process as a ModuleFinder, and snapshots of the calling thread as a sample would hold them.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "base/file.h"
#include "model/event.h"
#include "tests/support/fake_process.h"

namespace ptarmigan {

struct ThreadSnapshot {
  RegisterSet registers;
  std::string stack;
};

// From a context that getcontext or a signal handler gives: its registers in perf's numbering and a copy of its stack.
// Call it while the frames of the context are still there.
inline ThreadSnapshot TakeSnapshot(const ucontext_t& context, size_t stack_bytes_max) {
  ThreadSnapshot snapshot;
  snapshot.registers.abi = RegisterSet::Abi::k64;
  const auto put = [&](unsigned number, uint64_t value) {
    snapshot.registers.values[number] = value;
    snapshot.registers.mask |= uint64_t{1} << number;
  };
  uint64_t stack_pointer = 0;
#if defined(__x86_64__)
  const auto& registers = context.uc_mcontext.gregs;
  constexpr int kOrder[] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI,
                            REG_RDI, REG_RBP, REG_RSP, REG_RIP};
  for (unsigned i = 0; i < 9; ++i) put(i, static_cast<uint64_t>(registers[kOrder[i]]));
  for (unsigned i = 0; i < 8; ++i)
    put(16 + i, static_cast<uint64_t>(registers[REG_R8 + static_cast<int>(i)]));
  stack_pointer = static_cast<uint64_t>(registers[REG_RSP]);
#elif defined(__aarch64__)
  for (unsigned i = 0; i < 31; ++i) put(i, context.uc_mcontext.regs[i]);
  put(31, context.uc_mcontext.sp);
  put(32, context.uc_mcontext.pc);
  stack_pointer = context.uc_mcontext.sp;
#endif
  // Not beyond the stack's mapping.
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    uint64_t start = 0;
    uint64_t end = 0;
    char dash = 0;
    std::istringstream fields(line);
    fields >> std::hex >> start >> dash >> end;
    if (stack_pointer < start || stack_pointer >= end) continue;
    snapshot.stack.resize(std::min<uint64_t>(end - stack_pointer, stack_bytes_max));
    std::memcpy(snapshot.stack.data(), reinterpret_cast<const void*>(stack_pointer),
                snapshot.stack.size());
  }
  return snapshot;
}

class LiveProcess : public FakeProcess {
 public:
  LiveProcess() {
    std::map<std::string, Object*> objects;
    std::ifstream maps("/proc/self/maps");
    std::string line;
    while (std::getline(maps, line)) {
      uint64_t start = 0;
      uint64_t end = 0;
      uint64_t offset = 0;
      char dash = 0;
      std::string permissions;
      std::string device;
      std::string inode;
      std::string path;
      std::istringstream fields(line);
      fields >> std::hex >> start >> dash >> end >> permissions >> offset >> device >> inode >>
          path;
      if (permissions.find('x') == std::string::npos) continue;
      Mapping mapping{
          .start = {start}, .end = {end}, .offset = {offset}, .is_vdso = path == "[vdso]"};
      if (mapping.is_vdso) {
        mapping.object =
            AddObject(path, std::string(reinterpret_cast<const char*>(start), end - start));
      } else if (path.starts_with("/")) {
        if (!objects.contains(path)) {
          auto bytes = ReadFile(path, uint64_t{1} << 30);
          objects[path] = bytes ? AddObject(path, std::move(bytes).value()) : nullptr;
        }
        mapping.object = objects[path];
      }
      Map(mapping);
    }
  }
};

}  // namespace ptarmigan
