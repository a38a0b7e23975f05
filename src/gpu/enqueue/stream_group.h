// One rank's end of a group as its calls on streams see it: the order of these calls, the host's
// waits for its own device, and what breaks the group.
#ifndef GQ_GPU_ENQUEUE_STREAM_GROUP_H
#define GQ_GPU_ENQUEUE_STREAM_GROUP_H

#include "src/execute/endpoint.h"
#include "src/transport/stream/stream_transport.h"

namespace gq {

/** Calls follow each other whatever streams they are on: they share memory and messages. */
class StreamGroup {
 public:
  /** How long a stream may take to end once its messages are given up. */
  static constexpr int64_t kGraceMs = 1000;

  StreamGroup(Endpoint* endpoint, StreamTransport* transport)
      : endpoint_(*endpoint), transport_(*transport), device_(transport->device()) {}
  ~StreamGroup() { device_.end_event(last_call_); }
  StreamGroup(const StreamGroup&) = delete;
  StreamGroup& operator=(const StreamGroup&) = delete;

  Status open() { return device_.make_event(&last_call_); }

  Endpoint& endpoint() const { return endpoint_; }
  StreamTransport& transport() const { return transport_; }
  const Device& device() const { return device_; }

  /** Whether messages of a call travel while its stages run. Where hosts synchronize in every
   *  exchange there is nothing to overlap: stages are enqueued after. */
  bool overlaps() const { return !transport_.agrees_on_host(); }

  /** What `stream` gets from now on comes after the last call; `captured`: in each replay. */
  Status follow_last_call(StreamHandle stream, bool captured = false) const {
    return (captured ? device_.wait_in_graph : device_.wait)(stream, last_call_);
  }
  /** What is on `stream` now belongs to the last call. */
  Status end_call(StreamHandle stream, bool captured = false) const {
    return (captured ? device_.record_in_graph : device_.record)(last_call_, stream);
  }
  /** On the host. */
  Status wait_for_last_call() {
    return last_call_ == nullptr ? Status() : wait_on_host(last_call_, "earlier calls to end");
  }
  /** Whether it ends within the grace period of a group that is given up. */
  bool last_call_ends() const { return ends(last_call_); }

  /** With the group's deadline; `what` is awaited. */
  Status wait_on_host(EventHandle event, const char* what);
  /** Whether `event` comes within the grace period. */
  bool ends(EventHandle event) const;
  Status timed_out(int64_t timeout_ms, const char* what) const;

  /** A failure that ranks share leaves the group as it was; any other one breaks it. */
  Status break_on(Status status);
  /** Whatever it is, of one that ranks do not share, or that the transport has found. */
  Status break_with(Status status);
  /** What made kernels exit after their call had returned. It breaks the group. */
  Status late_failure_of_kernels();

 private:
  Endpoint& endpoint_;
  StreamTransport& transport_;
  const Device& device_;
  EventHandle last_call_ = nullptr;  // behind it
};

}  // namespace gq

#endif
