// A stream of the device that tests have: a thread that executes what was pushed, in order. The
// first words of it are all that a stand-in of NCCL, a library of its own, has to know.
#ifndef GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_STREAM_H
#define GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_STREAM_H

namespace gq::test {

struct HostStream {
  /** Takes `work`, which is called with `argument` when its turn comes: once, or at each replay of
   *  a graph; then `release` is. */
  void (*push)(HostStream* stream, void (*work)(void* argument), void (*release)(void* argument),
               void* argument);
};

}  // namespace gq::test

#endif
