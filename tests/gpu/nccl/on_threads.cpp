// libgqsgd whose device is the one that tests have, for tests of bindings: its memory and streams,
// by the functions that a binding cannot do without.
#include <cstdint>

#include "tests/support/host_device/host_device.h"
#include "tests/support/host_device/host_streams.h"

namespace {

using gq::test::HostGraph;
using gq::test::OwnStream;

[[gnu::constructor]] void use_threads() { gq::use_device(&gq::test::host_device()); }

OwnStream* stream_of(void* stream) { return static_cast<OwnStream*>(stream); }

}  // namespace

extern "C" {

void* threads_allocate(size_t size_bytes) {
  void* memory = nullptr;
  (void)gq::test::host_device().allocate(size_bytes == 0 ? 1 : size_bytes, &memory).ok();
  return memory;
}
void threads_release(void* memory) { gq::test::host_device().release(memory); }
void* threads_default_stream() { return gq::test::default_host_stream(); }

void* threads_make_stream() { return new OwnStream; }
void threads_end_stream(void* stream) { delete stream_of(stream); }
void* threads_handle(void* stream) { return stream_of(stream)->get(); }
int threads_synchronize(void* stream, int timeout_ms) {
  return stream_of(stream)->synchronize(timeout_ms) ? 1 : 0;
}
void threads_sleep(void* stream, int time_ms) { stream_of(stream)->sleep(time_ms); }
void threads_copy(void* stream, void* to, const void* from, size_t size_bytes) {
  (void)gq::test::host_device().copy(to, from, size_bytes, stream_of(stream)->get()).ok();
}
/** Adds `addend` to `count` integers when the stream gets there, as a kernel of a caller's. */
void threads_add(void* stream, int64_t* numbers, size_t count, int64_t addend) {
  gq::test::stream_of(stream_of(stream)->get()).run([=] {
    for (size_t k = 0; k < count; ++k) numbers[k] += addend;
  });
}

int threads_is_capturing(void* stream) {
  bool capturing = false;
  (void)gq::test::host_device().is_capturing(stream_of(stream)->get(), &capturing).ok();
  return capturing ? 1 : 0;
}
void* threads_begin_capture(void* stream) {
  auto* const graph = new HostGraph;
  graph->begin_capture(stream_of(stream)->get());
  return graph;
}
/** 0 if work of another stream has not come back to this one. */
int threads_end_capture(void* graph, void* stream) {
  return static_cast<HostGraph*>(graph)->end_capture(stream_of(stream)->get()) ? 1 : 0;
}
void threads_replay(void* graph, void* stream) {
  static_cast<HostGraph*>(graph)->replay(stream_of(stream)->get());
}
void threads_end_graph(void* graph) { delete static_cast<HostGraph*>(graph); }

/** What is pushed on `later` from now on comes after what is on `earlier` now. */
void threads_order(void* later, void* earlier) {
  const gq::Device& device = gq::test::host_device();
  void* event = nullptr;
  (void)device.make_event(&event).ok();
  (void)device.record(event, stream_of(earlier)->get()).ok();
  (void)device.wait(stream_of(later)->get(), event).ok();
  device.end_event(event);
}

}  // extern "C"
