// What gqsgd-plan is asked for.
#ifndef GQ_TOOLS_PLAN_OPTIONS_H
#define GQ_TOOLS_PLAN_OPTIONS_H

#include <cstdint>
#include <string>

namespace gq::tools {

enum class Show { plan, moves, timeline, advice };

struct PlanOptions {
  std::string format;  ///< a quantizer's specification
  int32_t schedule = 0;
  uint32_t ranks = 4;
  bool ranks_given = false;
  uint64_t value_count = 1000000;
  bool value_count_given = false;
  uint64_t chunk_value_count = 0;  ///< 0: what communicators have
  bool reads_in_place = false;     ///< as among threads or processes of one machine
  bool on_device = false;          ///< over NCCL
  int32_t dtype = 0;
  uint32_t rank = 0;
  std::string nodes;       ///< of each rank, as a communicator's option has them; "": all on one
  std::string costs_path;  ///< "" for the built-in constants
  double bits_per_s = 0;   ///< of a rank's link; 0: what the constants have
  double compute_ms = 0;   ///< of a training step, without its allreduces
  bool compute_given = false;
  Show show = Show::plan;
};

enum class Parsed { run, stop, refused };

/** Reads the command line. stop: help was printed; refused: the reason was printed. */
Parsed parse_options(int argc, char** argv, PlanOptions* options);

}  // namespace gq::tools

#endif
