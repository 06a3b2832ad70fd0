// CodeLines written down by hand.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/code_lines.h"

namespace ptarmigan {

class FakeCodeLines : public CodeLines {
 public:
  struct Row {
    uint64_t start = 0;  // up to the next row
    std::vector<CodeFrame> frames;
  };

  uint32_t AddFunction(std::string name, uint32_t start_line) {
    functions.emplace_back(std::move(name), start_line);
    return static_cast<uint32_t>(functions.size() - 1);
  }

  void FramesAt(FileVaddr address, std::vector<CodeFrame>* frames, FileVaddr* end) override {
    frames->clear();
    if (end != nullptr) *end = {UINT64_MAX};
    for (const Row& row : rows) {
      if (row.start > address.value) {
        if (end != nullptr) *end = {row.start};
        return;
      }
      *frames = row.frames;
    }
  }
  FunctionFacts Function(uint32_t function) override {
    return {.name = functions[function].first, .start_line = functions[function].second};
  }
  std::span<const FunctionPiece> Functions() override { return pieces; }
  std::span<const LinkedSymbol> Symbols() override { return symbols; }
  bool HasFlowSensitiveDiscriminators() override { return flow_sensitive; }

  std::vector<std::pair<std::string, uint32_t>> functions;
  std::vector<Row> rows;              // by address
  std::vector<FunctionPiece> pieces;  // by address
  std::vector<LinkedSymbol> symbols;  // by address
  bool flow_sensitive = false;
};

}  // namespace ptarmigan
