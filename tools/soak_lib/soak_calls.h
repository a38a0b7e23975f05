// The random calls of a round of tools/soak: equal on all ranks, from a seed.
#ifndef GQ_TOOLS_SOAK_LIB_SOAK_CALLS_H
#define GQ_TOOLS_SOAK_LIB_SOAK_CALLS_H

#include <gqsgd.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gq::tools {

/** splitmix64. */
uint64_t mixed(uint64_t state);

/** What a rank's calls return, so far. */
struct Calls {
  uint64_t made = 0;
  uint64_t refused = 0;  ///< combinations that the library does not support
  uint64_t digest = 0;   ///< of results that all ranks have, and of statuses
};

/** One rank's calls in a group. Each is a blocking one or up to four requests. */
class RankCalls {
 public:
  RankCalls(uint64_t seed, int rank, int size, size_t value_count_max);

  /** The call `number`; its status is the first that is not OK. */
  gqsgd_status make(gqsgd_comm comm, int number);
  /** An allreduce that all ranks make with equal arguments, but `extra_count` more values; it is
   *  not in the digest. */
  gqsgd_status make_plain(gqsgd_comm comm, int number, size_t extra_count);
  const Calls& calls() const { return calls_; }

 private:
  struct Call;

  Call draw(int number) const;
  void fill(const Call& call);
  void note(gqsgd_status status, size_t result_bytes, const unsigned char* result);
  gqsgd_status collective(gqsgd_comm comm, const Call& call);
  gqsgd_status many(gqsgd_comm comm, const Call& call);
  gqsgd_status slices(gqsgd_comm comm, const Call& call);
  gqsgd_status requests(gqsgd_comm comm, const Call& call);

  uint64_t seed_;
  int rank_, size_;
  size_t value_count_max_;
  Calls calls_;
  std::vector<uint64_t> input_, result_;
};

}  // namespace gq::tools

#endif
