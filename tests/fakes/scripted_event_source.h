// An EventSource that plays a script: what a test wrote, in the order in which it was written.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/event_source.h"

namespace ptarmigan {

class ScriptedEventSource : public EventSource {
 public:
  ScriptedEventSource() { description_.source = "script"; }

  RecordingDescription& mutable_description() { return description_; }
  LossLedger& mutable_losses() { return losses_; }
  // Returns the event's index.
  uint32_t AddEvent(std::string name, uint32_t type, uint64_t config) {
    EventDescription& event = description_.events.emplace_back();
    event.name = std::move(name);
    event.attr.type = type;
    event.attr.config = config;
    return static_cast<uint32_t>(description_.events.size() - 1);
  }
  void Play(std::function<void(EventSink&)> step) { steps_.push_back(std::move(step)); }
  // Ends the script with an error.
  void FailAtEnd(Error error) { failure_ = std::move(error); }

  const RecordingDescription& description() const override { return description_; }
  const LossLedger& losses() const override { return losses_; }
  Result<PollOutcome> Poll(EventSink& sink) override {
    if (next_ < steps_.size()) {
      steps_[next_++](sink);
      return PollOutcome::kMore;
    }
    if (!failure_.message.empty()) return failure_;
    return PollOutcome::kEnd;
  }

 private:
  RecordingDescription description_;
  LossLedger losses_;
  std::vector<std::function<void(EventSink&)>> steps_;
  size_t next_ = 0;
  Error failure_;
};

}  // namespace ptarmigan
