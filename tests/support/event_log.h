// An EventSink that keeps all that it gets: samples and mappings as values, everything in order as short lines.
#pragma once

#include <string>
#include <vector>

#include "base/str_format.h"
#include "model/event_source.h"

namespace ptarmigan {

class EventLog : public EventSink {
 public:
  void OnSample(const CapturedSample& sample) override {
    samples.push_back(sample);
    // What it borrows does not outlive the call.
    stacks.emplace_back(AsText(sample.user_stack));
    raws.emplace_back(AsText(sample.raw));
    auxes.emplace_back(AsText(sample.aux));
    Line(sample.identity,
         StrFormat("sample {} {:x} {}", sample.event, sample.ip.value, sample.period));
  }
  void OnMmap(const MmapEvent& event) override {
    mmaps.push_back(event);
    Line(event.identity, "mmap " + event.path);
  }
  void OnComm(const CommEvent& event) override {
    Line(event.identity, StrFormat("comm {}/{} {}{}", event.pid, event.tid, event.comm,
                                   event.is_exec ? " exec" : ""));
  }
  void OnFork(const TaskEvent& event) override {
    Line(event.identity, StrFormat("fork {}/{} of {}/{}", event.pid, event.tid, event.parent_pid,
                                   event.parent_tid));
  }
  void OnExit(const TaskEvent& event) override {
    Line(event.identity, StrFormat("exit {}/{}", event.pid, event.tid));
  }
  void OnLost(const LostEvent& event) override {
    Line(event.identity, StrFormat("lost {}{}", event.count, event.samples_only ? " samples" : ""));
  }
  void OnThrottle(const ThrottleEvent& event) override {
    Line(event.identity, event.throttled ? "throttle" : "unthrottle");
  }
  void OnSwitch(const SwitchEvent& event) override {
    Line(event.identity,
         StrFormat("switch {}{} {}/{}", event.out ? "out" : "in",
                   event.preempted ? " preempted" : "", event.other_pid, event.other_tid));
  }
  void OnKsymbol(const KsymbolEvent& event) override {
    Line(event.identity,
         StrFormat("ksymbol {:x}+{:x} type {}{} {}", event.start.value, event.length_bytes,
                   event.type, event.unregister ? " gone" : "", event.name));
  }
  void OnTextPoke(const TextPokeEvent& event) override {
    Line(event.identity, StrFormat("poke {:x} {}>{}", event.address.value, AsText(event.old_bytes),
                                   AsText(event.new_bytes)));
  }
  void OnCgroup(const CgroupEvent& event) override {
    Line(event.identity, StrFormat("cgroup {} {}", event.id, event.path));
  }
  void OnBuildId(const BuildIdEvent& event) override {
    lines.push_back(StrFormat("build id {} {}", event.build_id.ToHex(), event.path));
  }
  void OnAux(const AuxEvent& event) override {
    Line(event.identity,
         StrFormat("aux {}+{} flags {}", event.aux_offset, event.size_bytes, event.flags));
  }
  void OnAuxChunk(const AuxChunk& chunk) override {
    aux_data += AsText(chunk.data);
    lines.push_back(StrFormat("aux chunk {}+{} cpu {}", chunk.offset, chunk.size_bytes, chunk.cpu));
  }
  void OnOther(const OtherRecord& record) override {
    Line(record.identity, StrFormat("other {} {} bytes", record.type, record.bytes.size()));
  }

  std::vector<CapturedSample> samples;
  std::vector<std::string> stacks;
  std::vector<std::string> raws;
  std::vector<std::string> auxes;
  std::vector<MmapEvent> mmaps;
  std::string aux_data;
  std::vector<std::string> lines;  // "@time what", or "what" without a time

 private:
  void Line(const RecordIdentity& identity, const std::string& what) {
    lines.push_back(identity.has_time ? StrFormat("@{} {}", identity.time_ns, what) : what);
  }
};

}  // namespace ptarmigan
