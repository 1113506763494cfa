// Messages with random content, every field of them, through RapidCheck.
#pragma once
#include <rapidcheck.h>

#include <bit>
#include <tuple>
#include <type_traits>
#include <utility>

#include "wire/codec.h"

namespace tributary::wire {

// Any value of a wire type. Sizes of lists stay small: what matters is each combination of empty and full.
template <class T>
struct Any {
  static T value();
};

template <class T>
T any() {
  return Any<T>::value();
}

template <class T>
T any_number() {
  // Small and huge alike, so that every width of msgpack's integers is met.
  const auto bits = *rc::gen::inRange(0, static_cast<int>(8 * sizeof(T)) + 1);
  const auto word = *rc::gen::arbitrary<std::uint64_t>();
  return static_cast<T>(bits == 0 ? 0 : word >> (64 - bits));
}
template <>
struct Any<bool> {
  static bool value() { return *rc::gen::arbitrary<bool>(); }
};
template <>
struct Any<std::uint16_t> {
  static std::uint16_t value() { return any_number<std::uint16_t>(); }
};
template <>
struct Any<std::uint32_t> {
  static std::uint32_t value() { return any_number<std::uint32_t>(); }
};
template <>
struct Any<std::uint64_t> {
  static std::uint64_t value() { return any_number<std::uint64_t>(); }
};
template <>
struct Any<double> {
  static double value() { return *rc::gen::element(0.0, -0.0, 1.0, 3.0, 1e300, -1e-300, 0.1, 1.0 / 3); }
};
template <>
struct Any<std::string> {
  static std::string value() { return *rc::gen::container<std::string>(rc::gen::arbitrary<char>()); }
};
template <class Tag, class Rep>
struct Any<StrongId<Tag, Rep>> {
  static StrongId<Tag, Rep> value() { return StrongId<Tag, Rep>(any<Rep>()); }
};
template <class T>
struct Any<std::vector<T>> {
  static std::vector<T> value() {
    std::vector<T> out;
    const auto count = *rc::gen::inRange(0, 4);
    for (int i = 0; i < count; ++i) out.push_back(any<T>());
    return out;
  }
};
template <class T>
struct Any<std::optional<T>> {
  static std::optional<T> value() { return any<bool>() ? std::optional<T>(any<T>()) : std::nullopt; }
};
template <class... Ts>
struct Any<std::variant<Ts...>> {
  static std::variant<Ts...> value() {
    const auto index = *rc::gen::inRange<std::size_t>(0, sizeof...(Ts));
    std::variant<Ts...> out;
    std::size_t i = 0;
    ((i++ == index ? void(out = any<Ts>()) : void()), ...);
    return out;
  }
};

// Every field of a struct, through a binding: a new field makes this fail to compile until it is listed.
#define TRIBUTARY_ANY(Type, ...)    \
  template <>                       \
  struct Any<Type> {                \
    static auto fields(auto& v) {   \
      auto& [__VA_ARGS__] = v;      \
      return std::tie(__VA_ARGS__); \
    }                               \
    static Type value() {           \
      Type v;                       \
      fill(fields(v));              \
      return v;                     \
    }                               \
  };
template <class... Fields>
void fill(std::tuple<Fields&...> fields) {
  std::apply([](auto&... field) { ((field = any<std::decay_t<decltype(field)>>()), ...); }, fields);
}
TRIBUTARY_ANY(Stamp, a, b)
TRIBUTARY_ANY(Member, a, b, c, d, e, f)
TRIBUTARY_ANY(Plan, a, b, c)
TRIBUTARY_ANY(StageResult, a, b)
TRIBUTARY_ANY(Commit, a, b, c, d, e, f, g, h, i, j, k)
TRIBUTARY_ANY(Start, a, b, c)
TRIBUTARY_ANY(Exclude, a, b, c)
TRIBUTARY_ANY(Admit, a, b, c)
TRIBUTARY_ANY(CheckpointComplete, a, b)
TRIBUTARY_ANY(LogEntry, a, b)
TRIBUTARY_ANY(Ledger, a, b, c, d, e, f, g, h, i)
TRIBUTARY_ANY(VoteRequest, a, b, c, d)
TRIBUTARY_ANY(VoteReply, a, b, c)
TRIBUTARY_ANY(AppendRequest, a, b, c, d, e, f)
TRIBUTARY_ANY(AppendReply, a, b, c)
TRIBUTARY_ANY(Ping, a)
TRIBUTARY_ANY(Pong, a, b, c)
TRIBUTARY_ANY(SavedState, a, b)
TRIBUTARY_ANY(Hello, a, b, c, d, e, f, g, h, i, j)
TRIBUTARY_ANY(HelloReply, a, b, c, d)
TRIBUTARY_ANY(Leave, a)
TRIBUTARY_ANY(LedgerUpdate, a, b)
TRIBUTARY_ANY(LedgerTail, a, b, c)
TRIBUTARY_ANY(Assignment, a, b, c, d)
TRIBUTARY_ANY(Owned, a, b)
TRIBUTARY_ANY(Share, a, b, c)
TRIBUTARY_ANY(Orders, a, b, c, d, e, f, g, h, i)
TRIBUTARY_ANY(LinkSample, a, b, c)
TRIBUTARY_ANY(Report, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y, z)
TRIBUTARY_ANY(FlowPiece, a, b, c, d)
TRIBUTARY_ANY(Routing, a, b)
TRIBUTARY_ANY(Forward, a, b, c, d, e, f)
TRIBUTARY_ANY(Backward, a, b, c, d, e)
TRIBUTARY_ANY(Want, a, b, c, d, e, f, g)
TRIBUTARY_ANY(Partial, a, b, c, d, e)
TRIBUTARY_ANY(Gathered, a, b, c, d, e)
TRIBUTARY_ANY(WantResult, a, b, c, d)
TRIBUTARY_ANY(WantState, a, b, c, d)
TRIBUTARY_ANY(StateChunk, a, b, c, d, e)
TRIBUTARY_ANY(NoState, a, b, c)
TRIBUTARY_ANY(Addresses::Entry, a, b, c)
TRIBUTARY_ANY(Addresses, a)
TRIBUTARY_ANY(Evaluate, a, b, c, d)
TRIBUTARY_ANY(DurableLog, a, b, c, d, e)
#undef TRIBUTARY_ANY
template <>
struct Any<NewTerm> {
  static auto fields(auto&) { return std::tuple<>(); }
  static NewTerm value() { return {}; }
};

// Equal in every field, doubles in every bit.
template <class T>
bool same(const T& x, const T& y) {
  if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  } else if constexpr (requires { Any<T>::fields(x); }) {
    const auto pairs = [&]<std::size_t... I>(std::index_sequence<I...>) {
      [[maybe_unused]] const auto a = Any<T>::fields(x), b = Any<T>::fields(y);
      return (same(std::get<I>(a), std::get<I>(b)) && ...);
    };
    return pairs(std::make_index_sequence<std::tuple_size_v<decltype(Any<T>::fields(x))>>{});
  } else {
    return x == y;
  }
}
template <class T>
bool same(const std::vector<T>& x, const std::vector<T>& y) {
  bool equal = x.size() == y.size();
  for (std::size_t i = 0; equal && i < x.size(); ++i) equal = same<T>(x[i], y[i]);
  return equal;
}
template <class T>
bool same(const std::optional<T>& x, const std::optional<T>& y) {
  return x.has_value() == y.has_value() && (!x || same(*x, *y));
}
template <class... Ts>
bool same(const std::variant<Ts...>& x, const std::variant<Ts...>& y) {
  return x.index() == y.index() &&
         std::visit([&](const auto& value) { return same(value, std::get<std::decay_t<decltype(value)>>(y)); }, x);
}

template <class... Ts>
Body any_body(std::size_t index, std::type_identity<std::variant<Ts...>>) {
  Body body;
  std::size_t i = 0;
  ((i++ == index ? void(body = any<Ts>()) : void()), ...);
  return body;
}
inline Body any_body(std::size_t index) { return any_body(index, std::type_identity<Body>{}); }

}  // namespace tributary::wire
