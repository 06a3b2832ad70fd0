#include "tests/support/opencsd_snapshot.h"

#include <re2/re2.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/str_format.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

std::string Trimmed(std::string text) {
  const auto is_space = [](unsigned char c) { return std::isspace(c) != 0; };
  while (!text.empty() && is_space(static_cast<unsigned char>(text.back()))) text.pop_back();
  const auto first = std::find_if_not(text.begin(), text.end(), is_space);
  return std::string(first, text.end());
}

// "TRCIDR0(0x078)" and "PC(size:64)" are called by what stands before.
std::string BareKey(const std::string& key) { return Trimmed(key.substr(0, key.find('('))); }

uint64_t Number(const std::map<std::string, std::string>& section, const std::string& key,
                uint64_t otherwise = 0) {
  const auto found = section.find(key);
  return found == section.end() ? otherwise : std::stoull(found->second, nullptr, 0);
}

}  // namespace

std::map<std::string, OpencsdSnapshot::Section> OpencsdSnapshot::ReadIni(const std::string& path) {
  std::map<std::string, Section> sections;
  std::istringstream lines(ReadTestFile(path));
  std::string line;
  std::string section;
  while (std::getline(lines, line)) {
    line = Trimmed(line.substr(0, line.find(';')));
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      section = line.substr(1, line.find(']') - 1);
    } else if (const size_t equals = line.find('='); equals != std::string::npos) {
      sections[section][BareKey(line.substr(0, equals))] = Trimmed(line.substr(equals + 1));
    }
  }
  return sections;
}

OpencsdSnapshot::OpencsdSnapshot(const std::string& folder, const std::string& ini)
    : folder_(folder + "/") {
  const std::string ini_folder = ini.empty() ? folder_ : ini + "/";
  auto snapshot = ReadIni(ini_folder + "snapshot.ini");
  for (const auto& [name, file] : snapshot["device_list"]) AddDevice(ini_folder + file);
  auto trace = ReadIni(ini_folder + snapshot["trace"]["metadata"]);
  std::istringstream names(trace["trace_buffers"]["buffers"]);
  std::string name;
  while (std::getline(names, name, ',')) {
    const Section& buffer = trace[Trimmed(name)];
    sections_["@" + buffer.at("name")] = buffer;
  }
  buffer_of_ = trace["source_buffers"];
}

void OpencsdSnapshot::AddDevice(const std::string& path) {
  auto device = ReadIni(path);
  if (device["device"]["class"] == "trace_source") {
    const std::string& name = device["device"]["name"];
    sections_[name] = device["regs"];
    protocol_of_[name] = device["device"]["type"];
    return;
  }
  for (const auto& [title, dump] : device) {
    if (!title.starts_with("dump")) continue;
    std::string file = folder_ + dump.at("file");
    if (!std::filesystem::exists(file)) file += ".gz";
    if (!std::filesystem::exists(file)) continue;  // the lister goes on without it, too
    std::string bytes = ReadTestFile(file);
    bytes.erase(0, static_cast<size_t>(Number(dump, "offset")));
    const uint64_t length = Number(dump, "length");
    if (length != 0 && length < bytes.size()) bytes.resize(static_cast<size_t>(length));
    memory_.push_back({Number(dump, "address"), std::move(bytes)});
  }
}

CoreSightOptions OpencsdSnapshot::OptionsOf(const std::string& buffer) const {
  CoreSightOptions options;
  options.is_formatted = sections_.at("@" + buffer).at("format") == "coresight";
  for (const auto& [name, its_buffer] : buffer_of_) {
    const auto registers = sections_.find(name);
    if (its_buffer != buffer || registers == sections_.end()) continue;
    const std::string& protocol = protocol_of_.at(name);
    const Section& values = registers->second;
    const auto value = [&values](const char* key, uint64_t otherwise = 0) {
      return static_cast<uint32_t>(Number(values, key, otherwise));
    };
    CoreSightSource source;
    if (protocol.starts_with("ETM4") || protocol == "ETE") {
      source.unit = {.protocol = protocol == "ETE" ? EtmProtocol::kEte : EtmProtocol::kEtm4,
                     .config = value("TRCCONFIGR"),
                     .trace_id = value("TRCTRACEIDR"),
                     .idr0 = value("TRCIDR0"),
                     .idr1 = value("TRCIDR1"),
                     .idr2 = value("TRCIDR2"),
                     .idr8 = value("TRCIDR8"),
                     .devarch = value("TRCDEVARCH")};
    } else if (protocol.starts_with("PTM") || protocol.starts_with("PFT") ||
               protocol.starts_with("ETM3")) {
      source.unit = {
          .protocol = protocol.starts_with("ETM") ? EtmProtocol::kEtm3 : EtmProtocol::kPtm,
          .config = value("ETMCR"),
          .trace_id = value("ETMTRACEIDR"),
          .idr0 = value("ETMIDR"),
          .ccer = value("ETMCCER")};
    } else {
      continue;
    }
    source.trace_id = static_cast<uint8_t>(source.unit.trace_id & 0x7f);
    options.sources.push_back(source);
  }
  return options;
}

