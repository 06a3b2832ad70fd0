#include "decode/internal/window_join.h"

#include <algorithm>

#include "base/check.h"

namespace ptarmigan::internal {

size_t OverlapBytes(Bytes before, Bytes window) {
  if (before.size() > window.size()) before = before.last(window.size());
  if (window.empty()) return 0;
  // The longest suffix of `before` that begins `window` (Knuth, Morris, Pratt).
  std::vector<uint32_t> border(window.size(), 0);
  for (size_t i = 1, length = 0; i < window.size(); ++i) {
    while (length > 0 && window[i] != window[length]) length = border[length - 1];
    if (window[i] == window[length]) ++length;
    border[i] = static_cast<uint32_t>(length);
  }
  size_t length = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    while (length > 0 && (length == window.size() || before[i] != window[length])) {
      length = border[length - 1];
    }
    if (before[i] == window[length]) ++length;
  }
  return length;
}

WindowJoin::Joined WindowJoin::Add(const RecordIdentity& identity, Bytes window) {
  CHECK(!sync_.empty());
  const auto [found, is_new] = last_run_.try_emplace({identity.tid, identity.cpu}, runs_.size());
  if (!is_new) {
    Run& run = runs_[found->second];
    const size_t overlap = OverlapBytes(Bytes(run.bytes).subspan(run.last_window), window);
    const Bytes shared = window.first(overlap);
    // (Not std::ranges::search: clang 14 cannot instantiate GCC 12's.)
    if (std::search(shared.begin(), shared.end(), sync_.begin(), sync_.end()) != shared.end()) {
      run.last_window = run.bytes.size() - overlap;
      run.bytes.insert(run.bytes.end(), window.begin() + static_cast<ptrdiff_t>(overlap),
                       window.end());
      run.identity = identity;
      return {.new_bytes = window.size() - overlap, .continues = true};
    }
    found->second = runs_.size();
  }
  Run& run = runs_.emplace_back();
  run.identity = identity;
  run.bytes.assign(window.begin(), window.end());
  return {.new_bytes = window.size()};
}

}  // namespace ptarmigan::internal
