// Memory that stays until the process ends, since others may still write to it.
#ifndef GQ_SUPPORT_KEPT_H
#define GQ_SUPPORT_KEPT_H

#if defined(__SANITIZE_ADDRESS__)
#define GQ_FINDS_LEAKS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GQ_FINDS_LEAKS
#endif
#endif
#ifdef GQ_FINDS_LEAKS
#include <sanitizer/lsan_interface.h>
#endif

namespace gq {

/** Nothing has a pointer to `memory` from now on, and it is no leak. */
inline void keep([[maybe_unused]] const void* memory) {
#ifdef GQ_FINDS_LEAKS
  __lsan_ignore_object(memory);
#endif
}

}  // namespace gq

#undef GQ_FINDS_LEAKS

#endif
