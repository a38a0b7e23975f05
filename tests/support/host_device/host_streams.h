// Streams that are threads, the events between them, and captures: what is pushed on a captured
// stream, and on those that wait for its events, becomes part of a graph.
#ifndef GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_STREAMS_H
#define GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_STREAMS_H

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/host_device/host_stream.h"

namespace gq::test {

using Work = std::function<void()>;
/** What a graph has of a piece of work: makes one at each replay. */
using WorkMaker = std::function<Work()>;

class Capture;

class Stream : public HostStream {
 public:
  explicit Stream(int32_t of_ordinal);
  /** Waits for its work. */
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const int32_t ordinal;

  /** When the turn of `work` comes; into the graph if this stream is captured. */
  void run(Work work);
  /** Into the graph that this stream is captured for. */
  void run_at_replay(WorkMaker make);

  void begin_capture();
  /** Null if it is not captured. */
  std::shared_ptr<Capture> capture();
  void join_capture(const std::shared_ptr<Capture>& capture);
  void leave_capture();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  std::shared_ptr<Capture> capture_;
  bool closing_ = false;
  std::thread thread_;
};

/** The thread's current device; memory, streams and events belong to the one they were made on. */
inline thread_local int32_t current_ordinal = 0;

/** The stream of a handle; a null one is that of device 0. */
Stream& stream_of(void* handle);

/** 0 returns at once. */
void sleep_ms(int time_ms);

/** A graph, and while it is made the streams that are captured for it. */
class Capture {
 public:
  explicit Capture(Stream* origin) { branch_of(origin); }

  void add(Stream* stream, WorkMaker make);
  /** How much of every branch comes before what `stream` does next. */
  std::vector<size_t> known_to(Stream* stream);
  /** What `stream` does next comes after all of this. */
  void learn(Stream* stream, const std::vector<size_t>& known);
  /** Its streams are captured no longer. False if work of one of them has not come back to the
   *  stream that was captured first. */
  bool end();
  bool has_ended() const { return ended_; }
  /** All of it, in order; branches other than the first on streams of their own. */
  void replay(Stream* stream);
  /** What its work holds is given back. */
  void forget() { nodes_.clear(); }

 private:
  struct Node {
    size_t branch;
    WorkMaker make;
  };
  struct Branch {
    Stream* stream;
    std::vector<size_t> known;
    std::unique_ptr<Stream> at_replay;
  };
  size_t branch_of(Stream* stream);

  std::vector<Node> nodes_;
  std::deque<Branch> branches_;
  bool ended_ = false;
};

/** Records of an event that were asked for, and those that have come. */
struct EventState {
  explicit EventState(int32_t of_ordinal) : ordinal(of_ordinal) {}
  const int32_t ordinal;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0;
  uint64_t come = 0;
};

/** A record counts from when it is asked for; what waits, waits for the last one asked for. */
Work record_of(const std::shared_ptr<EventState>& state);
Work wait_of(const std::shared_ptr<EventState>& state);

/** An event of the device. Its last record may be part of a graph, and is a tie within it then. */
struct Event {
  explicit Event(int32_t ordinal) : state(std::make_shared<EventState>(ordinal)) {}
  std::shared_ptr<EventState> state;
  std::shared_ptr<EventState> captured;  ///< not null: the record is one of this capture
  std::shared_ptr<Capture> capture;
  std::vector<size_t> known;  ///< what came before it there
};

/** False where CUDA refuses it: a wait may not tie what is captured to what is not. */
void record(Event* event, Stream* stream);
bool wait(Stream* stream, const Event& event);

}  // namespace gq::test

#endif
