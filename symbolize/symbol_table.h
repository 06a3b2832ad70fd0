// SymbolTable: the symbols of one object by address, read from a `.sym` file (docs/formats/sym.md)
// that is mapped, not loaded: pages are unpacked when an address in them is asked for the first
// time and stay unpacked until the table is destroyed.
//
// Hostile input: Open checks the header and the directory (checksummed) and refuses what is damaged
// with kInvalidInput, other versions with kUnsupported; in both cases build the table again. A page
// that is damaged behaves as if it said nothing, and damaged() turns true. Nothing is allocated by
// a number from the file without a bound.
//
// Any number of threads may look up at the same time. Texts in answers live as long as the table.
#pragma once

#include <atomic>
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
#include "model/symbol.h"
#include "symbolize/symbol_rows.h"

namespace ptarmigan {

// One source-level frame, borrowed from the table. Empty or 0 where not known.
struct FrameRef {
  std::string_view function;     // readable; the system name where it has no other
  std::string_view system_name;  // as linked
  std::string_view file;
  uint32_t line = 0;
  uint32_t column = 0;
  uint32_t discriminator = 0;
  uint32_t start_line = 0;  // of the function's declaration
  uint32_t function_id =
      0;  // the same number for the same function within one table; kNoFunction: none
  static constexpr uint32_t kNoFunction = UINT32_MAX;
};

class SymbolTable {
 public:
  // Enough for every chain in a table.
  static constexpr size_t kFramesMax = SymbolRows::kInlineDepthMax + 1;

  static Result<std::unique_ptr<SymbolTable>> Open(const std::string& path);
  static Result<std::unique_ptr<SymbolTable>> FromFd(int fd, const std::string& name);
  // `bytes` must outlive the table.
  static Result<std::unique_ptr<SymbolTable>> FromBytes(Bytes bytes, const std::string& name);
  static Result<std::unique_ptr<SymbolTable>> FromString(std::string bytes,
                                                         const std::string& name);
  ~SymbolTable();
  SymbolTable(const SymbolTable&) = delete;
  SymbolTable& operator=(const SymbolTable&) = delete;

  // The frames at an address, innermost first; 0 where nothing is known. Allocates only when a page
  // is unpacked. If the chain is longer than `frames`, the innermost ones and, last, the outermost
  // one are given. For the address of a caller pass the return address minus one.
  size_t FindFrames(FileVaddr address, std::span<FrameRef> frames) const;
  // The same with copies; false (and no frames) where nothing is known.
  bool Find(FileVaddr address, InlineStack* frames) const;
  // The contiguous code of the outermost function at the address.
  std::optional<CodeRange> FindFunction(FileVaddr address) const;

  bool has_functions() const;
  bool has_files() const;
  bool has_lines() const;
  bool has_inlines() const;
  // From the collectors: where the rows came from and what was missing, in order.
  const std::vector<std::string>& notes() const { return notes_; }
  // What the builder was told to remember (see SymbolTableIdentity), to tell whether the table is
  // still the right one.
  const std::string& identity() const { return identity_; }
  uint64_t function_count() const;
  uint64_t size_bytes() const { return bytes_.size(); }
  // A page did not unpack: build the table again.
  bool damaged() const { return damaged_.load(std::memory_order_relaxed); }

 private:
  struct Directory;
  struct CodePage;
  struct FunctionPage;
  struct StringPage;
  SymbolTable();
  Status Parse(const std::string& name);
  const CodePage* GetCodePage(size_t index) const;
  const FunctionPage* GetFunctionPage(size_t index) const;
  const StringPage* GetStringPage(size_t index) const;
  std::string_view Text(uint32_t id) const;

  MappedFile mapped_;
  std::string owned_;
  Bytes bytes_;
  std::unique_ptr<Directory> directory_;
  std::vector<std::string> notes_;
  std::string identity_;
  mutable std::atomic<bool> damaged_ = false;
};

}  // namespace ptarmigan
