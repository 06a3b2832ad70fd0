// The text of `perf script` with branch stacks as an EventSource, so that recordings which were turned into text, and
// the inputs of llvm-profgen, take the same path as perf.data:
//
//   PERF_RECORD_MMAP2 2854748/2854748: [0x400000(0x1000) @ 0 00:1d 123291722 526021]: r-xp /home/program
//         40062f 0x40062f/0x4005b0/P/-/-/9  0x400645/0x4005ff/M/-/-/1/COND/-      -F ip,brstack
//
//   2                          how often the sample below was seen; once without it (aggregated text)
//           4005dc             a call chain, leaf first, one address a line, symbols may follow
//           400634
//    0x4005c8/0x4005dc/P/-/-/0  0x40062f/0x4005b0/P/-/-/0
//
//   comm 27409/28744 [000] 441995.133575: 10101010 cycles:u: …     what the default fields print stands before either
//
// Branch entries are newest first: from/to, and behind it, as far as printed, /M mispredicted or P predicted, /X in a
// transaction, /A aborted one, /cycles, /type, /speculation.
// Processes and times are known where they are printed. Where samples do not name their process, all mappings count as
// those of one, and the event's attr has no TID.
//
// Bad input: a line that cannot be read is counted (parse, unreadable_line, records); the entries of a sample from the
// first unreadable one on are left out and the rest of the line is counted (parse, bad_value, records). Memory does not
// grow with the text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "model/event_source.h"

namespace ptarmigan {

struct PerfScriptOptions {
  // Where an object is if the text maps no object of the same file name: for text without mappings. Paths are those
  // that the events get; pid is set by the source.
  std::vector<MmapEvent> assumed_mappings;
};

// More entries, or a deeper chain, in one sample are cut, and counted (parse, limit, records).
inline constexpr size_t kScriptBranchesMax = 1024;
inline constexpr size_t kScriptChainMax = 4096;
// Sum of repetitions in an aggregated text; samples beyond are counted (parse, limit).
inline constexpr uint64_t kScriptRepeatsMax = uint64_t{1} << 24;

// The errors of MappedFile, or kInvalidInput if the text has no branch stack.
Result<std::unique_ptr<EventSource>> OpenPerfScript(const std::string& path,
                                                    const PerfScriptOptions& options = {});
// The same from memory, which must outlive the source. `name` is for messages.
Result<std::unique_ptr<EventSource>> OpenPerfScriptBytes(Bytes bytes, const std::string& name,
                                                         const PerfScriptOptions& options = {});

// The same from a text that the source keeps.
Result<std::unique_ptr<EventSource>> OpenPerfScriptText(std::string text, const std::string& name,
                                                        const PerfScriptOptions& options = {});

// Whether a text that starts with these bytes has branch stacks.
bool HasBranchStackText(Bytes prefix);
// How many bytes of a file to show HasBranchStackText: all mappings may stand before the first sample.
inline constexpr size_t kScriptSniffBytes = size_t{1} << 20;

}  // namespace ptarmigan
