// softpmu_mkscript: makes a playback script for the software PMU from a trace, alone in a file or in a recording of perf.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "base/byte_cursor.h"
#include "base/file.h"
#include "decode/perf_data_file.h"
#include "tests/softpmu/script.h"
#include "tests/softpmu/softpmu_abi.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kInputBytesMax = uint64_t{64} << 20;  // of the module's scripts

struct Arguments {
  std::string kind;
  std::string input;
  std::string output;
  uint64_t rate = 4'000'000;
  size_t piece_bytes = 64;
  size_t record_bytes = 64;
  uint32_t buffer = 0;
  std::string task;
  bool live_time = false;
  bool once = false;
  bool fill = false;
  bool patient = false;
};

// The AUX area of each buffer of a recording.
class AuxBytes : public EventSink {
 public:
  void OnAuxChunk(const AuxChunk& chunk) override {
    buffers_[chunk.index].append(reinterpret_cast<const char*>(chunk.data.data()),
                                 chunk.data.size());
  }
  std::string Take(uint32_t index) { return std::move(buffers_[index]); }

 private:
  std::map<uint32_t, std::string> buffers_;
};

Result<std::string> ReadTrace(const Arguments& arguments) {
  TRY_ASSIGN(std::string content, ReadFile(arguments.input, kInputBytesMax));
  const Bytes bytes(reinterpret_cast<const std::byte*>(content.data()), content.size());
  if (!IsPerfData(bytes)) return content;
  TRY_ASSIGN(const auto source, OpenPerfDataBytes(bytes, arguments.input));
  AuxBytes aux;
  for (PollOutcome outcome = PollOutcome::kMore; outcome != PollOutcome::kEnd;) {
    TRY_ASSIGN(outcome, source->Poll(aux));
  }
  return aux.Take(arguments.buffer);
}

Status Make(const Arguments& arguments) {
  TRY_ASSIGN(const std::string trace, ReadTrace(arguments));
  if (trace.empty()) {
    return Error{ErrorCode::kInvalidInput, "there is no trace in " + arguments.input};
  }
  SoftPmuScript script((arguments.fill ? SOFTPMU_FILL : 0U) |
                       (arguments.patient ? SOFTPMU_PATIENT : 0U));
  if (!arguments.task.empty()) script.Task(arguments.task);
  script.Rate(arguments.kind == "pt" ? arguments.rate : 0);
  const uint32_t begin = script.here();
  if (arguments.kind == "pt") {
    const uint64_t left_out = AppendPt(
        trace, {.piece_bytes = arguments.piece_bytes, .live_time = arguments.live_time}, &script);
    if (left_out > 0) {
      std::fprintf(stderr, "%llu bytes are no packets and were left out\n",
                   static_cast<unsigned long long>(left_out));
    }
  } else {
    TRY(AppendRecords(trace, arguments.record_bytes, &script));
  }
  if (!arguments.once) script.LoopTo({.target = begin});
  std::ofstream file(arguments.output, std::ios::binary);
  file << script.bytes();
  file.close();
  if (!file) return Error{ErrorCode::kIo, "cannot write " + arguments.output};
  return {};
}

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Makes a playback script for the software PMU (tests/softpmu/softpmu_abi.h).");
  app.add_option("kind", arguments.kind, "pt: packets; records: of a fixed size, as of Arm SPE")
      ->required()
      ->check(CLI::IsMember({"pt", "records"}));
  app.add_option("input", arguments.input, "the bytes of a trace, or a perf.data")->required();
  app.add_option("output", arguments.output, "the script")->required();
  app.add_option("--rate", arguments.rate, "bytes of pt a second");
  app.add_option("--piece-bytes", arguments.piece_bytes, "of pt, about, played at once");
  app.add_option("--record-bytes", arguments.record_bytes, "of a record");
  app.add_option("--buffer", arguments.buffer, "which AUX buffer of a perf.data");
  app.add_option("--task", arguments.task,
                 "played only while a thread of this name runs user code");
  app.add_flag("--live-time", arguments.live_time, "TSC packets tell when they are played");
  app.add_flag("--once", arguments.once, "not again and again");
  app.add_flag("--fill", arguments.fill, "a full buffer may end inside a piece");
  app.add_flag("--patient", arguments.patient, "waits for the reader where a buffer is full");
  CLI11_PARSE(app, argc, argv);
  const Status made = Make(arguments);
  if (made.has_value()) return 0;
  std::fprintf(stderr, "softpmu_mkscript: %s\n", made.error().message.c_str());
  return 1;
}

}  // namespace
}  // namespace ptarmigan

int main(int argc, char** argv) {
  try {
    return ptarmigan::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "softpmu_mkscript: %s\n", error.what());
    return 1;
  }
}
