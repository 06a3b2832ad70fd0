// FileSink: a ByteSink into a file.
#pragma once

#include <string_view>

#include "base/byte_sink.h"
#include "base/file.h"
#include "base/result.h"

namespace ptarmigan {

// Writes to an open output file that outlives it; committing it stays with the owner.
class FileSink : public ByteSink {
 public:
  explicit FileSink(OutputFile* out) : out_(*out) {}
  Status Write(std::string_view bytes) override { return out_.Write(bytes); }

 private:
  OutputFile& out_;
};

}  // namespace ptarmigan
