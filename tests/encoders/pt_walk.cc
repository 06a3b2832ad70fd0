#include "tests/encoders/pt_walk.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "tests/encoders/pt_interpreter.h"

namespace ptarmigan {

PtWalk::PtWalk(const PtProgram& program, const PtWalkOptions& options)
    : program_(program), options_(options) {
  CHECK(options.threads >= 1 && (options.threads == 1 || !program.options().kernel));
  steps_.reserve(options.steps + options.steps / 4);
  paths_.push_back({});
  PtInterpreter(this).Run();
}

std::vector<uint32_t> PtWalk::StepsOfThread(unsigned thread) const {
  std::vector<uint32_t> of_thread;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].thread == thread) of_thread.push_back(static_cast<uint32_t>(i));
  }
  return of_thread;
}

std::vector<uint32_t> PtWalk::StepsOfCpu(unsigned cpu) const {
  std::vector<uint32_t> of_cpu;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].cpu == cpu) of_cpu.push_back(static_cast<uint32_t>(i));
  }
  return of_cpu;
}

std::string PtWalk::Folded(uint32_t path) const {
  std::vector<std::string_view> names;
  for (; path != kRootPath; path = paths_[path].parent) {
    names.push_back(program_.functions()[paths_[path].function].name);
  }
  std::string folded;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    if (!folded.empty()) folded += ';';
    folded += *name;
  }
  return folded;
}

std::vector<uint64_t> PtWalk::ReturnAddresses(uint32_t path) const {
  std::vector<uint64_t> addresses;
  for (path = paths_[path].parent; path != kRootPath; path = paths_[path].parent) {
    addresses.push_back(paths_[path].return_address);
  }
  return addresses;
}

std::string_view PtWalk::CodeAt(uint64_t address, uint32_t step) const {
  for (const PtCode& code : program_.code()) {
    if (address < code.address || address >= code.end()) continue;
    if (code.region == PtRegion::kJit) {
      uint32_t version = 0;
      for (const PtCodeChange& change : code_changes_) {
        if (change.step > step) break;
        if (change.slot == code.slot) version = change.version;
      }
      if (version != code.version) continue;
    }
    return std::string_view(code.bytes).substr(static_cast<size_t>(address - code.address));
  }
  return {};
}

}  // namespace ptarmigan
