// Stages are those of a CPU, made when their turn comes; memory is in host_memory.cpp, streams are
// in host_streams.cpp.
#include "tests/support/host_device/host_device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/cuda/fused/agreement.cuh"
#include "kernels/stages.h"
#include "tests/support/host_device/host_fused.h"
#include "tests/support/host_device/host_groups.h"
#include "tests/support/host_device/host_memory.h"
#include "tests/support/host_device/host_streams.h"

namespace gq::test {
namespace {

/** The thread's current device; memory, streams and events belong to the one they were made on. */
thread_local int32_t ordinal_now = 0;

// Of this thread; the runtime refuses some calls meanwhile.
thread_local int captures = 0;
thread_local int waits = 0, forgotten_wait = 0, stage_time_ms = 0;
std::atomic<size_t> made{0};  // streams and events

std::atomic<bool> events_come_early{false};
std::atomic<uint32_t> kernels_before_reach{0};

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
/** Takes its time, as CUDA does, which may wait for the device. */
Status reach(int32_t ordinal) {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  kernels_before_reach = fused_kernels_enqueued();
  if (ordinal != ordinal_now) return Status();
  return fail(GQSGD_BACKEND, "device %d cannot be a peer of itself", ordinal);
}

/** What CUDA refuses as well: kernels and events of one device on a stream of another. */
Status check_device(int32_t ordinal, StreamHandle stream) {
  const int32_t there = stream_of(stream).ordinal;
  if (there == ordinal) return Status();
  return fail(GQSGD_BACKEND, "device %d on a stream of device %d", ordinal, there);
}

Status allocate(size_t size_bytes, void** memory) {
  if (captures > 0) return fail(GQSGD_BACKEND, "memory was asked for during a capture");
  return allocate_block(size_bytes, ordinal_now, memory);
}

Status memory_kind(const void* pointer, MemoryKind* kind) {
  const int32_t ordinal = ordinal_of_block(pointer);
  *kind = ordinal == ordinal_now ? MemoryKind::device : MemoryKind::other;
  if (ordinal == kNoBlock) *kind = MemoryKind::host;
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
  ++made;
  *stream = new Stream(ordinal_now);
  return Status();
}
void end_stream(StreamHandle stream) { delete static_cast<Stream*>(stream); }
Status is_capturing(StreamHandle stream, bool* capturing) {
  *capturing = stream_of(stream).capture() != nullptr;
  return Status();
}

Event& event_of(EventHandle event) { return *static_cast<Event*>(event); }
Status make_event(EventHandle* event) {
  ++made;
  *event = new Event(ordinal_now);
  return Status();
}
void end_event(EventHandle event) { delete static_cast<Event*>(event); }

Status across_capture() {
  return fail(GQSGD_BACKEND, "an event would tie what is captured to what is not");
}
Status record(EventHandle handle, StreamHandle stream) {
  GQ_TRY(check_device(event_of(handle).state->ordinal, stream));
  record(&event_of(handle), &stream_of(stream));
  return Status();
}
Status wait(StreamHandle stream, EventHandle handle) {
  ++waits;
  if (forgotten_wait > 0 && --forgotten_wait == 0) return Status();
  return wait(&stream_of(stream), event_of(handle)) ? Status() : across_capture();
}
Status record_in_graph(EventHandle handle, StreamHandle stream) {
  if (!stream_of(stream).capture()) return across_capture();
  stream_of(stream).run_at_replay([state = event_of(handle).state] { return record_of(state); });
  return Status();
}
Status wait_in_graph(StreamHandle stream, EventHandle handle) {
  if (!stream_of(stream).capture()) return across_capture();
  stream_of(stream).run_at_replay([state = event_of(handle).state] { return wait_of(state); });
  return Status();
}
Status query(EventHandle handle, bool* done) {
  if (captures > 0) return fail(GQSGD_BACKEND, "an event was asked after during a capture");
  EventState& state = *event_of(handle).state;
  const std::lock_guard<std::mutex> lock(state.mutex);
  *done = events_come_early || state.come >= state.recorded;
  return Status();
}

const Stages& cpu() { return *cpu_stages_named("scalar"); }

/** A stage of the CPU reads no step and index from memory. */
template <typename Args>
Args with_step(Args args) {
  if constexpr (requires { args.random.step_at; }) {
    const uint32_t* const at = args.random.step_at;
    if (at != nullptr) args.random.step = at[0], args.random.index = at[1];
  }
  return args;
}

void take_time(int time_ms) {
  if (time_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(time_ms));
}

StageError check_stage(StreamHandle stream) {
  if (stream_of(stream).ordinal == ordinal_now) return {};
  return {"a stage", 1, "hostErrorStream", "the stream is another device's"};
}

/** Makes a CPU stage when the stream comes to it. */
template <auto kStage, typename Args>
StageError enqueue(const Args& args) {
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  stream_of(args.stream).run([args, grouped = grouped_of(args), time_ms = stage_time_ms] {
    take_time(time_ms);
    run_stage<kStage>(cpu(), with_step(args), grouped);
  });
  return {};
}

/** Decides where no stage has. */
bool is_open(const Gate& gate) {
  if (gate.word == nullptr) return true;
  if (*gate.word == kGateUndecided) {
    *gate.word = __atomic_load_n(gate.broken, __ATOMIC_SEQ_CST) != 0 ? kGateClosed : kGateOpen;
  }
  return *gate.word == kGateOpen;
}

StageError dequantize(const DequantizeArgs& args) {
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  stream_of(args.stream).run([args, grouped = grouped_of(args)] {
    if (is_open(args.gate)) run_stage<&Stages::dequantize>(cpu(), with_step(args), grouped);
  });
  return {};
}

/** One after the other; nothing of the array is read later. */
template <auto kEnqueue, typename Args>
StageError enqueue_all(const Args* args, size_t count, const BatchTable&) {
  for (size_t k = 0; k < count; ++k) {
    if (const StageError error = kEnqueue(args[k]); failed(error)) return error;
  }
  return {};
}
StageError merge_all(const MergeNormsArgs* args, size_t count) {
  return enqueue_all<enqueue<&Stages::merge_norms, MergeNormsArgs>>(args, count, {});
}

/** As an argument of a kernel, of which the caller's copy is not read later. */
StageError write_segments(const WriteSegmentsArgs& args) {
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  const std::vector<SegmentPlace> all(args.segments, args.segments + args.count);
  stream_of(args.stream).run([all, out = args.out] { std::copy(all.begin(), all.end(), out); });
  return {};
}

/** What select needs that comes later: where the entries of this range begin. */
StageError count_entries(const CountEntriesArgs& args) {
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  stream_of(args.stream).run([args] {
    if (args.range.value_count == 0) return;
    const uint64_t before[2] = {*args.skipped, *args.entry_count};
    std::memcpy(args.workspace, before, sizeof before);
    (void)cpu().count_entries(args);
  });
  return {};
}
StageError select(const SelectArgs& args) {
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  stream_of(args.stream).run([args] {
    if (args.range.value_count == 0) return;
    SelectArgs made = args;
    uint64_t before[2];
    if (args.counted) {
      std::memcpy(before, args.workspace, sizeof before);
      made.skipped = &before[0];
      made.entry_count = &before[1];
    }
    (void)cpu().select(made);
  });
  return {};
}
StageError add_sparse(const AddSparseArgs& args) {
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  stream_of(args.stream).run([args] {
    if (is_open(args.gate)) (void)cpu().add_sparse(with_step(args));
  });
  return {};
}

/** Runs what threads of a device would. */
template <auto kRun, typename Args>
StageError enqueue_run(const Args& args) {
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  stream_of(args.stream).run([args] { kRun(args); });
  return {};
}

void write_header(const WriteHeaderArgs& args) {
  cuda::write_header(args);
  for (size_t k = 0; k < args.cleared_count; ++k) args.cleared[k] = 0;
}

void merge_rank_norms(const MergeRankNormsArgs& args) {
  for (size_t segment = 0; segment < args.segment_count; ++segment) {
    cuda::merge_rank_norms(args, segment);
  }
}

/** A device writes the counter in one piece, whenever the host reads it. */
void take_step(const TakeStepArgs& args) {
  const std::atomic_ref<uint64_t> shared(*args.counter);
  uint64_t counter = shared.load();
  TakeStepArgs own = args;
  own.counter = &counter;
  cuda::take_step(own);
  shared.store(counter);
}

void agree(const AgreeArgs& args) {
  uint32_t ranks_from_differing = 0;
  for (uint32_t rank = args.ranks; rank-- > 0;) {
    if (cuda::headers_differ(args.headers, cuda::header_of(args, rank), args.compared,
                             args.status_word)) {
      ranks_from_differing = args.ranks - rank;
    }
  }
  cuda::finish_agreement(args, ranks_from_differing);
  merge_rank_norms(args.segments);
}

constexpr Stages kStages = {
    "host double",
    enqueue<&Stages::norm, NormArgs>,
    enqueue<&Stages::merge_norms, MergeNormsArgs>,
    enqueue<&Stages::quantize, QuantizeArgs>,
    enqueue<&Stages::reduce, ReduceArgs>,
    enqueue<&Stages::reduce_many, ReduceManyArgs>,
    dequantize,
    count_entries,
    select,
    add_sparse,
};

constexpr BatchStages kBatches = {
    enqueue_all<enqueue<&Stages::norm, NormArgs>, NormArgs>,
    merge_all,
    enqueue_all<enqueue<&Stages::quantize, QuantizeArgs>, QuantizeArgs>,
    enqueue_all<enqueue<&Stages::reduce_many, ReduceManyArgs>, ReduceManyArgs>,
    enqueue_all<dequantize, DequantizeArgs>,
    write_segments,
};

constexpr AgreementStages kAgreement = {
    enqueue_run<take_step, TakeStepArgs>,
    enqueue_run<write_header, WriteHeaderArgs>,
    enqueue_run<agree, AgreeArgs>,
    enqueue_run<merge_rank_norms, MergeRankNormsArgs>,
};

}  // namespace

const Device& host_device() {
  static const Device kDevice = {
      "host double",
      &kStages,
      &kBatches,
      &kAgreement,
      current,
      set_current,
      allocate,
      release_block,
      allocate,
      release_block,
      memory_kind,
      copy,
      clear,
      make_stream,
      end_stream,
      is_capturing,
      make_event,
      end_event,
      record,
      wait,
      query,
      nullptr,
      record_in_graph,
      wait_in_graph,
      reach,
      &host_ipc(),
      &host_fused_stages(),
      [](int32_t, int32_t, bool* can) { return *can = true, Status(); },
  };
  return kDevice;
}

const Device& host_device_alone() {
  static const Device kDevice = [] {
    Device device = host_device();
    device.ipc = nullptr;
    return device;
  }();
  return kDevice;
}

StreamHandle default_host_stream() { return &stream_of(nullptr); }

DeviceMemory::DeviceMemory(size_t size_bytes) {
  if (!allocate(size_bytes == 0 ? 1 : size_bytes, &data_).ok()) abort();
}
DeviceMemory::~DeviceMemory() { release_block(data_); }

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
  stream_of(stream_).run([time_ms] { take_time(time_ms); });
}

void OwnStream::await(const std::atomic<bool>& flag) const {
  stream_of(stream_).run([&flag] {
    while (!flag) take_time(1);
  });
}

uint32_t fused_kernels_before_reach() { return kernels_before_reach; }

void report_events_early(bool early) { events_come_early = early; }

void HostGraph::begin_capture(StreamHandle stream) {
  stream_of(stream).begin_capture();
  captures += 1;
}
bool HostGraph::end_capture(StreamHandle stream) {
  captures -= 1;
  capture_ = stream_of(stream).capture();
  return capture_->end();
}
void HostGraph::replay(StreamHandle stream) const { capture_->replay(&stream_of(stream)); }

size_t streams_and_events_made() { return made; }
void forget_wait(int nth) { forgotten_wait = nth; }
int waits_asked_for() { return waits; }
void slow_down_stages(int time_ms) { stage_time_ms = time_ms; }

}  // namespace gq::test
