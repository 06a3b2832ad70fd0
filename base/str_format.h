// StrFormat("{} of {}", a, b): fmt's syntax, checked at compile time.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

namespace ptarmigan {

template <typename... Args>
std::string StrFormat(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}

}  // namespace ptarmigan
