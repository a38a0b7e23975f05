// A transport that passes everything on to another one: tests override what they spoil.
#ifndef GQ_TESTS_UNIT_EXECUTE_WRAPPED_TRANSPORT_H
#define GQ_TESTS_UNIT_EXECUTE_WRAPPED_TRANSPORT_H

#include <memory>
#include <utility>

#include "src/transport/host_transport.h"

namespace gq {

class WrappedTransport : public HostTransport {
 public:
  explicit WrappedTransport(std::unique_ptr<HostTransport> inner) : inner_(std::move(inner)) {
    set_group_rank({inner_->rank(), inner_->size(), inner_->tag()});
  }

  bool reads_in_place() const override { return inner_->reads_in_place(); }
  Status arena(size_t size_bytes, unsigned char** base) override {
    return inner_->arena(size_bytes, base);
  }
  Status send_control(uint64_t sequence, const ControlMessage& message) override {
    return inner_->send_control(sequence, message);
  }
  Status receive_control(uint32_t peer, uint64_t sequence, ControlMessage* message,
                         bool* there) override {
    return inner_->receive_control(peer, sequence, message, there);
  }
  Status send(const Message& message) override { return inner_->send(message); }
  Status expect(const Message& message) override { return inner_->expect(message); }
  Status receive(const Message& message, const unsigned char** words) override {
    return inner_->receive(message, words);
  }
  const unsigned char* view(const Message& message) const override { return inner_->view(message); }
  Status flushed(bool* done) override { return inner_->flushed(done); }
  Status wait(uint32_t slice_us) override { return inner_->wait(slice_us); }
  Status check() override { return inner_->check(); }
  void abort_group(gqsgd_status cause, uint32_t culprit) override {
    inner_->abort_group(cause, culprit);
  }
  uint32_t culprit_behind(uint32_t peer) const override { return inner_->culprit_behind(peer); }
  TransportCounters counters() const override { return inner_->counters(); }

 private:
  std::unique_ptr<HostTransport> inner_;
};

}  // namespace gq

#endif
