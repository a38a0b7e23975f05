// Short calls of two ranks, where walking counts, walked again and again.
#include "tools/calibrate/move_cost.h"

#include <vector>

#include "bench/machine.h"
#include "tools/plan/schedules.h"

namespace gq::tools {
namespace {

constexpr int kWalksPerRun = 1000;

/** Moves that were walked; their values are added up so that no walk is left out. */
uint64_t walk(const char* schedule, uint64_t* values) {
  Shape shape;
  shape.ranks = 2;
  shape.value_count = 256;
  MoveCursor cursor(schedule_by_name(schedule), shape, 0);
  uint64_t moves = 0;
  for (Move move; cursor.next(&move); ++moves) *values += move.value_count;
  return moves;
}

}  // namespace

double measure_move_ns(int run_count) {
  std::vector<double> move_ns;
  for (int run = 0; run < run_count; ++run) {
    uint64_t moves = 0, values = 0;
    const int64_t begin = bench::now_ns();
    for (int i = 0; i < kWalksPerRun; ++i) {
      for (const char* schedule : {"direct", "butterfly", "tree", "ring"}) {
        moves += walk(schedule, &values);
      }
    }
    const double time_ns = static_cast<double>(bench::now_ns() - begin);
    // No walk is without values, so that this only makes them needed.
    move_ns.push_back(values > 0 ? time_ns / static_cast<double>(moves) : 0);
  }
  return bench::median(move_ns);
}

}  // namespace gq::tools
