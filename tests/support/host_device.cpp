// Threads for streams, a set for memory, a counter for events.
#include "tests/support/host_device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/cuda/agreement.cuh"
#include "kernels/stages.h"
#include "tests/support/host_stream.h"

namespace gq::test {
namespace {

using Operation = std::function<void()>;
/** What a graph has of an operation: makes one at each replay. */
using Operations = std::vector<std::function<Operation()>>;

/** The thread's current device; memory, streams and events belong to the one they were made on. */
thread_local int32_t ordinal_now = 0;

class Stream : public HostStream {
 public:
  explicit Stream(int32_t of_ordinal)
      : HostStream{take}, ordinal(of_ordinal), thread_([this] { work(); }) {}
  ~Stream() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  const int32_t ordinal;

  void run(Operation work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (graph_ != nullptr) return graph_->push_back([work] { return work; });
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }
  /** Into the graph that this stream is captured for. */
  void run_at_replay(std::function<Operation()> make) {
    const std::lock_guard<std::mutex> lock(mutex_);
    graph_->push_back(std::move(make));
  }

  void begin_capture() {
    const std::lock_guard<std::mutex> lock(mutex_);
    graph_ = std::make_shared<Operations>();
  }
  std::shared_ptr<Operations> end_capture() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::move(graph_);
  }
  bool is_capturing() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return graph_ != nullptr;
  }

 private:
  static void take(HostStream* stream, void (*work)(void*), void (*release)(void*),
                   void* argument) {
    const std::shared_ptr<void> held(argument, release);
    static_cast<Stream*>(stream)->run([work, held] { work(held.get()); });
  }

  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !queue_.empty() || closing_; });
      if (queue_.empty()) return;
      const Operation next = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      next();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Operation> queue_;
  std::shared_ptr<Operations> graph_;  // not null: what is pushed becomes part of it
  bool closing_ = false;
  std::thread thread_;
};

/** Records of an event that were asked for, and those that have come. */
struct Event {
  int32_t ordinal = ordinal_now;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0;
  uint64_t come = 0;
};
using SharedEvent = std::shared_ptr<Event>;

struct Block {
  size_t size_bytes;
  int32_t ordinal;
};

struct Memory {
  std::mutex mutex;
  std::map<const unsigned char*, Block> blocks;
  size_t fail_from = 0;
};

Memory& memory() {
  static Memory* const all = new Memory;
  return *all;
}

// Of this thread; the runtime refuses some calls meanwhile.
thread_local int captures = 0;

Stream& stream_of(StreamHandle handle) {
  static Stream* const default_stream = new Stream(0);
  return handle == nullptr ? *default_stream : *static_cast<Stream*>(handle);
}

Status current(int32_t* ordinal) {
  *ordinal = ordinal_now;
  return Status();
}
Status set_current(int32_t ordinal) {
  ordinal_now = ordinal;
  return Status();
}
Status reach(int32_t ordinal) {
  if (ordinal != ordinal_now) return Status();
  return fail(GQSGD_BACKEND, "device %d cannot be a peer of itself", ordinal);
}

/** What CUDA refuses as well: kernels and events of one device on a stream of another. */
Status check_device(int32_t ordinal, StreamHandle stream) {
  const int32_t there = stream_of(stream).ordinal;
  if (there == ordinal) return Status();
  return fail(GQSGD_BACKEND, "device %d on a stream of device %d", ordinal, there);
}

Status allocate(size_t size_bytes, void** out) {
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (captures > 0) return fail(GQSGD_BACKEND, "memory was asked for during a capture");
  if (all.fail_from == 1) return fail(GQSGD_NO_MEMORY, "the device has no memory left");
  if (all.fail_from > 1) --all.fail_from;
  *out = aligned_alloc(256, (size_bytes + 255) / 256 * 256);
  std::memset(*out, 0xEE, size_bytes);  // nobody may rely on what is in it
  all.blocks[static_cast<unsigned char*>(*out)] = {size_bytes, ordinal_now};
  return Status();
}
void release(void* pointer) {
  if (pointer == nullptr) return;
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.blocks.erase(static_cast<unsigned char*>(pointer));
  free(pointer);
}

