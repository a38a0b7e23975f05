// The floating-point environment that the codec is defined in: round to nearest, denormals kept.
// A caller may run with others (training frameworks flush denormals); its state comes back.
#ifndef GQ_KERNELS_CPU_FLOAT_ENVIRONMENT_H
#define GQ_KERNELS_CPU_FLOAT_ENVIRONMENT_H

#include <stdint.h>

namespace gq {
namespace {

#if defined(__x86_64__)
using FloatControl = uint32_t;
constexpr FloatControl kExactControl = 0x1f80;  // MXCSR at power-on: all exceptions masked

__attribute__((always_inline)) inline FloatControl read_float_control() {
  FloatControl control;
  __asm__ volatile("stmxcsr %0" : "=m"(control) : : "memory");
  return control;
}

__attribute__((always_inline)) inline void write_float_control(FloatControl control) {
  __asm__ volatile("ldmxcsr %0" : : "m"(control) : "memory");
}
#elif defined(__aarch64__)
/** FPCR, and FPSR: the flags, which x86 keeps in the register of the control bits. */
struct FloatControl {
  uint64_t control, flags;
};
constexpr FloatControl kExactControl = {0, 0};  // to nearest, no flushing, no traps

__attribute__((always_inline)) inline FloatControl read_float_control() {
  FloatControl read;
  __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr"
                   : "=&r"(read.control), "=r"(read.flags)
                   :
                   : "memory");
  return read;
}

__attribute__((always_inline)) inline void write_float_control(FloatControl written) {
  __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1"
                   :
                   : "r"(written.control), "r"(written.flags)
                   : "memory");
}
#else
#error "Say here how this processor's rounding mode and denormal handling are set."
#endif

/** Sets the codec's environment for a scope. Arithmetic belongs into a function that is not inlined
 *  into that scope: only its reads and writes of memory are ordered with the switch. */
class FloatEnvironment {
 public:
  FloatEnvironment() : caller_(read_float_control()) { write_float_control(kExactControl); }
  ~FloatEnvironment() { write_float_control(caller_); }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  FloatControl caller_;
};

}  // namespace
}  // namespace gq

#endif
