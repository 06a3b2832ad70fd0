// JitDumpWriter: writes jitdump files for tests (Linux tools/perf/Documentation/jitdump-specification.txt).
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/byte_writer.h"

namespace ptarmigan {

class JitDumpWriter {
 public:
  struct Line {
    uint64_t address = 0;
    uint32_t line = 0;
    uint32_t discriminator = 0;
    std::string file = {};
  };

  JitDumpWriter(std::endian order, uint32_t pid) : out_(order), pid_(pid) {
    out_.U32(0x4A695444).U32(1).U32(40).U32(62).U32(0).U32(pid).U64(1).U64(0);
  }
  void Load(uint64_t time_ns, uint64_t address, uint64_t size_bytes, std::string_view name,
            std::string_view code = "") {
    ByteWriter body(out_.order());
    body.U32(pid_).U32(pid_).U64(address).U64(address).U64(size_bytes).U64(++index_).CString(name);
    std::string machine_code(code);
    machine_code.resize(size_bytes, '\x90');
    body.Text(machine_code);
    Record(0, time_ns, body.bytes());
  }
  void Move(uint64_t time_ns, uint64_t from, uint64_t to, uint64_t size_bytes) {
    ByteWriter body(out_.order());
    body.U32(pid_).U32(pid_).U64(to).U64(from).U64(to).U64(size_bytes).U64(1);
    Record(1, time_ns, body.bytes());
  }
  void Lines(uint64_t time_ns, uint64_t address, const std::vector<Line>& lines) {
    ByteWriter body(out_.order());
    body.U64(address).U64(lines.size());
    for (const Line& line : lines) {
      body.U64(line.address).U32(line.line).U32(line.discriminator).CString(line.file);
    }
    Record(2, time_ns, body.bytes());
  }
  void Close(uint64_t time_ns) { Record(3, time_ns, ""); }
  void Unknown(uint64_t time_ns, uint32_t id) { Record(id, time_ns, "12345678"); }
  const std::string& bytes() const { return out_.bytes(); }

 private:
  void Record(uint32_t id, uint64_t time_ns, std::string_view body) {
    out_.U32(id).U32(16 + body.size()).U64(time_ns).Text(body);
  }
  ByteWriter out_;
  uint32_t pid_;
  uint64_t index_ = 0;
};

}  // namespace ptarmigan
