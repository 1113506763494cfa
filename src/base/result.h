// Result<T>: a value, or an error that says what is wrong, where, and what to do. For everything that peers, disks and
// users can cause; what only this program can cause is an assertion (check.h).
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace tributary {

struct Error {
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  // Requires ok().
  T& value() & {
    TRIBUTARY_CHECK(ok(), error().message);
    return std::get<0>(state_);
  }
  const T& value() const& {
    TRIBUTARY_CHECK(ok(), error().message);
    return std::get<0>(state_);
  }
  T&& value() && {
    TRIBUTARY_CHECK(ok(), error().message);
    return std::get<0>(std::move(state_));
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  // Requires !ok().
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace tributary