Status memory_kind(const void* pointer, MemoryKind* kind) {
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto* byte = static_cast<const unsigned char*>(pointer);
  auto block = all.blocks.upper_bound(byte);
  *kind = MemoryKind::host;
  if (block == all.blocks.begin()) return Status();
  --block;
  if (byte >= block->first + block->second.size_bytes) return Status();
  *kind = block->second.ordinal == ordinal_now ? MemoryKind::device : MemoryKind::other;
  return Status();
}

Status copy(void* to, const void* from, size_t size_bytes, StreamHandle stream) {
  stream_of(stream).run([=] { std::memcpy(to, from, size_bytes); });
  return Status();
}
Status clear(void* to, size_t size_bytes, StreamHandle stream) {
  stream_of(stream).run([=] { std::memset(to, 0, size_bytes); });
  return Status();
}

Status make_stream(StreamHandle* stream) {
  *stream = new Stream(ordinal_now);
  return Status();
}
void end_stream(StreamHandle stream) { delete static_cast<Stream*>(stream); }
Status is_capturing(StreamHandle stream, bool* capturing) {
  *capturing = stream_of(stream).is_capturing();
  return Status();
}

SharedEvent& event_of(EventHandle event) { return *static_cast<SharedEvent*>(event); }
Status make_event(EventHandle* event) {
  *event = new SharedEvent(std::make_shared<Event>());
  return Status();
}
void end_event(EventHandle event) { delete static_cast<SharedEvent*>(event); }
/** A record counts from when it is asked for; what waits, waits for the last one asked for. */
Operation record_of(const SharedEvent& event) {
  const std::lock_guard<std::mutex> lock(event->mutex);
  return [event, number = ++event->recorded] {
    const std::lock_guard<std::mutex> come(event->mutex);
    event->come = std::max(event->come, number);
    event->changed.notify_all();
  };
}
Operation wait_of(const SharedEvent& event) {
  const std::lock_guard<std::mutex> lock(event->mutex);
  return [event, number = event->recorded] {
    std::unique_lock<std::mutex> come(event->mutex);
    event->changed.wait(come, [&] { return event->come >= number; });
  };
}

Status across_capture() {
  return fail(GQSGD_BACKEND, "an event would tie what is captured to what is not");
}
Status record(EventHandle handle, StreamHandle stream) {
  if (stream_of(stream).is_capturing()) return across_capture();
  GQ_TRY(check_device(event_of(handle)->ordinal, stream));
  stream_of(stream).run(record_of(event_of(handle)));
  return Status();
}
Status wait(StreamHandle stream, EventHandle handle) {
  if (stream_of(stream).is_capturing()) return across_capture();
  stream_of(stream).run(wait_of(event_of(handle)));
  return Status();
}
Status record_in_graph(EventHandle handle, StreamHandle stream) {
  if (!stream_of(stream).is_capturing()) return across_capture();
  const SharedEvent event = event_of(handle);
  stream_of(stream).run_at_replay([event] { return record_of(event); });
  return Status();
}
Status wait_in_graph(StreamHandle stream, EventHandle handle) {
  if (!stream_of(stream).is_capturing()) return across_capture();
  const SharedEvent event = event_of(handle);
  stream_of(stream).run_at_replay([event] { return wait_of(event); });
  return Status();
}
Status query(EventHandle handle, bool* done) {
  const SharedEvent event = event_of(handle);
  const std::lock_guard<std::mutex> lock(event->mutex);
  *done = event->come >= event->recorded;
  return Status();
}

const Stages& cpu() { return *cpu_stages_named("scalar"); }

/** A stage of the CPU reads no step from memory. */
template <typename Args>
Args with_step(Args args) {
  if constexpr (requires { args.random.step_at; }) {
    if (args.random.step_at != nullptr) args.random.step = *args.random.step_at;
  }
  return args;
}

/** Makes a CPU stage when the stream comes to it. */
template <auto kStage, typename Args>
gqsgd_status enqueue(const Args& args) {
  if (!check_device(ordinal_now, args.stream).ok()) return GQSGD_BACKEND;
  stream_of(args.stream).run([args] { (void)(cpu().*kStage)(with_step(args)); });
  return GQSGD_OK;
}

