// Reads the snapshots that OpenCSD's own tests use (ini files beside dumps of memory and trace buffers), and the text that
// its trc_pkt_lister prints for them: an outside oracle for decoding CoreSight.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/byte_cursor.h"
#include "decode/coresight_decoder.h"

namespace ptarmigan {

class OpencsdSnapshot : public CoreSightCode {
 public:
  // `folder` holds snapshot.ini, or `ini` does and files lie in `folder`.
  explicit OpencsdSnapshot(const std::string& folder, const std::string& ini = "");

  // The units whose trace goes to `buffer`, in the order of their names.
  CoreSightOptions OptionsOf(const std::string& buffer) const;
  std::string TraceOf(const std::string& buffer) const;
  // Replaces the file of a buffer.
  void UseTraceFile(const std::string& buffer, const std::string& file) {
    sections_["@" + buffer]["file"] = file;
  }

  size_t Read(uint8_t trace_id, VirtAddr address, std::span<std::byte> bytes) override;

 private:
  using Section = std::map<std::string, std::string>;
  struct Memory {
    uint64_t address = 0;
    std::string bytes;
  };

  static std::map<std::string, Section> ReadIni(const std::string& path);
  void AddDevice(const std::string& path);

  std::string folder_;
  std::map<std::string, Section>
      sections_;  // "@name": a trace buffer; "name": the registers of a trace source
  std::map<std::string, std::string> protocol_of_;  // by source
  std::map<std::string, std::string> buffer_of_;    // by source
  std::vector<Memory> memory_;
};

// One line of trc_pkt_lister's list of elements, and one of ours, in words that can be compared.
struct ListedElement {
  uint64_t offset = 0;
  uint32_t trace_id = 0;
  std::string text;
  bool operator==(const ListedElement&) const = default;
};
std::vector<ListedElement> ReadListedElements(const std::string& text);
// The name of the buffer that it listed.
std::string ListedBuffer(const std::string& text);
std::string ListedText(const CoreSightElement& element);

}  // namespace ptarmigan
