#include "wire/codec.h"

#include <bit>

#define MSGPACK_NO_BOOST
#include <msgpack.hpp>

// How each struct is an array of its fields. A new field goes to the end; the version in the handshake tells who has
// it.
#define TRIBUTARY_FIELDS(Type, ...)                 \
  template <>                                       \
  struct Fields<Type> {                             \
    template <class Visitor>                        \
    static void visit(auto& v, Visitor&& visitor) { \
      auto& [__VA_ARGS__] = v;                      \
      visitor(__VA_ARGS__);                         \
    }                                               \
  };

namespace tributary::wire {
namespace {

template <class T>
struct Fields;
TRIBUTARY_FIELDS(Stamp, a, b)
TRIBUTARY_FIELDS(Member, a, b, c, d, e, f)
TRIBUTARY_FIELDS(Plan, a, b, c)
TRIBUTARY_FIELDS(StageResult, a, b)
TRIBUTARY_FIELDS(Commit, a, b, c, d, e, f, g, h, i, j, k)
TRIBUTARY_FIELDS(Start, a, b, c)
TRIBUTARY_FIELDS(Exclude, a, b, c)
TRIBUTARY_FIELDS(Admit, a, b, c)
TRIBUTARY_FIELDS(CheckpointComplete, a, b)
TRIBUTARY_FIELDS(LogEntry, a, b)
TRIBUTARY_FIELDS(Ledger, a, b, c, d, e, f, g, h, i)
TRIBUTARY_FIELDS(VoteRequest, a, b, c, d)
TRIBUTARY_FIELDS(VoteReply, a, b, c)
TRIBUTARY_FIELDS(AppendRequest, a, b, c, d, e, f)
TRIBUTARY_FIELDS(AppendReply, a, b, c)
TRIBUTARY_FIELDS(Ping, a)
TRIBUTARY_FIELDS(Pong, a, b, c)
TRIBUTARY_FIELDS(SavedState, a, b)
TRIBUTARY_FIELDS(Hello, a, b, c, d, e, f, g, h, i, j)
TRIBUTARY_FIELDS(HelloReply, a, b, c, d)
TRIBUTARY_FIELDS(Leave, a)
TRIBUTARY_FIELDS(LedgerUpdate, a, b)
TRIBUTARY_FIELDS(LedgerTail, a, b, c)
TRIBUTARY_FIELDS(Assignment, a, b, c, d)
TRIBUTARY_FIELDS(Owned, a, b)
TRIBUTARY_FIELDS(Share, a, b, c)
TRIBUTARY_FIELDS(Orders, a, b, c, d, e, f, g, h, i)
TRIBUTARY_FIELDS(LinkSample, a, b, c)
TRIBUTARY_FIELDS(Report, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y, z)
TRIBUTARY_FIELDS(Forward, a, b, c, d, e, f)
TRIBUTARY_FIELDS(Backward, a, b, c, d, e)
TRIBUTARY_FIELDS(Want, a, b, c, d, e, f, g)
TRIBUTARY_FIELDS(Partial, a, b, c, d, e)
TRIBUTARY_FIELDS(Gathered, a, b, c, d, e)
TRIBUTARY_FIELDS(WantResult, a, b, c, d)
TRIBUTARY_FIELDS(WantState, a, b, c, d)
TRIBUTARY_FIELDS(StateChunk, a, b, c, d, e)
TRIBUTARY_FIELDS(NoState, a, b, c)
TRIBUTARY_FIELDS(Addresses::Entry, a, b, c)
TRIBUTARY_FIELDS(Addresses, a)
TRIBUTARY_FIELDS(Evaluate, a, b, c, d)
TRIBUTARY_FIELDS(FlowPiece, a, b, c, d)
TRIBUTARY_FIELDS(Routing, a, b)
TRIBUTARY_FIELDS(DurableLog, a, b, c, d, e)

template <>
struct Fields<NewTerm> {
  template <class Visitor>
  static void visit(auto&, Visitor&& visitor) {
    visitor();
  }
};

// Counts where another stores.
struct Counter {
  std::size_t bytes = 0;
  void write(const char*, std::size_t size) { bytes += size; }
};
template <class Sink>
using Packer = msgpack::packer<Sink>;

template <class Sink>
void put(Packer<Sink>& out, bool v) {
  v ? out.pack_true() : out.pack_false();
}
template <class Sink>
void put(Packer<Sink>& out, std::uint16_t v) {
  out.pack(v);
}
template <class Sink>
void put(Packer<Sink>& out, std::uint32_t v) {
  out.pack(v);
}
template <class Sink>
void put(Packer<Sink>& out, std::uint64_t v) {
  out.pack(v);
}
// As bits: every replica must read the very same number, and msgpack's own doubles may come back as integers.
template <class Sink>
void put(Packer<Sink>& out, double v) {
  out.pack(std::bit_cast<std::uint64_t>(v));
}
template <class Sink>
void put(Packer<Sink>& out, const std::string& v) {
  out.pack(v);
}
template <class Sink, class Tag, class Rep>
void put(Packer<Sink>& out, StrongId<Tag, Rep> v) {
  out.pack(v.value());
}
template <class Sink, class T>
void put(Packer<Sink>& out, const T& v);
template <class Sink, class T>
void put(Packer<Sink>& out, const std::vector<T>& v) {
  out.pack_array(static_cast<std::uint32_t>(v.size()));
  for (const auto& item : v) put(out, item);
}
template <class Sink, class T>
void put(Packer<Sink>& out, const std::optional<T>& v) {
  if (v) {
    put(out, *v);
  } else {
    out.pack_nil();
  }
}
template <class Sink, class... Ts>
void put(Packer<Sink>& out, const std::variant<Ts...>& v) {
  out.pack_array(2);
  out.pack(static_cast<std::uint32_t>(v.index()));
  std::visit([&](const auto& alternative) { put(out, alternative); }, v);
}
template <class Sink, class T>
void put(Packer<Sink>& out, const T& v) {
  Fields<T>::visit(v, [&](const auto&... fields) {
    out.pack_array(sizeof...(fields));
    (put(out, fields), ...);
  });
}

[[noreturn]] void bad(const char* why) { throw std::invalid_argument(why); }

std::uint64_t number(const msgpack::object& in, std::uint64_t most) {
  if (in.type != msgpack::type::POSITIVE_INTEGER) bad("a field is not a non-negative integer");
  if (in.via.u64 > most) bad("an integer is out of range");
  return in.via.u64;
}
void get(const msgpack::object& in, bool& v) {
  if (in.type != msgpack::type::BOOLEAN) bad("a field is not a boolean");
  v = in.via.boolean;
}
void get(const msgpack::object& in, std::uint16_t& v) { v = static_cast<std::uint16_t>(number(in, 0xffff)); }
void get(const msgpack::object& in, std::uint32_t& v) { v = static_cast<std::uint32_t>(number(in, 0xffffffff)); }
void get(const msgpack::object& in, std::uint64_t& v) { v = number(in, ~std::uint64_t{0}); }
void get(const msgpack::object& in, double& v) { v = std::bit_cast<double>(number(in, ~std::uint64_t{0})); }
void get(const msgpack::object& in, std::string& v) {
  if (in.type != msgpack::type::STR) bad("a field is not a string");
  v.assign(in.via.str.ptr, in.via.str.size);
}
template <class Tag, class Rep>
void get(const msgpack::object& in, StrongId<Tag, Rep>& v) {
  Rep value;
  get(in, value);
  v = StrongId<Tag, Rep>(value);
}
template <class T>
void get(const msgpack::object& in, T& v);
template <class T>
void get(const msgpack::object& in, std::vector<T>& v) {
  if (in.type != msgpack::type::ARRAY) bad("a field is not an array");
  v.clear();
  for (std::uint32_t i = 0; i < in.via.array.size; ++i) get(in.via.array.ptr[i], v.emplace_back());
}
template <class T>
void get(const msgpack::object& in, std::optional<T>& v) {
  if (in.type == msgpack::type::NIL) {
    v.reset();
  } else {
    get(in, v.emplace());
  }
}
void get(const msgpack::object& in, Routing& v);
template <class... Ts>
void get(const msgpack::object& in, std::variant<Ts...>& v) {
  if (in.type != msgpack::type::ARRAY || in.via.array.size != 2) bad("not a [type, fields] pair");
  const auto index = number(in.via.array.ptr[0], sizeof...(Ts) - 1);
  std::size_t i = 0;
  ((i++ == index ? get(in.via.array.ptr[1], v.template emplace<Ts>()) : void()), ...);
}
template <class T>
void get(const msgpack::object& in, T& v) {
  Fields<T>::visit(v, [&](auto&... fields) {
    if (in.type != msgpack::type::ARRAY || in.via.array.size < sizeof...(fields)) bad("too few fields");
    [[maybe_unused]] std::uint32_t i = 0;
    (get(in.via.array.ptr[i++], fields), ...);
  });
}

void get(const msgpack::object& in, Routing& v) {
  get<Routing>(in, v);
  if (v.words.size() > kMostRoutingWords) bad("a routing message is too long");
}

template <class T>
std::vector<std::byte> encode_any(const T& v) {
  msgpack::sbuffer buffer;
  Packer<msgpack::sbuffer> packer(buffer);
  put(packer, v);
  const auto* bytes = reinterpret_cast<const std::byte*>(buffer.data());
  return {bytes, bytes + buffer.size()};
}

template <class T>
Result<T> decode_any(std::span<const std::byte> bytes, const DecodeLimits& limits) {
  if (bytes.size() > limits.bytes)
    return Error{"message of " + std::to_string(bytes.size()) + " bytes is over the limit"};
  try {
    const msgpack::unpack_limit bounds(limits.items, limits.items, limits.text, limits.text, limits.text, limits.depth);
    std::size_t offset = 0;
    const auto handle =
        msgpack::unpack(reinterpret_cast<const char*>(bytes.data()), bytes.size(), offset, nullptr, nullptr, bounds);
    if (offset != bytes.size()) return Error{"message has bytes after its end"};
    T value;
    get(handle.get(), value);
    return value;
  } catch (const std::exception& e) {
    return Error{std::string("malformed message: ") + e.what()};
  }
}

}  // namespace

std::vector<std::byte> encode(const Body& body) { return encode_any(body); }
std::size_t encoded_size(const Body& body) {
  Counter counter;
  Packer<Counter> packer(counter);
  put(packer, body);
  return counter.bytes;
}
Result<Body> decode(std::span<const std::byte> bytes, const DecodeLimits& limits) {
  return decode_any<Body>(bytes, limits);
}
std::vector<std::byte> encode_ledger(const Ledger& ledger) { return encode_any(ledger); }
Result<Ledger> decode_ledger(std::span<const std::byte> bytes) { return decode_any<Ledger>(bytes, {}); }
std::vector<std::byte> encode_log(const DurableLog& log) { return encode_any(log); }
Result<DurableLog> decode_log(std::span<const std::byte> bytes) {
  return decode_any<DurableLog>(bytes, {.bytes = 64 << 20});
}

const char* name_of(const Body& body) {
  static constexpr const char* kNames[] = {"VoteRequest", "VoteReply", "AppendRequest", "AppendReply", "Ping",
                                           "Pong",        "Hello",     "HelloReply",    "Leave",       "LedgerUpdate",
                                           "Orders",      "Report",    "Forward",       "Backward",    "Want",
                                           "Partial",     "Gathered",  "WantResult",    "WantState",   "StateChunk",
                                           "NoState",     "Addresses", "Evaluate",      "LedgerTail",  "Routing"};
  static_assert(std::size(kNames) == std::variant_size_v<Body>);
  return kNames[body.index()];
}

}  // namespace tributary::wire
