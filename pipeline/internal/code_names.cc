#include "pipeline/internal/code_names.h"

namespace ptarmigan::internal {
namespace {

bool HasFilePositions(const CodeObject& object) {
  return object.kind == CodeObject::Kind::kFile || object.kind == CodeObject::Kind::kVdso;
}

}  // namespace

CodeNames::CodeNames(const RecordingDescription& description, const SymbolizerOptions& options)
    : symbolizer_(options) {
  processes_.KeepHistory();
  for (const BuildIdEvent& id : description.build_ids) {
    processes_.objects().RememberBuildId(id.path, id.build_id);
  }
}

void CodeNames::OnBuildId(const BuildIdEvent& event) {
  processes_.objects().RememberBuildId(event.path, event.build_id);
  processes_.objects().AssignBuildId(event.path, event.build_id);
}

CodeNames::Names CodeNames::Find(const RecordIdentity& task, VirtAddr address, CpuMode mode) {
  const uint64_t time_ns = task.has_time ? task.time_ns : UINT64_MAX;
  Process& process = processes_.FindTaskAt(task.pid, task.tid, time_ns).process;
  const CodeMapping* mapping = processes_.LookupAt(process, address, mode, time_ns);
  if (mapping == nullptr) return {};
  const CodeObject& object = *mapping->object;
  const Place place = {
      &object, HasFilePositions(object) ? mapping->ToFileOffset(address).value : address.value};
  auto found = functions_.find(place);
  if (found == functions_.end()) {
    if (functions_.size() >= kPlacesMax) functions_.clear();
    found = functions_.emplace(place, FunctionAt(*mapping, task.pid, address, time_ns)).first;
  }
  constexpr std::string_view kKernelName = "[kernel]";
  return {object.kind == CodeObject::Kind::kKernel ? kKernelName : object.path, found->second};
}

std::string CodeNames::FunctionAt(const CodeMapping& mapping, int32_t pid, VirtAddr address,
                                  uint64_t time_ns) {
  const CodeObject& object = *mapping.object;
  const ObjectSymbols* symbols =
      symbolizer_.Load(object, {.pid = pid, .map_start = mapping.start, .map_end = mapping.end});
  InlineStack stack;
  if (symbols->by_runtime_address()) {
    symbolizer_.ResolveRuntime(*symbols, address, time_ns, &stack);
  } else if (HasFilePositions(object)) {
    const auto vaddr = symbolizer_.ToVaddr(*symbols, mapping.ToFileOffset(address));
    if (vaddr.has_value()) symbolizer_.Resolve(*symbols, *vaddr, &stack);
  } else {
    symbolizer_.Resolve(*symbols, FileVaddr{address.value - object.first_start.value}, &stack);
  }
  return stack.empty() ? std::string() : stack.back().function;
}

}  // namespace ptarmigan::internal
