// What kernels do with memory, and what they must not do but
// do: a device would end with an error, or go on with wrong bits.
#ifndef GQ_TESTS_GPU_PTX_FINDING_H
#define GQ_TESTS_GPU_PTX_FINDING_H

#include <cstdint>
#include <stdexcept>
#include <string>

namespace gq::ptx {

/** Acquires and releases are there to order other accesses. */
enum class Access : uint8_t { read, write, atomic, acquire, release };

/** The sentence has kernel, statement, block and thread when it leaves a launch. */
class Finding : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace gq::ptx

#endif
