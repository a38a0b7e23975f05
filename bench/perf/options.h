// What gqsgd-perf is asked for: the flags of nccl-tests, and those for formats and ranks.
#ifndef GQ_BENCH_PERF_OPTIONS_H
#define GQ_BENCH_PERF_OPTIONS_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gq::bench {

/** A word of the command line and the number it stands for in the C ABI. */
struct Choice {
  std::string name;
  int32_t number;
};

struct Options {
  size_t least_bytes = size_t{32} << 10;
  size_t most_bytes = size_t{32} << 20;
  size_t factor = 4;
  int run_count = 20;
  int warmup_count = 3;
  int pause_ms = 0;  ///< between contenders
  bool check = true;
  Choice dtype;
  Choice op;
  std::vector<std::string> formats;  ///< quantizer specs, "none" first
  std::vector<Choice> schedules;
  int rank_count = 0;     ///< 0: not given
  std::string transport;  ///< "": not given
  std::string comm_options;
  bool bind = false;      ///< each rank to a processor of its own, as long as there are some
  std::string json_path;  ///< "" for none
};

enum class Parsed { run, stop, refused };

/** Reads the command line. stop: help was asked for and printed; refused: the reason was printed.
 */
Parsed parse_options(int argc, char** argv, Options* options);

/** False, with the reason printed, if a format is not one: once, before there are ranks that would
 *  all refuse it. */
bool check_formats(const Options& options);

/** The command line as one line. */
std::string command_of(int argc, char** argv);

size_t element_bytes(int32_t dtype);

/** Uncompressed sizes in bytes, whole elements: least, least * factor, .., at most `most_bytes`. */
std::vector<size_t> sizes_of(const Options& options);

}  // namespace gq::bench

#endif
