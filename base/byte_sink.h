// ByteSink: where a writer's bytes go, piece by piece. Writers do not build their whole output in memory first.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace ptarmigan {

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status Write(std::string_view bytes) = 0;
};

// Appends to a string that outlives it.
class StringSink : public ByteSink {
 public:
  explicit StringSink(std::string* out) : out_(*out) {}
  Status Write(std::string_view bytes) override {
    out_.append(bytes);
    return OkStatus();
  }

 private:
  std::string& out_;
};

}  // namespace ptarmigan
