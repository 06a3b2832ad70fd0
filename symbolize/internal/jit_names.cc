#include "symbolize/internal/jit_names.h"

#include <charconv>

namespace ptarmigan::internal {
namespace {

// Takes ":<number>" off the end; false (and no change) if there is none.
bool TakeNumberAtEnd(std::string_view* text, uint32_t* number) {
  const size_t colon = text->rfind(':');
  if (colon == std::string_view::npos || colon + 1 == text->size()) return false;
  const std::string_view digits = text->substr(colon + 1);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), *number);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) return false;
  *text = text->substr(0, colon);
  return true;
}

// Where the place starts in "get size /app/x.js"; npos if there is none.
size_t FindPlace(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != ' ') continue;
    const std::string_view rest = text.substr(at + 1);
    if (rest.starts_with('/') || rest.starts_with("file:") || rest.starts_with("node:") ||
        rest.starts_with("evalmachine.")) {
      return at;
    }
  }
  return text.rfind(' ');
}

}  // namespace

void SplitJitName(std::string_view name, SourceFrame* frame) {
  *frame = SourceFrame();
  frame->system_name = name;
  frame->function = name;
  for (const std::string_view kind : {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"}) {
    if (!name.starts_with(kind)) continue;
    std::string_view rest = name.substr(kind.size());
    rest.remove_prefix(std::min(rest.find_first_not_of("~^+*'"), rest.size()));
    uint32_t column = 0;
    uint32_t line = 0;
    std::string_view place = rest;
    std::string_view function = rest;
    if (TakeNumberAtEnd(&place, &column) && TakeNumberAtEnd(&place, &line)) {
      const size_t at = FindPlace(place);
      function = at == std::string_view::npos ? std::string_view() : place.substr(0, at);
      place = at == std::string_view::npos ? place : place.substr(at + 1);
      if (place.starts_with("file://")) place.remove_prefix(7);
      frame->file = place;
      // The place is that of the function, not of the address.
      frame->start_line = line;
      frame->line = line;
      frame->column = column;
    }
    frame->function = function.empty() ? "(anonymous)" : function;
    return;
  }
}

}  // namespace ptarmigan::internal
