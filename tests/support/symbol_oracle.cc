#include "tests/support/symbol_oracle.h"

#include <elf.h>

#include <algorithm>
#include <charconv>
#include <random>

#include "base/check.h"
#include "base/file.h"
#include "base/str_format.h"
#include "elf/elf_file.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

std::string_view TakeLine(std::string_view* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

uint32_t TakeNumberAtEnd(std::string_view* text) {
  const size_t colon = text->rfind(':');
  if (colon == std::string_view::npos) return 0;
  uint32_t number = 0;
  const std::string_view digits = text->substr(colon + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  *text = text->substr(0, colon);
  return number;
}

std::string Describe(const InlineStack& frames) {
  std::string text;
  for (const SourceFrame& frame : frames) {
    text += StrFormat("\n    {} {}:{}", frame.system_name, frame.file, frame.line);
  }
  return frames.empty() ? " nothing" : text;
}

bool SameFrame(const SourceFrame& a, const SourceFrame& b, bool lines) {
  if (a.system_name != b.system_name) return false;
  return !lines || (a.line == b.line && a.file == b.file);
}

}  // namespace

std::string SymbolOracleProgram() {
  for (const std::string_view name : {"llvm-symbolizer-19", "llvm-symbolizer"}) {
    if (HaveProgram(name)) return std::string(name);
  }
  return {};
}

std::vector<InlineStack> AskSymbolOracle(const std::string& object,
                                         const std::vector<uint64_t>& addresses,
                                         const std::string& debug_directory) {
  const std::string directory = TestTemporaryDirectory();
  const std::string input = JoinPath(directory, "addresses");
  std::string text;
  for (const uint64_t address : addresses) text += StrFormat("{:#x}\n", address);
  auto file = OutputFile::Create(input);
  CHECK(file && file->Write(text) && file->Commit());
  const std::string where =
      debug_directory.empty() ? "" : StrFormat(" --debug-file-directory='{}'", debug_directory);
  const CommandResult result =
      RunCommand(StrFormat("DEBUGINFOD_URLS= {} --inlines --no-demangle{} --obj='{}' < '{}'",
                           SymbolOracleProgram(), where, object, input),
                 240);
  CHECK(result.exit_code == 0);
  std::vector<InlineStack> answers;
  std::string_view rest = result.out;
  while (answers.size() < addresses.size() && !rest.empty()) {
    InlineStack frames;
    for (std::string_view line = TakeLine(&rest); !line.empty(); line = TakeLine(&rest)) {
      SourceFrame frame;
      if (line != "??") frame.system_name = frame.function = line;
      std::string_view place = TakeLine(&rest);
      frame.column = TakeNumberAtEnd(&place);
      frame.line = TakeNumberAtEnd(&place);
      if (place != "??") frame.file = place;
      frames.push_back(std::move(frame));
    }
    if (frames.size() == 1 && frames[0].system_name.empty() && frames[0].line == 0) frames.clear();
    answers.push_back(std::move(frames));
  }
  CHECK(answers.size() == addresses.size());
  return answers;
}

OracleComparison CompareWithOracle(const std::vector<uint64_t>& addresses,
                                   const std::vector<InlineStack>& ours,
                                   const std::vector<InlineStack>& theirs,
                                   const OracleOptions& options) {
  CHECK(ours.size() == addresses.size() && theirs.size() == addresses.size());
  OracleComparison comparison;
  comparison.asked = addresses.size();
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (theirs[i].empty()) continue;
    ++comparison.known;
    bool equal = ours[i].size() == theirs[i].size();
    for (size_t frame = 0; equal && frame < ours[i].size(); ++frame) {
      equal = SameFrame(ours[i][frame], theirs[i][frame], options.lines);
    }
    if (equal) {
      ++comparison.equal;
    } else if (comparison.differences.size() < options.differences_max) {
      comparison.differences.push_back(StrFormat("{:#x}\n  ours:{}\n  theirs:{}", addresses[i],
                                                 Describe(ours[i]), Describe(theirs[i])));
    }
  }
  return comparison;
}

std::vector<uint64_t> SampleCodeAddresses(const std::string& object, size_t count) {
  const auto file = ElfFile::Open(object);
  CHECK(file.has_value());
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // start, bytes before it
  uint64_t total = 0;
  for (const ElfSection& section : (*file)->sections()) {
    if ((section.flags & SHF_EXECINSTR) == 0 || section.size_bytes == 0) continue;
    if (section.name.starts_with(".plt")) continue;
    ranges.emplace_back(section.vaddr.value, total);
    total += section.size_bytes;
  }
  CHECK(total > 0);
  std::mt19937_64 random(1);
  std::vector<uint64_t> addresses;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t at = random() % total;
    const auto after =
        std::upper_bound(ranges.begin(), ranges.end(), at,
                         [](uint64_t wanted, const auto& range) { return wanted < range.second; });
    const auto& [start, before] = *std::prev(after);
    addresses.push_back(start + (at - before));
  }
  return addresses;
}

}  // namespace ptarmigan
