#include "tests/support/profile_text.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/profile_builder.h"

namespace ptarmigan {
namespace {

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

LocationId AddFrame(std::string_view frame, ProfileBuilder* builder) {
  std::string file = "/bin/app";
  if (const size_t colon = frame.find(':'); colon != std::string_view::npos) {
    const std::string_view object = frame.substr(0, colon);
    file = object == "kernel" ? "[kernel.kallsyms]_text" : "/bin/" + std::string(object);
    frame.remove_prefix(colon + 1);
  }
  Profile::Mapping mapping{
      .start = {0x1000}, .limit = {0x9000}, .offset = {}, .file = builder->String(file)};
  mapping.has_functions = true;
  Profile::Location location;
  location.mapping = builder->Mapping(mapping);
  // Any number that differs between names will do.
  location.address = 0x1000 + HashBytes64(AsBytes(frame)) % 0x8000;
  std::vector<Profile::Line> lines;
  if (frame != "?") {
    for (const std::string_view name : Split(frame, '>')) {
      const FunctionId function = builder->Function({.name = builder->String(name),
                                                     .system_name = builder->String(name),
                                                     .file = builder->String("app.c"),
                                                     .start_line = 10});
      lines.insert(lines.begin(), {.function = function, .line = 12});
    }
  }
  return builder->Location(location, lines);
}

}  // namespace

Profile ProfileFromText(std::string_view text) {
  ProfileBuilder builder;
  builder.SampleType("samples", "count");
  builder.SampleType("cpu", "nanoseconds");
  builder.profile().default_sample_type = builder.String("cpu");
  for (const std::string_view line : Split(text, '\n')) {
    const size_t space = line.rfind(' ');
    if (space == std::string_view::npos) continue;
    int64_t value = 0;
    const std::string_view digits = line.substr(space + 1);
    CHECK(std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc());
    std::vector<LocationId> frames;
    for (const std::string_view frame : Split(line.substr(0, space), ';'))
      frames.push_back(AddFrame(frame, &builder));
    std::ranges::reverse(frames);
    builder.Add({builder.Stack(frames), builder.LabelSet({})}, std::vector<int64_t>{1, value});
  }
  return builder.Finish();
}

}  // namespace ptarmigan
