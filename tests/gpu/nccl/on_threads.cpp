// libgqsgd whose device is the one that tests have, for tests of bindings: its memory and streams,
// by the functions that a binding cannot do without.
#include "tests/support/host_device/host_device.h"

namespace {

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
