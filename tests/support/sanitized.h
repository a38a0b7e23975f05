// Whether a sanitizer is compiled in that changes what a test measures: stacks and threads.
#ifndef GQ_TESTS_SUPPORT_SANITIZED_H
#define GQ_TESTS_SUPPORT_SANITIZED_H

#include <cstddef>

#if defined(__has_feature)
#define GQ_HAS_FEATURE(name) __has_feature(name)
#else
#define GQ_HAS_FEATURE(name) 0
#endif

namespace gq::test {

#if defined(__SANITIZE_ADDRESS__) || GQ_HAS_FEATURE(address_sanitizer)
inline constexpr bool kAddressSanitized = true;
#else
inline constexpr bool kAddressSanitized = false;
#endif

#if defined(__SANITIZE_THREAD__) || GQ_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

/** What a stack has to be larger by: AddressSanitizer lays red zones around every variable, and the
 *  runtimes of both use the stack of the thread whose access they check. */
inline constexpr size_t kStackFactor = kAddressSanitized || kThreadSanitized ? 16 : 1;

}  // namespace gq::test

#undef GQ_HAS_FEATURE

#endif
