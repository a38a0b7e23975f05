// The stream on which messages of a call travel while its stages run, and the two events by which
// it and the caller's stream wait for each other.
#ifndef GQ_GPU_ENQUEUE_SIDE_STREAM_H
#define GQ_GPU_ENQUEUE_SIDE_STREAM_H

#include "src/gpu/device/device.h"

namespace gq {

/** A wait is for the newest record of its event: a stream that joins the messages sent so far does
 *  it before more are sent here, and need not wait for those. */
class SideStream {
 public:
  explicit SideStream(const Device& device) : device_(device) {}
  ~SideStream() {
    device_.end_event(forked_);
    device_.end_event(marked_);
    device_.end_stream(stream_);
  }
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  Status open() {
    GQ_TRY(device_.make_stream(&stream_));
    GQ_TRY(device_.make_event(&forked_));
    return device_.make_event(&marked_);
  }
  StreamHandle get() const { return stream_; }

  /** What is enqueued here from now on comes after everything on `stream`. */
  Status fork(StreamHandle stream) {
    GQ_TRY(device_.record(forked_, stream));
    GQ_TRY(device_.wait(stream_, forked_));
    unjoined_ = true;
    return Status();
  }
  /** join() is for what was enqueued here until now. */
  Status mark() { return device_.record(marked_, stream_); }
  Status join(StreamHandle stream) {
    GQ_TRY(device_.wait(stream, marked_));
    unjoined_ = false;
    return Status();
  }
  /** After a failure: `stream` comes after all that is here, as it does where nothing failed. */
  Status rejoin(StreamHandle stream) {
    if (!unjoined_) return Status();
    GQ_TRY(mark());
    return join(stream);
  }

  /** Leaves all of it to a device that does not get through. */
  void forget() { stream_ = forked_ = marked_ = nullptr; }

 private:
  const Device& device_;
  StreamHandle stream_ = nullptr;
  EventHandle forked_ = nullptr;
  EventHandle marked_ = nullptr;
  bool unjoined_ = false;  // work was enqueued here that no stream has joined
};

}  // namespace gq

#endif
