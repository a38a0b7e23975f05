// The options of gqsgd-verify and gqsgd-verify-mpi, and what both do with a communicator.
#ifndef GQ_TOOLS_VERIFY_OPTIONS_H
#define GQ_TOOLS_VERIFY_OPTIONS_H

#include <gqsgd.h>

namespace gq::tools {

struct VerifyOptions {
  int rank_count = 3;
  bool env = false;
  int flipped_rank = -1;
  bool help = false;
};

/** False after a sentence. */
bool read_options(int argc, char** argv, VerifyOptions* options);
void print_help();

/** All ranks of `comm`; rank 0 prints one line. Throws bench::Failure where a call fails. 1 if a
 *  result differs. */
int verify(gqsgd_comm comm, const VerifyOptions& options);

}  // namespace gq::tools

#endif
