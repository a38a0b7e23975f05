// Two calls over a transport that changes one bit of one message of the first, and what each rank
// saw of both.
#ifndef GQ_TESTS_API_COLLECTIVE_INTEGRITY_CHANGED_BIT_H
#define GQ_TESTS_API_COLLECTIVE_INTEGRITY_CHANGED_BIT_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "include/gqsgd_transport.h"
#include "tests/support/operation.h"
#include "tests/support/wrapped_sockets.h"

namespace gq::test {

inline constexpr size_t kCaseValues = 3000;
inline constexpr const char* kCaseOptions = "timeout_ms=60000,chunk_value_count=1024";
inline constexpr const char* kUncheckedOptions =
    "timeout_ms=60000,chunk_value_count=1024,checksum=off";

/** Sockets that change one bit of one message that they send. */
struct FlippingSockets {
  static constexpr size_t kNone = SIZE_MAX;

  gqsgd_transport sockets;
  size_t message = kNone;
  uint64_t random = 0;  ///< which bit of it
  std::vector<size_t> sizes;
  std::vector<unsigned char> changed;

  int32_t done(uint64_t) const { return 1; }
};

gqsgd_transport flipping(FlippingSockets* self);

enum class Kind { allreduce, many, reduce_scatter, allgather };

struct Case {
  Kind kind;
  const char* quantizer;
  gqsgd_schedule schedule;
  int ranks;
  bool dense = false;  ///< of schedule sparse: too many codes are not zero
};

inline constexpr Case kCases[] = {
    {Kind::allreduce, "blocks-8", GQSGD_SCHEDULE_DIRECT, 3},
    {Kind::allreduce, "rotated-4-8", GQSGD_SCHEDULE_DIRECT, 2},
    {Kind::allreduce, "paper-gl8", GQSGD_SCHEDULE_RING, 3},
    {Kind::allreduce, "paper-ge4,block=128", GQSGD_SCHEDULE_RING, 4},
    {Kind::allreduce, "paper-gl8,block=32", GQSGD_SCHEDULE_TREE, 4},
    {Kind::allreduce, "paper-ge8,block=64", GQSGD_SCHEDULE_BUTTERFLY, 4},
    {Kind::allreduce, "paper-gl8", GQSGD_SCHEDULE_BUTTERFLY, 3},
    {Kind::allreduce, "blocks-8", GQSGD_SCHEDULE_HIERARCHICAL, 4},
    {Kind::allreduce, "paper-gl8", GQSGD_SCHEDULE_SPARSE, 3},
    {Kind::allreduce, "none", GQSGD_SCHEDULE_DIRECT, 3},
    {Kind::allreduce, "bf16", GQSGD_SCHEDULE_DIRECT, 2},
    {Kind::many, "paper-gl8", GQSGD_SCHEDULE_DIRECT, 3},
    {Kind::reduce_scatter, "blocks-8", GQSGD_SCHEDULE_AUTO, 3},
    {Kind::allgather, "paper-gl8", GQSGD_SCHEDULE_AUTO, 3},
    {Kind::allgather, "rice-4", GQSGD_SCHEDULE_AUTO, 3},
};

std::string describe(const Case& one);

/** The call of one rank, whose result is *result. */
gqsgd_status call(const Case& one, gqsgd_comm comm, gqsgd_quantizer quantizer, Values input,
                  Values* result);

/** One bit of one message. */
struct Change {
  int sender = -1;      ///< its rank; -1: nothing is changed
  size_t message = 0;   ///< by number, of those that it sends
  uint64_t random = 0;  ///< which bit, modulo their number
};

/** What a rank saw. */
struct Outcome {
  gqsgd_status first = GQSGD_OK, second = GQSGD_OK;
  std::string sentence, later;
  Values result;
};

struct TwoCalls {
  std::vector<Outcome> outcomes;
  std::vector<std::vector<size_t>> sizes;  ///< of the messages that each rank sent
  std::string failure;
};

/** The call of `one` twice on every rank; `change` is of the first. */
TwoCalls make_two_calls(const Case& one, const Change& change, const std::string& options);

}  // namespace gq::test

#endif
