// The symbol worker: a confined child process that reads an object's debug information and writes
// its `.sym` table. libdw and demanglers are given hostile files there, and may crash, loop or
// exhaust memory without harm:
//
//   parent                                   child (exec of this very program)
//   BuildSymbolTable(job, output_fd) ------> RunSymbolWorkerIfAsked: drops capabilities,
//   no_new_privs, rlimits,
//     waits, at most job.timeout             seccomp allow-list; CollectDwarf, CollectElfSymbols,
//     WriteSymbolTable
//   <-- exit status, stderr as the reason
//
// The child gets the files as descriptors, an empty environment and opens nothing itself, except
// files for reading where split DWARF asks for its .dwo files.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ptarmigan {

// Call first in main of every program that symbolizes. True: this process was a worker, return
// *exit_code from main. (A BuildSymbolTable in a program whose main did not call this fails with
// kInternal instead of running main again.)
bool RunSymbolWorkerIfAsked(int argc, char** argv, int* exit_code);

struct SymbolWorkerJob {
  // Descriptors open for reading, borrowed. At least one of object and debug.
  int object_fd = -1;  // the object that runs: .symtab, .dynsym, PLT, pclntab, unwind entries
  int debug_fd = -1;   // a separate file with DWARF and .symtab
  int alt_fd = -1;     // the dwz file of `debug` (or of `object` if there is no debug file)
  // For notes and messages.
  std::string object_name;
  std::string debug_name;
  std::string alt_name;
  bool dwarf = true;     // false: symbols only
  bool demangle = true;  // false: readable names stay as linked
  std::string identity;  // kept in the table (SymbolTable::identity)
  std::string note;      // kept in the table before other notes; empty: none
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  uint64_t memory_bytes_max = uint64_t{8} << 30;  // address space of the child
  uint64_t table_bytes_max = uint64_t{1} << 31;
};

// Why a table could not be built, to count and to remember with the build id.
enum class SymbolWorkerFailure : uint8_t {
  kNone,
  kStart,    // the child could not be started
  kRefused,  // it ran and said why not: no ELF file, no symbols at all
  kCrashed,  // killed by a signal, also by the seccomp filter
  kTimedOut,
  kTooLarge,  // memory or table bound
};
std::string_view SymbolWorkerFailureName(SymbolWorkerFailure failure);

// Writes the table to `output_fd` (a regular file or memfd, empty, open for writing). Blocks; any
// thread of any program (posix_spawn, no fork handlers). If the child crashes or runs out of time
// on DWARF, a second child makes the table without DWARF, and a note in the table says so. On error
// what `output_fd` holds is useless; `failure` (may be null) tells the kind and the message the
// rest. `failure` may be set beside success: then it is why DWARF is missing.
Status BuildSymbolTable(const SymbolWorkerJob& job, int output_fd,
                        SymbolWorkerFailure* failure = nullptr);

// The same work in this process, unconfined: for trusted files in tests and benchmarks.
Result<std::string> BuildSymbolTableHere(const SymbolWorkerJob& job);

}  // namespace ptarmigan
