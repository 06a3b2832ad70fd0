// CodeImage: the code of one address space by time: what a control-flow trace is decoded against.
//
//   time ──────────┬────────────────────┬──────────▶
//   epoch 0        │ epoch 1            │ epoch 2          an epoch ends where a mapping, a poke or new JIT code begins
//   [exe][libc]    │ [exe][libc][jit a] │ [exe][libc][jit b]
//
// Decoding does no I/O: who implements this keeps files open and mapped. Implementations: files by mapping, the kernel,
// the vdso, JIT dumps (pipeline); arrays (ArrayCodeImage, below).
//
// An image does not change while a decoder uses it, except that epochs may be appended between two calls of the decoder.
// Const functions may be called from any thread at once. What spans refer to lives as long as the image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_cursor.h"
#include "model/address.h"

namespace ptarmigan {

// A run of code bytes at an address.
struct CodeRegion {
  VirtAddr start;
  Bytes bytes;  // all of it; start + size does not wrap
  // Where the same bytes lie in an open file, so that it need not be copied for a library that reads files; -1: nowhere.
  int fd = -1;
  uint64_t file_offset = 0;
  // Equal numbers, equal bytes: a decoder keeps what it learnt about code under (content, offset in it). 0: unknown,
  // nothing is kept beyond this image. For a file: its identity and `file_offset`; for JIT code: one for each version.
  uint64_t content = 0;

  bool Contains(VirtAddr address) const { return address - start < bytes.size(); }
  VirtAddr end() const { return start + bytes.size(); }
};

// The function that holds an address.
struct CodeFunction {
  VirtAddr start;
  VirtAddr end;  // exclusive
  bool empty() const { return start == end; }
};

class CodeImage {
 public:
  virtual ~CodeImage() = default;

  // At least 1. Epoch 0 holds from the beginning of time, each other one from EpochStart (ns of the recording's clock,
  // rising) until the next begins.
  virtual size_t Epochs() const = 0;
  virtual uint64_t EpochStartNs(size_t epoch) const = 0;
  // Sorted by start, not overlapping.
  virtual std::span<const CodeRegion> Regions(size_t epoch) const = 0;

  // The function symbol that holds `address`, empty where none is known. Tells tail calls and longjmp from jumps within
  // a function, and whether a call went to where functions begin.
  virtual CodeFunction FunctionContaining(VirtAddr address, size_t epoch) const = 0;
  // What is mapped where no code is at hand ("libfoo.so", "[vdso]"), for one sentence per object; empty: nothing is.
  virtual std::string_view ObjectAt(VirtAddr address, size_t epoch) const = 0;

  // The bytes from `address` to the end of its region; empty where there is no code.
  Bytes CodeAt(VirtAddr address, size_t epoch) const;
  // The last epoch that has begun at `time_ns`.
  size_t EpochAt(uint64_t time_ns) const;
};

// An image from arrays.
class ArrayCodeImage : public CodeImage {
 public:
  // Regions and functions added are those of the newest epoch; StartEpoch begins with what the one before had.
  void StartEpoch(uint64_t start_ns);
  // Replaces what it overlaps. An empty region is ignored.
  void AddRegion(const CodeRegion& region);
  // Functions of all epochs; may not overlap others.
  void AddFunction(CodeFunction function);
  // All addresses of [start, end) that have no code are said to belong to `name`.
  void AddMissingObject(CodeFunction range, std::string name);

  size_t Epochs() const override { return epochs_.size(); }
  uint64_t EpochStartNs(size_t epoch) const override { return epochs_[epoch].start_ns; }
  std::span<const CodeRegion> Regions(size_t epoch) const override {
    return epochs_[epoch].regions;
  }
  CodeFunction FunctionContaining(VirtAddr address, size_t epoch) const override;
  std::string_view ObjectAt(VirtAddr address, size_t epoch) const override;

 private:
  struct Epoch {
    uint64_t start_ns = 0;
    std::vector<CodeRegion> regions;
  };
  std::vector<Epoch> epochs_{1};
  std::vector<CodeFunction> functions_;  // sorted by start
  std::vector<std::pair<CodeFunction, std::string>> missing_;
};

}  // namespace ptarmigan
