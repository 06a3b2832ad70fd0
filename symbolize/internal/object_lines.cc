#include "symbolize/internal/object_lines.h"

#include <elf.h>

#include <algorithm>
#include <string_view>
#include <tuple>

namespace ptarmigan::internal {
namespace {

// LLVM's backend puts this symbol into objects that were compiled with -enable-fs-discriminator.
constexpr std::string_view kFlowSensitiveMark = "__llvm_fs_discriminator__";

}  // namespace

void ObjectLines::FramesAt(FileVaddr address, std::vector<CodeFrame>* frames, FileVaddr* end) {
  numbers_.clear();
  frames->clear();
  table_->FindNumbers(address, &numbers_);
  if (end != nullptr) *end = table_->NextChange(address);
  for (const FrameNumbers& numbers : numbers_) {
    const bool is_known =
        numbers.function != FrameNumbers::kNoFunction && !Function(numbers.function).name.empty();
    frames->push_back({.function = is_known ? numbers.function : CodeFrame::kNoFunction,
                       .line = numbers.line,
                       .discriminator = numbers.discriminator});
  }
}

CodeLines::FunctionFacts ObjectLines::Function(uint32_t function) {
  const auto [entry, is_new] = functions_.try_emplace(function);
  if (is_new) table_->DescribeFunction(function, &entry->second);
  return {.name = entry->second.name, .start_line = entry->second.start_line};
}

std::span<const CodeLines::FunctionPiece> ObjectLines::Functions() {
  if (!pieces_read_) {
    pieces_read_ = true;
    table_->ForEachFunction([this](CodeRange range, uint32_t function) {
      if (Function(function).name.empty()) return;
      pieces_.push_back({.start = range.start, .end = range.end, .function = function});
    });
    std::ranges::sort(pieces_, {}, [](const FunctionPiece& piece) {
      return std::tuple(piece.start, piece.end, piece.function);
    });
  }
  return pieces_;
}

std::span<const LinkedSymbol> ObjectLines::Symbols() {
  ReadSymbols();
  return symbols_;
}

bool ObjectLines::HasFlowSensitiveDiscriminators() {
  ReadSymbols();
  return has_flow_sensitive_discriminators_;
}

void ObjectLines::ReadSymbols() {
  if (symbols_read_) return;
  symbols_read_ = true;
  if (object_ != nullptr) ReadSymbols(*object_);
  // A stripped object's symbols are in its debug file.
  if (symbols_.empty() && debug_ != nullptr) ReadSymbols(*debug_);
  std::ranges::stable_sort(symbols_, {}, &LinkedSymbol::start);
}

void ObjectLines::ReadSymbols(const ElfFile& file) {
  std::string_view source_file;
  const std::vector<ElfSection>& sections = file.sections();
  file.ForEachSymbol(".symtab", [&](const ElfSymbol& symbol) {
    if (symbol.name == kFlowSensitiveMark) has_flow_sensitive_discriminators_ = true;
    if (symbol.type == STT_FILE) source_file = symbol.name;
    const bool is_code_type =
        symbol.type == STT_NOTYPE || symbol.type == STT_FUNC || symbol.type == STT_GNU_IFUNC;
    if (!is_code_type || symbol.name.empty() || symbol.section == SHN_UNDEF ||
        symbol.section >= sections.size() ||
        (sections[symbol.section].flags & SHF_EXECINSTR) == 0) {
      return;
    }
    const bool is_local = symbol.binding == STB_LOCAL;
    symbols_.push_back({.name = symbol.name,
                        .file = is_local ? source_file : std::string_view(),
                        .start = symbol.value,
                        .size_bytes = symbol.size_bytes,
                        .is_local = is_local});
  });
}

}  // namespace ptarmigan::internal
