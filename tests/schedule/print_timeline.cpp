// Prints the timeline of a schedule as tab-separated lines, for tools/draw_schedules.py:
//   print_timeline SCHEDULE RANKS VALUE_COUNT CHUNK_VALUE_COUNT
#include <stdio.h>
#include <stdlib.h>

#include "tests/schedule/timeline.h"

namespace {

const char* const kKinds[] = {"norm",   "merge_norms",     "quantize",
                              "send",   "receive_operand", "receive_result",
                              "reduce", "reduce_many",     "dequantize"};

}  // namespace

int main(int argument_count, char** arguments) {
  const gq::Schedule* schedule = argument_count == 5 ? gq::schedule_by_name(arguments[1]) : nullptr;
  if (schedule == nullptr) {
    fprintf(stderr, "usage: print_timeline SCHEDULE RANKS VALUE_COUNT CHUNK_VALUE_COUNT\n");
    return 2;
  }
  gq::Shape shape;
  shape.ranks = static_cast<uint32_t>(strtoul(arguments[2], nullptr, 10));
  shape.value_count = strtoull(arguments[3], nullptr, 10);
  shape.chunk_value_count = strtoull(arguments[4], nullptr, 10);
  if (shape.ranks == 0 || shape.chunk_value_count == 0) {
    fprintf(stderr, "print_timeline: ranks and chunk_value_count are at least 1\n");
    return 2;
  }
  printf("rank\tkind\tpeer\tfirst_value\tvalue_count\thop\tstart\tend\n");
  for (const gq::TimedMove& timed : gq::timeline(*schedule, shape, gq::Machine())) {
    const gq::Move& move = timed.move;
    printf("%u\t%s\t%u\t%llu\t%llu\t%u\t%.9g\t%.9g\n", timed.rank,
           kKinds[static_cast<int>(move.kind)], move.peer,
           static_cast<unsigned long long>(move.first_value),
           static_cast<unsigned long long>(move.value_count), move.hop, timed.start, timed.end);
  }
  return 0;
}
