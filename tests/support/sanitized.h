// Whether a sanitizer is compiled in that changes what a test measures: stacks, threads and memory.
#ifndef GQ_TESTS_SUPPORT_SANITIZED_H
#define GQ_TESTS_SUPPORT_SANITIZED_H

#include <cstddef>

#if defined(__has_feature)
#define GQ_HAS_FEATURE(name) __has_feature(name)
#else
#define GQ_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || GQ_HAS_FEATURE(address_sanitizer)
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace gq::test {

#if defined(__SANITIZE_ADDRESS__) || GQ_HAS_FEATURE(address_sanitizer)
inline constexpr bool kAddressSanitized = true;
/** What malloc has given. AddressSanitizer keeps what is freed, so that it stays resident. */
inline size_t heap_bytes() { return __sanitizer_get_current_allocated_bytes(); }
#else
inline constexpr bool kAddressSanitized = false;
inline size_t heap_bytes() { return 0; }  // not known
#endif

#if defined(__SANITIZE_THREAD__) || GQ_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

/** What a stack has to be larger by: AddressSanitizer lays red zones around every variable, and the
 *  runtimes of both use the stack of the thread whose access they check. */
inline constexpr size_t kStackFactor = kAddressSanitized || kThreadSanitized ? 16 : 1;

/** What a test allows a process or a failure to take has to be longer by: what the runtimes look at
 *  takes longer, and so does waiting for a processor beside other tests. */
inline constexpr int kTimeFactor = kAddressSanitized || kThreadSanitized ? 5 : 1;

}  // namespace gq::test

#undef GQ_HAS_FEATURE

#endif
