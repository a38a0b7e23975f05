// What a thread does between two looks at a word that another is about to write.
#ifndef GQ_SUPPORT_RELAX_H
#define GQ_SUPPORT_RELAX_H

namespace gq {

/** Leaves the core's other thread more of it, for some tens of cycles. */
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace gq

#endif
