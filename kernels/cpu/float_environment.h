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
using FloatControl = uint64_t;
constexpr FloatControl kExactControl = 0;  // FPCR: to nearest, no flushing, no traps

__attribute__((always_inline)) inline FloatControl read_float_control() {
  FloatControl control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control) : : "memory");
  return control;
}

__attribute__((always_inline)) inline void write_float_control(FloatControl control) {
  __asm__ volatile("msr fpcr, %0" : : "r"(control) : "memory");
}
#else
#error "Say here how this processor's rounding mode and denormal handling are set."
#endif

#if defined(__aarch64__)
/** Flags of exceptions, which x86 keeps in the register of the control bits. */
class FloatFlags {
 public:
  FloatFlags() { __asm__ volatile("mrs %0, fpsr" : "=r"(caller_) : : "memory"); }
  ~FloatFlags() { __asm__ volatile("msr fpsr, %0" : : "r"(caller_) : "memory"); }
  FloatFlags(const FloatFlags&) = delete;
  FloatFlags& operator=(const FloatFlags&) = delete;

 private:
  uint64_t caller_;
};
#else
class FloatFlags {
 public:
  FloatFlags() {}
};
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
  [[no_unique_address]] FloatFlags flags_;
  FloatControl caller_;
};

}  // namespace
}  // namespace gq

#endif
