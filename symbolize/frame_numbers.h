// Frames as numbers: who resolves many addresses compares and counts numbers, and asks for the texts of each function
// and file once.
#pragma once

#include <cstdint>
#include <vector>

#include "model/symbol.h"

namespace ptarmigan {

// One source-level frame. Equal function numbers of the same FrameNames are the same function, equal file numbers the
// same file; the reverse does not hold.
struct FrameNumbers {
  static constexpr uint32_t kNoFunction = UINT32_MAX;

  uint32_t function = kNoFunction;
  uint32_t file = 0;  // 0: none
  uint32_t line = 0;
  uint32_t column = 0;
  uint32_t discriminator = 0;
};

// What the numbers mean. Any thread.
class FrameNames {
 public:
  virtual ~FrameNames() = default;
  // Overwrites `frame`.
  virtual void Describe(const FrameNumbers& numbers, SourceFrame* frame) const = 0;
};

// The frames at an address, innermost first.
struct NumberedStack {
  const FrameNames* names = nullptr;
  std::vector<FrameNumbers> frames;
  // Instead of the two above, where no table holds the names: code that was made at run time.
  InlineStack texts;

  bool empty() const { return frames.empty() && texts.empty(); }
  void clear() {
    names = nullptr;
    frames.clear();
    texts.clear();
  }
};

}  // namespace ptarmigan
