// What gqsgd-calibrate is asked for.
#ifndef GQ_TOOLS_CALIBRATE_OPTIONS_H
#define GQ_TOOLS_CALIBRATE_OPTIONS_H

#include <cstddef>
#include <string>
#include <vector>

namespace gq::tools {

struct CalibrateOptions {
  bool ranks_are_processes = true;
  std::vector<int> rank_counts;          ///< groups that are timed
  size_t most_bytes = size_t{16} << 20;  ///< of the longest call that is timed
  int run_count = 7;
  std::string out_path;  ///< "" for standard output
  bool verbose = false;  ///< also every timed call and what the constants make of it
};

enum class Parsed { run, stop, refused };

/** Reads the command line. stop: help was printed; refused: the reason was printed. */
Parsed parse_options(int argc, char** argv, CalibrateOptions* options);

}  // namespace gq::tools

#endif