std::string OpencsdSnapshot::TraceOf(const std::string& buffer) const {
  return ReadTestFile(folder_ + sections_.at("@" + buffer).at("file"));
}

size_t OpencsdSnapshot::Read(uint8_t /*trace_id*/, VirtAddr address, std::span<std::byte> bytes) {
  for (const Memory& memory : memory_) {
    const uint64_t at = address.value - memory.address;
    if (at >= memory.bytes.size()) continue;
    const size_t size = std::min(bytes.size(), memory.bytes.size() - static_cast<size_t>(at));
    std::memcpy(bytes.data(), memory.bytes.data() + at, size);
    return size;
  }
  return 0;
}

std::string ListedBuffer(const std::string& text) {
  std::string buffer;
  RE2::PartialMatch(text, "Using (\\S+) as trace source", &buffer);
  return buffer;
}

std::vector<ListedElement> ReadListedElements(const std::string& text) {
  const RE2 line_form("Idx:(\\d+); ID:([0-9a-f]+); OCSD_GEN_TRC_ELEM_([A-Z_]+)\\((.*)\\)");
  const RE2 range(
      "exec range=(0x[0-9a-f]+):\\[(0x[0-9a-f]+)\\] num_i\\((\\d+)\\) "
      "last_sz\\((\\d)\\) \\(ISA=(\\w+)\\) ([EN]) (.*)");
  const RE2 no_path("first (0x[0-9a-f]+):\\[next (0x[0-9a-f]+)\\] num_i\\((\\d+)\\)");
  const RE2 exception("(?:pref ret addr:(0x[0-9a-f]+))?.*excep num \\(0x([0-9a-f]+)\\)");
  const RE2 context(
      "\\(ISA=(\\w+)\\) (?:EL(\\d)(\\w))?.*?(64|32)-bit; (?:VMID=(0x[0-9a-f]+); )?"
      "(?:CTXTID=(0x[0-9a-f]+); )?.*");
  std::vector<ListedElement> elements;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    uint64_t index = 0;
    uint32_t trace_id = 0;
    std::string kind;
    std::string body;
    if (!RE2::PartialMatch(line, line_form, &index, RE2::Hex(&trace_id), &kind, &body)) continue;
    std::string words;
    std::string a;
    std::string b;
    std::string c;
    std::string d;
    std::string e;
    std::string f;
    std::string rest;
    if (kind == "INSTR_RANGE" && RE2::PartialMatch(body, range, &a, &b, &c, &d, &e, &f, &rest)) {
      RE2::GlobalReplace(&rest, " +", " ");
      words = StrFormat("range {} {} {} last {} {} {} {}", a, b, c, d, e, f, Trimmed(rest));
    } else if (kind == "I_RANGE_NOPATH" && RE2::PartialMatch(body, no_path, &a, &b, &c)) {
      words = StrFormat("no path {} {} {}", a, b, c);
    } else if (kind == "ADDR_NACC") {
      words = "no image " + Trimmed(body).substr(0, body.find(' ', 1));
      words = Trimmed(words);
    } else if (kind == "EXCEPTION" && RE2::PartialMatch(body, exception, &a, &b)) {
      words = StrFormat("exception {} {}", std::stoul(b, nullptr, 16), a);
    } else if (kind == "PE_CONTEXT" && RE2::PartialMatch(body, context, &a, &b, &c, &d, &e, &f)) {
      words = StrFormat("context {} EL{} {} {} {} {}", a, b, c, d, e, f);
    } else if (kind == "TIMESTAMP") {
      const size_t at = body.find("TS=") + 3;
      words =
          StrFormat("time {:#x}", std::stoull(body.substr(at, body.find(']') - at), nullptr, 16));
    } else if (kind == "NO_SYNC" || kind == "TRACE_ON" || kind == "EO_TRACE") {
      words = kind + " " + Trimmed(body);
    } else {
      words = kind;
    }
    elements.push_back({index, trace_id, words});
  }
  return elements;
}

