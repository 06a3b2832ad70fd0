// Near names for messages: "did you mean …".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ptarmigan::internal {

// "; did you mean a, b or c?" with at most three of `known` that are close to `wrong` (edit distance up to a third of
// its length, or one contains the other), nearest first; empty if none is.
std::string DidYouMean(std::string_view wrong, const std::vector<std::string>& known);

}  // namespace ptarmigan::internal
