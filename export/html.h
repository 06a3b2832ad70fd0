// The self-contained page: the profile as JSON (docs/formats/html-data.md) put into the template that room web
// builds. The page draws the call tree by (function, object), whatever process or address.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "export/sink.h"
#include "model/profile.h"

namespace ptarmigan {

struct HtmlOptions {
  std::string_view page = {};  // the template with its one placeholder
  size_t sample_type = 0;      // index of what is drawn first
  std::string title = {};
  // Compared against ("before"); needs the same sample types. Not owned.
  const Profile* other = nullptr;
  std::string other_title = {};
  // Above so many boxes, those below 1/20,000 of the total of every type are left out (and counted in the page);
  // the share doubles until enough are gone.
  size_t nodes_max = 200'000;
};

// kInvalidInput if the page has no placeholder or `other` has other sample types.
Status WriteHtml(const Profile& profile, const HtmlOptions& options, ByteSink* sink);
// The JSON object alone.
Status WriteHtmlJson(const Profile& profile, const HtmlOptions& options, ByteSink* sink);

}  // namespace ptarmigan
