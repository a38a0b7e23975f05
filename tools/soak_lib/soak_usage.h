// What a process of tools/soak holds of the system, and the mutations that must make it grow.
#ifndef GQ_TOOLS_SOAK_LIB_SOAK_USAGE_H
#define GQ_TOOLS_SOAK_LIB_SOAK_USAGE_H

#include <cstddef>
#include <string>

namespace gq::tools {

/** Bytes, but for the counts. */
struct Usage {
  size_t heap = 0;  ///< that malloc has given out
  size_t resident = 0;
  size_t proportional = 0;  ///< resident, what others share divided by their number
  size_t descriptors = 0, threads = 0, mappings = 0;
};

/** Of this process, after free memory has gone back to the system. */
Usage usage_now();

/** What leaks on purpose: 1 KiB a call, or one of the others a round. */
struct Leak {
  bool memory = false, descriptor = false, thread = false, mapping = false;

  /** False if `name` is none of these. */
  bool add(const std::string& name);
  void after_call() const;
  void after_round() const;
};

}  // namespace gq::tools

#endif
