#include "net/transport.h"

#include "net/transport_impl.h"

namespace tributary::net {

std::string to_string(const Address& address) {
  const bool six = address.host.find(':') != std::string::npos;
  return (six ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

Result<void> TransportOptions::check() const {
  std::string faults;
  const auto require = [&](bool good, const std::string& fault) {
    if (!good) faults += (faults.empty() ? "" : "; ") + fault;
  };
  require(!run.empty(), "the run has no name");
  require(frames.max_control >= 1024, "frames.max_control is under 1024 bytes");
  require(frames.max_control <= std::size_t{64} << 20, "frames.max_control is over 64 MiB");
  require(frames.max_payload >= 1, "frames.max_payload is 0");
  require(queue.max_bulk_messages >= 1 && queue.max_control_messages >= 1, "a send queue of no messages");
  require(max_handshakes >= 1 && max_connections >= 1, "no connections allowed");
  require(handshake_timeout > Duration::zero(), "handshake_timeout is not positive");
  require(retry_first > Duration::zero(), "retry_first is not positive");
  require(retry_first <= retry_most, "retry_first is longer than retry_most");
  require(upload_bytes_per_s >= 0, "upload_bytes_per_s is negative");
  require(download_bytes_per_s >= 0, "download_bytes_per_s is negative");
  require(region.size() <= 64, "region is longer than 64 characters");
  if (!links.regions().empty() && !region.empty()) {
    bool known = false;
    std::string names;
    for (const auto& name : links.regions()) {
      known = known || name == region;
      names += (names.empty() ? "" : ", ") + name;
    }
    require(known, "region \"" + region + "\" is none of " + names);
  }
  if (!faults.empty()) return Error{"network options: " + faults};
  return {};
}

Transport::Transport(TransportOptions options, Callbacks callbacks)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(callbacks))) {}
Transport::~Transport() { stop(); }
Result<void> Transport::listen() { return impl_->listen(); }
std::uint16_t Transport::port() const { return impl_->port(); }
void Transport::set_address(NodeId node, Address address) { impl_->set_address(node, std::move(address)); }
void Transport::connect_seed(Address address) { impl_->connect_seed(std::move(address)); }
bool Transport::send(NodeId node, Message message) { return impl_->send(node, std::move(message)); }
void Transport::disconnect(NodeId node, std::string reason) { impl_->disconnect(node, std::move(reason)); }
void Transport::set_blackhole(NodeId node, bool on) { impl_->set_blackhole(node, on); }
void Transport::set_blackhole(bool on) { impl_->set_blackhole(on); }
bool Transport::flush(Duration at_most) { return impl_->flush(at_most); }
Counters Transport::counters() const { return impl_->counters(); }
void Transport::stop() { impl_->stop(); }

}  // namespace tributary::net