namespace {

std::string_view IsaName(ArmInstructionSet isa) {
  switch (isa) {
    case ArmInstructionSet::kA64:
      return "A64";
    case ArmInstructionSet::kA32:
      return "A32";
    case ArmInstructionSet::kT32:
      return "T32";
    case ArmInstructionSet::kUnknown:
      break;
  }
  return "Unk";
}

// As the lister prints an instruction's type. What is no branch it prints as "---" or by the kind of barrier, which elements
// here do not tell apart.
std::string BranchText(const CoreSightElement& element) {
  std::string text;
  switch (element.branch) {
    case ArmBranch::kNone:
      text = "no branch";
      break;
    case ArmBranch::kDirect:
      text = "BR";
      break;
    case ArmBranch::kDirectCall:
      text = "BR b+link";
      break;
    case ArmBranch::kIndirect:
      text = "iBR";
      break;
    case ArmBranch::kIndirectCall:
      text = "iBR b+link";
      break;
    case ArmBranch::kReturn:
      text = element.isa == ArmInstructionSet::kA64 ? "iBR A64:ret" : "iBR V7:impl ret";
      break;
    case ArmBranch::kExceptionReturn:
      text = "iBR A64:eret";
      break;
  }
  if (element.conditional) text += " <cond>";
  return text;
}

}  // namespace

std::string ListedText(const CoreSightElement& element) {
  using Kind = CoreSightElement::Kind;
  switch (element.kind) {
    case Kind::kRange:
      return StrFormat("range {:#x} {:#x} {} last {} {} {} {}", element.start.value,
                       element.end.value, element.instructions, element.last_bytes,
                       IsaName(element.isa), element.taken ? "E" : "N", BranchText(element));
    case Kind::kUnknownPath:
      return StrFormat("no path {:#x} {:#x} {}", element.start.value, element.end.value,
                       element.instructions);
    case Kind::kNoImage:
      return StrFormat("no image {:#x}", element.start.value);
    case Kind::kException:
      return StrFormat("exception {} {}", element.number,
                       element.return_address ? StrFormat("{:#x}", element.return_address->value)
                                              : std::string());
    case Kind::kContext: {
      const auto& context = element.context;
      return StrFormat(
          "context {} EL{} {} {} {} {}", IsaName(element.isa),
          context.exception_level >= 0 ? StrFormat("{}", int{context.exception_level}) : "",
          context.exception_level < 0 ? ""
          : context.is_secure         ? "S"
                                      : "N",
          context.is_64_bit ? 64 : 32, context.vm_id ? StrFormat("{:#x}", *context.vm_id) : "",
          context.context_id ? StrFormat("{:#x}", *context.context_id) : "");
    }
    case Kind::kTimestamp:
      return StrFormat("time {:#x}", element.value);
    case Kind::kNoSync:
      return StrFormat("NO_SYNC [{}]",
                       element.reason == CoreSightElement::Reason::kOverflow    ? "overflow"
                       : element.reason == CoreSightElement::Reason::kBadPacket ? "bad-packet"
                                                                                : "init-decoder");
    case Kind::kTraceOn:
      return StrFormat("TRACE_ON [{}]",
                       element.reason == CoreSightElement::Reason::kOverflow ? "overflow"
                       : element.reason == CoreSightElement::Reason::kDebug  ? "debug restart"
                                                                             : "begin or filter");
    case Kind::kEnd:
      return StrFormat("EO_TRACE [{}]", element.reason == CoreSightElement::Reason::kOverflow
                                            ? "overflow"
                                            : "end-of-trace");
    case Kind::kExceptionReturn:
      return "EXCEPTION_RET";
    case Kind::kUnknownAddress:
      return "ADDR_UNKNOWN";
    case Kind::kCycles:
      return "CYCLE_COUNT";
    case Kind::kOther:
      break;
  }
  return "other";
}

}  // namespace ptarmigan
