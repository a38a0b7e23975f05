// A round of tools/soak: one group forms, makes random calls, has one thing happen to it, and ends.
#ifndef GQ_TOOLS_SOAK_LIB_SOAK_ROUND_H
#define GQ_TOOLS_SOAK_LIB_SOAK_ROUND_H

#include <gqsgd.h>

#include <cstdint>
#include <string>

#include "tools/soak_lib/soak_usage.h"

namespace gq::tools {

/** Equal on all ranks, but for `rank`. */
struct Round {
  uint64_t number = 0;
  std::string transport;  ///< threads, processes or network
  int rank = 0, size = 0;
  uint64_t seed = 0;
  int call_count = 0;
  size_t value_count_max = 0;
  /** none; mismatch, refuse: of the victim's arguments, the group goes on; abort, leave, stall,
   *  kill: the group breaks. */
  std::string fault;
  int victim = 0;
  int fault_call = 0;
  int delay_us = 0;  ///< abort, kill: after the fault's call has begun
  std::string options;
  bool continues = false;  ///< a new group goes on, by gqsgd_comm_reconfigure
  gqsgd_unique_id id{}, next_id{};
};

struct RoundEnd {
  std::string wrong;  ///< a sentence, or "" where all was as promised
  uint64_t calls = 0, refused = 0;
  uint64_t digest = 0;  ///< equal on all ranks where no fault breaks the group
};

/** Runs this process's rank, or all ranks as threads. */
RoundEnd run_round(const Round& round, const Leak& leak);

/** An id for a group over a network or of processes, made by its rank 0. */
gqsgd_status make_id(const std::string& transport, gqsgd_unique_id* id);

}  // namespace gq::tools

#endif
