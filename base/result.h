// Result<T>: a T or an Error, with std::expected's names so that it can become an alias one day.
//
//   Result<Fd> OpenIt(const std::string& path);
//   TRY_ASSIGN(Fd fd, OpenIt(path));   // returns the Error from the enclosing function
//   TRY(Check(fd));                    // the same for a Status
//
// A discarded Result is a compiler warning. `value()` and `*` CHECK that there is one.
#pragma once

#include <utility>
#include <variant>

#include "base/check.h"
#include "base/error.h"

namespace ptarmigan {

template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & {
    CHECK(has_value());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    CHECK(has_value());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    CHECK(has_value());
    return std::move(*std::get_if<0>(&state_));
  }
  T value_or(T fallback) && { return has_value() ? std::move(*this).value() : std::move(fallback); }

  Error& error() & {
    CHECK(!has_value());
    return *std::get_if<1>(&state_);
  }
  const Error& error() const& {
    CHECK(!has_value());
    return *std::get_if<1>(&state_);
  }
  Error&& error() && {
    CHECK(!has_value());
    return std::move(*std::get_if<1>(&state_));
  }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error)
      : error_(std::move(error)), failed_(true) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return !failed_; }
  explicit operator bool() const { return has_value(); }
  Error& error() & {
    CHECK(failed_);
    return error_;
  }
  const Error& error() const& {
    CHECK(failed_);
    return error_;
  }
  Error&& error() && {
    CHECK(failed_);
    return std::move(error_);
  }

 private:
  Error error_{};
  bool failed_ = false;
};

using Status = Result<void>;
inline Status OkStatus() { return {}; }

}  // namespace ptarmigan

#define PTARMIGAN_CONCAT_(a, b) a##b
#define PTARMIGAN_CONCAT(a, b) PTARMIGAN_CONCAT_(a, b)

// Returns the error of `expr` from the enclosing function.
#define TRY(expr) TRY_STATUS_(PTARMIGAN_CONCAT(try_status_, __COUNTER__), expr)
#define TRY_STATUS_(name, expr)                 \
  do {                                          \
    if (auto name = (expr); !name) [[unlikely]] \
      return std::move(name).error();           \
  } while (false)

// Declares `decl` from the value of `expr`, or returns its error.
#define TRY_ASSIGN(decl, expr) TRY_ASSIGN_(PTARMIGAN_CONCAT(try_result_, __LINE__), decl, expr)
#define TRY_ASSIGN_(name, decl, expr) \
  auto name = (expr);                 \
  if (!name) [[unlikely]]             \
    return std::move(name).error();   \
  decl = std::move(name).value()
