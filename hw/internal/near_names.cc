#include "hw/internal/near_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ptarmigan::internal {
namespace {

constexpr size_t kNamesShownMax = 3;
constexpr size_t kNameBytesMax =
    128;  // longer ones are not compared: the distance costs length squared

size_t EditDistance(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::string DidYouMean(std::string_view wrong, const std::vector<std::string>& known) {
  if (wrong.empty() || wrong.size() > kNameBytesMax) return "";
  std::vector<std::pair<size_t, std::string_view>> near;
  for (const std::string& name : known) {
    if (name.size() > kNameBytesMax) continue;
    const size_t distance = EditDistance(wrong, name);
    const bool contains = wrong.size() >= 3 && name.find(wrong) != std::string::npos;
    if (distance <= std::max<size_t>(wrong.size() / 3, 1) || contains)
      near.emplace_back(distance, name);
  }
  if (near.empty()) return "";
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  near.resize(std::min(near.size(), kNamesShownMax));
  std::string text = "; did you mean ";
  for (size_t i = 0; i < near.size(); ++i) {
    if (i > 0) text += i + 1 == near.size() ? " or " : ", ";
    text += near[i].second;
  }
  return text + "?";
}

}  // namespace ptarmigan::internal