gqsgd_status dequantize(const DequantizeArgs& args) {
  if (!check_device(ordinal_now, args.stream).ok()) return GQSGD_BACKEND;
  stream_of(args.stream).run([args] {
    if (args.gate == nullptr || *args.gate == 0) (void)cpu().dequantize(with_step(args));
  });
  return GQSGD_OK;
}

/** The device's own code, by one block of threads that take turns. */
template <typename Body>
struct OneBlock {
  typename Body::Shared shared;
  typename Body::Own own[Body::kThreads];

  uint32_t number() const { return 0; }
  uint32_t count() const { return 1; }
  template <bool kBarrier, typename Step>
  void all(Step step) {
    for (uint32_t thread = 0; thread < Body::kThreads; ++thread) {
      step(cuda::Local<typename Body::Shared, typename Body::Own>{thread, shared, own[thread]});
    }
  }
};

template <typename Body, typename Args>
gqsgd_status enqueue_body(const Args& args) {
  if (!check_device(ordinal_now, args.stream).ok()) return GQSGD_BACKEND;
  stream_of(args.stream).run([body = Body(args)] {
    OneBlock<Body> block{};
    cuda::run_block(body, block);
  });
  return GQSGD_OK;
}

constexpr Stages kStages = {
    "host double",
    enqueue<&Stages::norm, NormArgs>,
    enqueue<&Stages::merge_norms, MergeNormsArgs>,
    enqueue<&Stages::quantize, QuantizeArgs>,
    enqueue<&Stages::reduce, ReduceArgs>,
    enqueue<&Stages::reduce_many, ReduceManyArgs>,
    dequantize,
    nullptr,
    nullptr,
    nullptr,
};

constexpr AgreementStages kAgreement = {
    enqueue_body<cuda::TakeStep, TakeStepArgs>,
    enqueue_body<cuda::WriteHeader, WriteHeaderArgs>,
    enqueue_body<cuda::Agree, AgreeArgs>,
    enqueue_body<cuda::MergeRankNorms, MergeRankNormsArgs>,
    enqueue_body<cuda::CloseGate, CloseGateArgs>,
};

}  // namespace

const Device& host_device() {
  static const Device kDevice = {
      "host double", &kStages,   &kAgreement,  current,         set_current,   allocate,
      release,       allocate,   release,      memory_kind,     copy,          clear,
      make_stream,   end_stream, is_capturing, make_event,      end_event,     record,
      wait,          query,      nullptr,      record_in_graph, wait_in_graph, reach,
  };
  return kDevice;
}

StreamHandle default_host_stream() { return &stream_of(nullptr); }

DeviceMemory::DeviceMemory(size_t size_bytes) {
  if (!allocate(size_bytes == 0 ? 1 : size_bytes, &data_).ok()) abort();
}
DeviceMemory::~DeviceMemory() { release(data_); }

OwnStream::OwnStream() { (void)make_stream(&stream_).ok(); }
OwnStream::~OwnStream() { end_stream(stream_); }

bool OwnStream::synchronize(int timeout_ms) const {
  EventHandle event = nullptr;
  (void)make_event(&event).ok();
  (void)record(event, stream_).ok();
  bool done = false;
  for (int k = 0; k < timeout_ms * 5 && !done; ++k) {
    (void)query(event, &done).ok();
    if (!done) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  end_event(event);
  return done;
}

void OwnStream::sleep(int time_ms) const {
  stream_of(stream_).run(
      [time_ms] { std::this_thread::sleep_for(std::chrono::milliseconds(time_ms)); });
}

size_t allocations_in_use() {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  return memory().blocks.size();
}

void fail_allocations_from(size_t nth) {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  memory().fail_from = nth;
}

void HostGraph::begin_capture(StreamHandle stream) {
  stream_of(stream).begin_capture();
  captures += 1;
}
void HostGraph::end_capture(StreamHandle stream) {
  captures -= 1;
  operations_ = stream_of(stream).end_capture();
}
void HostGraph::replay(StreamHandle stream) const {
  const auto operations = std::static_pointer_cast<const Operations>(operations_);
  for (const auto& make : *operations) stream_of(stream).run(make());
}

}  // namespace gq::test
