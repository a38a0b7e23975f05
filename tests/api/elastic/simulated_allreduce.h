// One allreduce whose bits are compared with those of gqsgd_simulate.
#ifndef GQ_TESTS_SUPPORT_SIMULATED_ALLREDUCE_H
#define GQ_TESTS_SUPPORT_SIMULATED_ALLREDUCE_H

#include <gqsgd.h>

#include <string>

namespace gq::test {

/** What the group is expected to compute: the mean of values that follow from `step`. */
struct Simulated {
  const char* format;  ///< of the quantizer
  size_t value_count;
  uint64_t step;        ///< that the communicator's counter is at
  std::string options;  ///< of gqsgd_simulate: "stream_id=3"
};

/** All ranks of `comm` call it. "" if the result has the bits of as many virtual ranks, else what
 *  is wrong. `*ended`, unless NULL, is the status of the allreduce, OK if it was not reached. */
std::string allreduce_as_simulated(gqsgd_comm comm, const Simulated& expected,
                                   gqsgd_status* ended = nullptr);

}  // namespace gq::test

#endif
