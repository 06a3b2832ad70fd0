// CodeLines of one object, from its symbol table and the symbols of its files.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "elf/elf_file.h"
#include "model/code_lines.h"
#include "symbolize/frame_numbers.h"
#include "symbolize/symbol_table.h"

namespace ptarmigan::internal {

class ObjectLines final : public CodeLines {
 public:
  // `table` is not null; either file may be, and then there are no linked symbols.
  ObjectLines(std::shared_ptr<const SymbolTable> table, std::shared_ptr<const ElfFile> object,
              std::shared_ptr<const ElfFile> debug)
      : table_(std::move(table)), object_(std::move(object)), debug_(std::move(debug)) {}

  void FramesAt(FileVaddr address, std::vector<CodeFrame>* frames, FileVaddr* end) override;
  FunctionFacts Function(uint32_t function) override;
  std::span<const FunctionPiece> Functions() override;
  std::span<const LinkedSymbol> Symbols() override;
  bool HasFlowSensitiveDiscriminators() override;

 private:
  void ReadSymbols();
  void ReadSymbols(const ElfFile& file);

  const std::shared_ptr<const SymbolTable> table_;
  const std::shared_ptr<const ElfFile> object_;
  const std::shared_ptr<const ElfFile> debug_;
  std::vector<FrameNumbers> numbers_;
  std::unordered_map<uint32_t, DebugFunction> functions_;  // named so far
  std::vector<FunctionPiece> pieces_;
  std::vector<LinkedSymbol> symbols_;
  bool pieces_read_ = false;
  bool symbols_read_ = false;
  bool has_flow_sensitive_discriminators_ = false;
};

}  // namespace ptarmigan::internal
