// What a writer wrote, and the folded lines to hold it against.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "export/folded.h"
#include "export/sink.h"

namespace ptarmigan {

template <typename Write>
std::string Text(const Write& write) {
  std::string text;
  StringSink sink(&text);
  const Status status = write(&sink);
  EXPECT_TRUE(status.has_value()) << status.error().message;
  return text;
}

// Positive values by "root;...;leaf", from the folded writer (whose own tests hold it to known answers).
inline std::map<std::string, int64_t> FoldedLines(const Profile& profile, size_t type) {
  std::map<std::string, int64_t> lines;
  const std::string text =
      Text([&](ByteSink* sink) { return WriteFolded(profile, {.sample_type = type}, sink); });
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    const size_t blank = line.rfind(' ');
    const int64_t value = std::stoll(line.substr(blank + 1));
    std::string key = line.substr(0, blank);
    for (size_t k; (k = key.find("_[k]")) != std::string::npos;) key.erase(k, 4);
    if (value > 0) lines[key == "[no frames]" ? "" : key] += value;
    at = end + 1;
  }
  return lines;
}

inline std::string WithColons(std::string name) {
  for (char& c : name) c = c == ';' ? ':' : c;
  return name;
}

}  // namespace ptarmigan
