#include "flow/gwtf_words.h"

namespace tributary::flow::gwtf {
namespace {

// One description of each message serves both ways: `put` for a writer, `get` for a reader.
struct Put {
  WordWriter& out;
  void word(const std::uint64_t& v) { out.put(v); }
  void word(const std::uint32_t& v) { out.put(v); }
  void flag(const bool& v) { out.put(v); }
  void cost(const Cost& v) { out.put_cost(v); }
  void real(const double& v) { out.put_real(v); }
  template <class T, class Each>
  void list(const std::vector<T>& v, std::size_t, Each&& each) {
    out.put(v.size());
    for (const auto& item : v) each(item);
  }
  template <class T, class Each>
  void maybe(const std::optional<T>& v, Each&& each) {
    out.put(v.has_value());
    if (v) each(*v);
  }
};
struct Get {
  WordReader& in;
  void word(std::uint64_t& v) { v = in.get(); }
  void word(std::uint32_t& v) { v = in.get32(); }
  void flag(bool& v) { v = in.get_bool(); }
  void cost(Cost& v) { v = in.get_cost(0, kMostPathCost); }
  void real(double& v) { v = in.get_real(); }
  template <class T, class Each>
  void list(std::vector<T>& v, std::size_t words_each, Each&& each) {
    v.resize(in.get_count(words_each));
    for (auto& item : v) each(item);
  }
  template <class T, class Each>
  void maybe(std::optional<T>& v, Each&& each) {
    if (in.get_bool()) each(v.emplace());
  }
};

template <class Io>
struct Fields {
  Io io;

  void ref(auto& v) { io.word(v.node), io.word(v.hop); }
  void priced(auto& v) { io.word(v.first), io.cost(v.second); }
  void priced_list(auto& v) {
    io.list(v, 2, [&](auto& item) { priced(item); });
  }

  void offer(auto& v) { io.word(v.version), priced_list(v.paths); }
  void visit(auto& v) {
    using T = std::remove_const_t<std::remove_reference_t<decltype(v)>>;
    const auto ref_of = [&](auto& hop) { ref(hop); };
    if constexpr (std::is_same_v<T, Offer>) {
      offer(v);
    } else if constexpr (std::is_same_v<T, Willing>) {
      io.word(v.version), io.flag(v.willing);
    } else if constexpr (std::is_same_v<T, Claim>) {
      io.word(v.target), io.cost(v.most), io.word(v.hop);
    } else if constexpr (std::is_same_v<T, Claimed>) {
      io.word(v.hop), io.word(v.given), io.cost(v.cost), io.word(v.cost_version), offer(v.offer);
    } else if constexpr (std::is_same_v<T, Release> || std::is_same_v<T, Broken>) {
      io.word(v.hop), ref(v.by);
    } else if constexpr (std::is_same_v<T, CostChange>) {
      io.word(v.hop), ref(v.from), io.cost(v.cost), io.word(v.cost_version);
    } else if constexpr (std::is_same_v<T, Prepare>) {
      io.word(v.transaction), io.word(v.hop), io.maybe(v.last, ref_of), io.maybe(v.next, ref_of), io.flag(v.take_room);
    } else if constexpr (std::is_same_v<T, Vote>) {
      io.word(v.transaction), io.word(v.hop), io.flag(v.yes), io.word(v.made);
    } else if constexpr (std::is_same_v<T, Commit>) {
      io.word(v.transaction), io.word(v.hop), io.maybe(v.last, ref_of), io.maybe(v.next, ref_of);
      io.maybe(v.target, [&](auto& target) { io.word(target); });
      io.flag(v.free);
    } else if constexpr (std::is_same_v<T, Abort>) {
      io.word(v.transaction), io.word(v.hop);
    } else {
      static_assert(std::is_same_v<T, Propose>);
      io.list(v.carried, 6, [&](auto& hop) { io.word(hop.hop), io.word(hop.target), ref(hop.last), ref(hop.next); });
      io.flag(v.room), io.real(v.temperature);
    }
  }
};

template <class T>
Body read(WordReader& in) {
  T message{};
  Fields<Get> fields{{in}};
  if constexpr (std::is_same_v<T, Proposed>) {
    message.outcome = static_cast<Outcome>(in.get(static_cast<std::uint64_t>(Outcome::kAborted)));
  } else {
    fields.visit(message);
  }
  if constexpr (std::is_same_v<T, Propose>) {
    LinkCosts costs;
    fields.priced_list(costs.to_next), fields.priced_list(costs.from_last);
    for (const auto* list : {&costs.to_next, &costs.from_last})
      if (!std::is_sorted(list->begin(), list->end())) in.fail();
    message.costs = std::make_shared<const LinkCosts>(std::move(costs));
  }
  return Body(std::in_place_type<T>, std::move(message));
}

template <std::size_t... kIndex>
Body read_kind(std::size_t kind, WordReader& in, std::index_sequence<kIndex...>) {
  Body body;
  ((kind == kIndex ? void(body = read<std::variant_alternative_t<kIndex, Body>>(in)) : void()), ...);
  return body;
}

}  // namespace

Words to_words(const Body& body) {
  WordWriter out;
  out.put(body.index());
  Fields<Put> fields{{out}};
  std::visit(
      [&](const auto& message) {
        using T = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<T, Proposed>) {
          out.put(static_cast<std::uint64_t>(message.outcome));
        } else {
          fields.visit(message);
        }
        if constexpr (std::is_same_v<T, Propose>) {
          fields.priced_list(message.costs->to_next), fields.priced_list(message.costs->from_last);
        }
      },
      body);
  return out.take();
}

std::optional<Body> from_words(std::span<const std::uint64_t> words) {
  WordReader in(words);
  const auto kind = static_cast<std::size_t>(in.get(std::variant_size_v<Body> - 1));
  if (!in.good()) return std::nullopt;
  auto body = read_kind(kind, in, std::make_index_sequence<std::variant_size_v<Body>>());
  if (!in.done()) return std::nullopt;
  return body;
}

}  // namespace tributary::flow::gwtf
