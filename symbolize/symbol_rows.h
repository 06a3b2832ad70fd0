// SymbolRows: what every collector (DWARF, .symtab, .dynsym, PLT, Go's pclntab, unwind entries)
// says about one object, in one neutral shape, before SymbolTableWriter flattens it into a `.sym`
// table.
//
//   scope    a function that stands in the object, or one inlined copy inside another scope; it has
//   address ranges line     a row of a line program: from its address to the next row, the code
//   belongs to file:line
//
// Who wins where several say something about one address:
//   * frames: the scope of the best source (SymbolSource order); within a source the scope added
//   last, so that a
//     collector adds parents before children. The frames of an address are that scope and its
//     parents.
//   * name of the outermost frame: if a .symtab symbol (or, without any of those, a .dynsym symbol)
//   is the nearest
//     one at or before the address and covers it, its name replaces the one that DWARF gives, so
//     that "f.cold" and "f.isra.0" are told from "f". Of several symbols at one address the largest
//     wins, then the one added last: add symbols in the order of the table. Symbols without a size
//     reach to the next symbol of the table.
//   * lines: the best source that has a row covering the address; within a source the sequence
//   added last.
// Ranges that do not lie in a code range (SetCodeRanges) are dropped: linkers leave removed
// functions at 0 or -1.
//
// Bounded: what does not fit below the constants is dropped and counted. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/address.h"

namespace ptarmigan {

// From worst to best.
enum class SymbolSource : uint8_t {
  kUnwindEntry,  // a start of an FDE: "object+0x…"
  kPlt,          // "f@plt"
  kDynsym,
  kSymtab,   // also that of .gnu_debugdata
  kGoTable,  // .gopclntab
  kDwarf,
};

struct CodeRange {
  FileVaddr start = {};
  FileVaddr end = {};  // one past the last byte
  bool operator==(const CodeRange&) const = default;
};

// A function as its declaration describes it. `system_name` is the linked (mangled) name, and
// `name` the readable one: leave it empty where the writer shall demangle `system_name`. All are
// copied. A symbol may rename a function of DWARF ("f" to "f.cold"): what DWARF said is kept beside it.
struct FunctionNames {
  std::string_view system_name = {};
  std::string_view name = {};
  // Of the declaration; for a local .symtab symbol its STT_FILE; may be empty.
  std::string_view file = {};
  uint32_t start_line = 0;  // of the declaration; 0 unknown
};

// A function that stands in the object.
struct FunctionRow {
  FileVaddr start = {};
  uint64_t size_bytes = 0;  // 0: unknown, up to the next function of the same source
  FunctionNames names = {};
  SymbolSource source = SymbolSource::kSymtab;
};

// Where an inlined copy was called, in terms of its parent scope.
struct CallSite {
  std::string_view file = {};
  uint32_t line = 0;
  uint32_t column = 0;
  uint32_t discriminator = 0;
};

class SymbolRows {
 public:
  using StringId = uint32_t;  // 0 is the empty string
  using FunctionId = uint32_t;
  using ScopeId = uint32_t;
  static constexpr uint32_t kNone = UINT32_MAX;

  static constexpr size_t kStringBytesMax = size_t{1} << 16;   // one string; longer ones are cut
  static constexpr size_t kStringsBytesMax = size_t{1} << 30;  // all of them
  static constexpr size_t kFunctionsMax = size_t{1} << 24;
  static constexpr size_t kScopesMax = size_t{1} << 26;
  static constexpr size_t kRangesMax = size_t{1} << 27;
  static constexpr size_t kLinesMax = size_t{1} << 27;
  static constexpr unsigned kInlineDepthMax = 255;

  struct LineRow {
    FileVaddr start = {};
    StringId file = 0;
    uint32_t line = 0;  // 0: compiler-made code that belongs to no line
    uint32_t column = 0;
    uint32_t discriminator = 0;
  };

  SymbolRows();
  ~SymbolRows();
  SymbolRows(SymbolRows&&) noexcept;
  SymbolRows& operator=(SymbolRows&&) noexcept;

  // The executable sections of the object. Not called, or empty: every address is accepted.
  void SetCodeRanges(std::vector<CodeRange> ranges);

