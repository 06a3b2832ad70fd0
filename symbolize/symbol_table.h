// SymbolTable: the symbols of one object by address, read from a `.sym` file (docs/formats/sym.md)
// that is mapped, not loaded: pages are unpacked when an address in them is asked for the first
// time and stay unpacked until DropPages.
//
// Hostile input: Open checks the header and the directory (checksummed) and refuses what is damaged
// with kInvalidInput, other versions with kUnsupported; in both cases build the table again. A page
// that is damaged behaves as if it said nothing, and damaged() turns true. Nothing is allocated by
// a number from the file without a bound.
//
// Any number of threads may look up at the same time; in one table they do it one after another.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
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
#include "symbolize/frame_numbers.h"
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
  // The same number for the same function within one table; kNoFunction: none.
  uint32_t function_id = 0;
  static constexpr uint32_t kNoFunction = FrameNumbers::kNoFunction;
};

// What DWARF says of a function that stands in the object or was inlined.
struct DebugFunction {
  std::string name;         // linkage name, else plain name; empty: DWARF does not know it
  uint32_t start_line = 0;  // of the declaration
};

class SymbolTable final : public FrameNames {
 public:
  // Enough for every chain in a table.
  static constexpr size_t kFramesMax = SymbolRows::kInlineDepthMax + 1;

  static Result<std::unique_ptr<SymbolTable>> Open(const std::string& path);
  static Result<std::unique_ptr<SymbolTable>> FromFd(int fd, const std::string& name);
  // `bytes` must outlive the table.
  static Result<std::unique_ptr<SymbolTable>> FromBytes(Bytes bytes, const std::string& name);
  static Result<std::unique_ptr<SymbolTable>> FromString(std::string bytes,
                                                         const std::string& name);
  ~SymbolTable() override;
  SymbolTable(const SymbolTable&) = delete;
  SymbolTable& operator=(const SymbolTable&) = delete;

  // Appends the frames at an address, innermost first; false where nothing is known. For the address of a caller pass
  // the return address minus one.
  bool FindNumbers(FileVaddr address, std::vector<FrameNumbers>* frames) const;
  void Describe(const FrameNumbers& numbers, SourceFrame* frame) const override;
  // The same with copied texts; no frames where nothing is known.
  bool Find(FileVaddr address, InlineStack* frames) const;
  // The same with borrowed texts, which live until DropPages; returns how many frames there are. Allocates only when a
  // page is unpacked. If the chain is longer than `frames`, the innermost ones and, last, the outermost one are given.
  size_t FindFrames(FileVaddr address, std::span<FrameRef> frames) const;
  // The contiguous code of the outermost function at the address.
  std::optional<CodeRange> FindFunction(FileVaddr address) const;
  // The first address behind this one at which other frames may be found; UINT64_MAX if there is none.
  FileVaddr NextChange(FileVaddr address) const;
  // Calls visit for each contiguous piece of code of each outermost function, by page and in no order within one;
  // `function` is the number that FrameNumbers have.
  void ForEachFunction(const std::function<void(CodeRange, uint32_t function)>& visit) const;
  void DescribeFunction(uint32_t function, DebugFunction* described) const;

  // Memory for unpacked pages, and freeing it: they are unpacked again when they are asked for again.
  size_t unpacked_bytes() const { return unpacked_bytes_.load(std::memory_order_relaxed); }
  void DropPages() const;

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
  // All of these with mutex_ held.
  const CodePage* GetCodePage(size_t index, bool with_pieces) const;
  const FunctionPage* GetFunctionPage(size_t index) const;
  const StringPage* GetStringPage(size_t index) const;
  struct Function;
  Function FunctionOf(uint32_t number) const;
  std::string_view Text(uint32_t number) const;
  // Of an outermost node; empty if not known.
  CodeRange PieceRange(const CodePage& page, size_t page_index, uint32_t node) const;
  // Calls visit(numbers) for each frame, innermost first.
  template <typename Visit>
  void Walk(FileVaddr address, Visit visit) const;

  MappedFile mapped_;
  std::string owned_;
  Bytes bytes_;
  std::unique_ptr<Directory> directory_;
  mutable std::mutex mutex_;  // for the unpacked pages in directory_
  mutable std::atomic<size_t> unpacked_bytes_ = 0;
  std::vector<std::string> notes_;
  std::string identity_;
  mutable std::atomic<bool> damaged_ = false;
};

}  // namespace ptarmigan
