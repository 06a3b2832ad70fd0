// What the JSON views share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "model/profile.h"

namespace ptarmigan::internal {

using Json = nlohmann::ordered_json;

inline Json EventsJson(const Profile& profile) {
  Json events = Json::array();
  for (const EventTotal& event : profile.events) {
    events.push_back(
        {{"name", event.name}, {"samples", event.samples}, {"period_sum", event.period_sum}});
  }
  return events;
}

inline std::string DumpJson(const Json& json) {
  // Names come from foreign files: bytes that are not UTF-8 are replaced, never thrown about.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ptarmigan::internal