  // Room for that many, so that growing does not copy; only a hint.
  struct Expected {
    size_t scopes = 0;
    size_t ranges = 0;
    size_t lines = 0;
  };
  void Reserve(const Expected& expected);

  // --- the usual way ---
  // A root scope with its range. kNone if it was dropped.
  ScopeId AddFunction(const FunctionRow& row);
  // An inlined copy of a function within `parent`; without ranges it is only a link to its own
  // children. `parent` kNone (because it was dropped) gives kNone.
  ScopeId AddInline(ScopeId parent, const FunctionNames& names, const CallSite& call,
                    std::span<const CodeRange> ranges);
  // One more range of a scope (a cold part, a part of an inlined copy).
  void AddRange(ScopeId scope, CodeRange range);
  // One sequence of rows, in rising order of address (it is sorted otherwise; of rows at one
  // address the last holds); the last row reaches to `end`.
  void AddLines(SymbolSource source, std::span<const LineRow> rows, FileVaddr end);

  // --- for collectors that name the same things many times ---
  // The same text gives the same id.
  StringId Intern(std::string_view text);
  struct FunctionIds {
    StringId system_name = 0;
    StringId name = 0;
    StringId file = 0;
    uint32_t start_line = 0;
    StringId debug_name = 0;  // what DWARF calls it (linkage name, else name); 0: not from DWARF
    bool operator==(const FunctionIds&) const = default;
  };
  FunctionId DefineFunction(const FunctionIds& ids);
  // A root scope without ranges yet.
  ScopeId AddRootScope(SymbolSource source, FunctionId function);
  struct CallSiteIds {
    StringId file = 0;
    uint32_t line = 0;
    uint32_t column = 0;
    uint32_t discriminator = 0;
    bool operator==(const CallSiteIds&) const = default;
  };
  ScopeId AddInlineScope(ScopeId parent, FunctionId function, const CallSiteIds& call);

  // One sentence about where these rows came from, or why something is missing ("DWARF: none in the
  // file"); they are kept in the table in this order. At most kNotesMax.
  static constexpr size_t kNotesMax = 32;
  void AddNote(std::string_view note);

  // --- what was collected ---
  struct Scope {
    FunctionId function = 0;
    ScopeId parent = kNone;
    CallSiteIds call = {};
    SymbolSource source = SymbolSource::kDwarf;
    uint8_t depth = 0;
  };
  struct ScopeRange {
    CodeRange range = {};  // end == start: size unknown
    ScopeId scope = 0;
  };
  struct LineSequence {
    size_t first = 0;  // in lines()
    size_t count = 0;
    FileVaddr end = {};
    SymbolSource source = SymbolSource::kDwarf;
  };
  std::string_view Text(StringId id) const;
  size_t string_count() const;
  const std::vector<FunctionIds>& functions() const { return functions_; }
  const std::vector<Scope>& scopes() const { return scopes_; }
  const std::vector<ScopeRange>& ranges() const { return ranges_; }  // in the order they were added
  const std::vector<LineRow>& lines() const { return lines_; }
  const std::vector<LineSequence>& sequences() const { return sequences_; }
  const std::vector<CodeRange>& code_ranges() const { return code_ranges_; }  // sorted, disjoint
  const std::vector<std::string>& notes() const { return notes_; }
  // Things dropped because a bound was reached / because they lay outside the code ranges.
  uint64_t dropped_by_limit() const { return dropped_by_limit_; }
  uint64_t dropped_outside_code() const { return dropped_outside_code_; }

 private:
  class Interner;
  bool IsCode(FileVaddr address) const;
  FunctionIds IdsOf(const FunctionNames& names, SymbolSource source);

  std::unique_ptr<Interner> interner_;
  std::vector<FunctionIds> functions_;
  std::vector<Scope> scopes_;
  std::vector<ScopeRange> ranges_;
  std::vector<LineRow> lines_;
  std::vector<LineSequence> sequences_;
  std::vector<CodeRange> code_ranges_;
  std::vector<std::string> notes_;
  uint64_t dropped_by_limit_ = 0;
  uint64_t dropped_outside_code_ = 0;
};

}  // namespace ptarmigan
