// What a profile knows beside its samples (losses, quality, event totals) as comments of a pprof
// file, and back. One fact a line, described in docs/formats/pprof.md:
//
//   ptarmigan.samples: captured=120 kept=118
//   ptarmigan.lost: stage=kernel reason=ring_full unit=samples count=2
//   ptarmigan.event: name="cycles:u" samples=120 period_sum=120000
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/profile.h"

namespace ptarmigan::internal {

// Empty if nothing is known. The order depends on the content alone.
std::vector<std::string> FactComments(const Profile& profile);

// Adds what the line says to the profile's losses, quality or events and returns true. False, and
// nothing added, if it is another comment, or one of a newer version with words not known here.
bool ParseFactComment(std::string_view comment, Profile* profile);

}  // namespace ptarmigan::internal
