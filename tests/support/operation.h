// One allreduce as tests name it: what is asked for, its description in failure messages, and the
// two ways to run it, with guards around the result.
#ifndef GQ_TESTS_SUPPORT_OPERATION_H
#define GQ_TESTS_SUPPORT_OPERATION_H

#include <gqsgd.h>

#include <string>
#include <vector>

#include "tests/support/config.h"
#include "tests/support/inputs.h"

namespace gq::test {

/** The presets and schedules of this version, each with each. */
inline constexpr const char* kPresets[] = {"paper-gl8", "paper-ge8", "paper-gl4", "paper-ge4",
                                           "none"};
/** Formats with extensions for every schedule, and formats for the direct one alone. */
inline constexpr const char* kBlockFormats[] = {
    "paper-gl8,block=32", "paper-ge8,block=64,rounding=correlated", "paper-gl4,block=2048",
    "paper-ge4,block=128,rotate=hadamard,rounding=correlated", "paper-gl8,rotate=hadamard"};
inline constexpr const char* kWideFormats[] = {
    "blocks-8",
    "rotated-8",
    "rotated-4-8",
    "rotated-4",
    "relative-8",
    "levels=exponential,bits=8,bits_down=4,block=64,rescale=true",
    "levels=linear,bits=4,bits_down=8,rounding_down=subtractive,rounding=independent"};

/** Formats of every kind that devices have, to add over nodes. */
inline constexpr const char* kNodeFormats[] = {
    "blocks-8",
    "rotated-4-8",
    "rotated-4",
    "paper-gl8",
    "none",
    "adaptive-4",
    "levels=linear,bits=4,bits_down=8,rounding_down=subtractive,rounding=independent",
    "paper-ge8,norm=2:2",
    "paper-ge4",
    "relative-8",
    "levels=exponential,bits=8,bits_down=4,block=64,rescale=true",
    "rice-4",
    "rice-3,rounding=nearest"};

/** Floats of 16 bits and Rice codes, on host memory: the direct schedule, or nodes. */
inline constexpr const char* kHostFormats[] = {"bf16", "fp16", "bf16,rounding=nearest", "rice-4",
                                               "rice-3,rounding=nearest"};

/** Formats that a transport can add as integers. */
inline constexpr const char* kNativeFormats[] = {
    "paper-gl8", "paper-gl8,block=32", "paper-gl8,rotate=hadamard,rounding=correlated",
    "paper-gl8,norm=2:2,rounding=nearest", "paper-gl8,block=128,rotate=hadamard"};

inline constexpr gqsgd_schedule kSchedules[] = {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_TREE,
                                                GQSGD_SCHEDULE_BUTTERFLY, GQSGD_SCHEDULE_DIRECT};

const char* schedule_name(gqsgd_schedule schedule);

/** A communicator's option for these nodes, whose ids may be any numbers. */
std::string nodes_option(const std::vector<int32_t>& node_ids);

/** Ranks on nodes of different sizes, which lie between each other: three ranks are 1 + 2, nine are
 * 3 + 6. */
std::vector<int32_t> uneven_nodes(int rank_count);

struct Operation {
  std::string quantizer;
  gqsgd_schedule schedule = GQSGD_SCHEDULE_RING;
  gqsgd_op op = GQSGD_MEAN;
  bool in_place = false;
  uint64_t step = 0;
  uint64_t index = 0;
  bool at_device = false;  ///< step and index are in memory of the device: on streams alone
  bool in_list = false;    ///< by allreduce_many, as a list of one tensor: on streams alone
  /** Not empty: by allreduce_many, tensors of these lengths, which follow each other in memory. */
  std::vector<size_t> counts = {};
};

/** Values of all tensors together. */
size_t total_of(const std::vector<size_t>& counts);

/** Its schedule and its step, with which it is called on host memory. */
Config config_of(const Operation& operation);

/** "paper-gl8 ring mean in place, at 3.0". */
std::string describe(const Operation& operation);

/** A quantizer for the life of this object; a specification that is refused fails the test at
 *  once. */
class Quantizer {
 public:
  explicit Quantizer(const std::string& spec);
  ~Quantizer();
  Quantizer(const Quantizer&) = delete;
  Quantizer& operator=(const Quantizer&) = delete;
  gqsgd_quantizer get() const { return handle_; }

 private:
  gqsgd_quantizer handle_ = nullptr;
};

/** The operation as a call of the ABI, on memory of any kind. */
gqsgd_status enqueue(gqsgd_comm comm, const Operation& operation, const float* send, float* recv,
                     size_t value_count, const Config& config, void* stream);

/** Runs the operation with virtual ranks: every rank's result. */
std::vector<Values> simulate_all(const Operation& operation, const std::vector<Values>& inputs,
                                 const std::string& options = "");

/** The same, but only rank 0's result (all are equal). Lists are made by ranks on threads. */
Values simulate(const Operation& operation, const std::vector<Values>& inputs,
                const std::string& options = "");

/** Runs the operation on this rank. Returns "" or a sentence; a byte written outside the result, or
 *  a changed input, is a failure. The step is the operation's unless use_counter is set. */
std::string allreduce(gqsgd_comm comm, const Operation& operation, const Values& input,
                      Values* result, bool use_counter = false);

/** "" if both hold the same bits, else the first place where they differ. */
std::string difference(const Values& result, const Values& expected);

}  // namespace gq::test

#endif
