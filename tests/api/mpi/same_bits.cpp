// Allreduces over MPI give the bits of virtual ranks: every schedule and format, with one
// communicator for all of them, and one for each kind of nodes.
#include "tests/api/mpi/ranks.h"

namespace gq::test {
namespace {

/** What one count was asked for with; step makes each call draw its own random numbers. `options`
 *  are those of virtual ranks. */
std::string compare(const World& world, gqsgd_comm comm, const std::vector<Values>& inputs,
                    const char* format, gqsgd_schedule schedule, uint64_t step,
                    const std::string& options = "") {
  const gqsgd_op op = step % 2 ? GQSGD_SUM : GQSGD_MEAN;
  const Operation operation{format, schedule, op, step % 3 == 0, step, step % 5};
  Values result;
  const std::string failure = allreduce(comm, operation, inputs[world.rank], &result);
  if (!failure.empty()) return failure;
  const std::string wrong = difference(result, simulate(operation, inputs, options));
  return wrong.empty() ? "" : describe(operation) + " " + options + ": " + wrong;
}

std::string compare_all(const World& world, gqsgd_comm comm, const std::vector<Values>& inputs) {
  std::string failures;
  uint64_t step = inputs[0].size();
  for (gqsgd_schedule schedule : kSchedules) {
    for (const char* preset : kPresets) {
      failures += compare(world, comm, inputs, preset, schedule, ++step);
    }
    for (const char* format : kBlockFormats) {
      failures += compare(world, comm, inputs, format, schedule, ++step);
    }
  }
  for (const char* format : kWideFormats) {
    failures += compare(world, comm, inputs, format, GQSGD_SCHEDULE_DIRECT, ++step);
  }
  for (const char* format : kHostFormats) {
    failures += compare(world, comm, inputs, format, GQSGD_SCHEDULE_DIRECT, ++step);
  }
  for (const char* format : kNativeFormats) {
    failures += compare(world, comm, inputs, format, GQSGD_SCHEDULE_NATIVE, ++step);
  }
  if (world.size <= 7) {  // levels of 4 bits that so many ranks can share
    const char* format = "paper-gl4,combine=exact,block=64";
    failures += compare(world, comm, inputs, format, GQSGD_SCHEDULE_NATIVE, ++step);
  }
  for (const char* format : {"paper-gl8", "paper-gl4,norm=2:2"}) {
    failures += compare(world, comm, inputs, format, GQSGD_SCHEDULE_SPARSE, ++step);
  }
  return failures;
}

std::string compare_nodes(const World& world, const std::vector<Values>& inputs,
                          const std::vector<int32_t>& node_ids) {
  const std::string nodes = node_ids.empty() ? "" : nodes_option(node_ids);
  const WorldComm comm("chunk_value_count=1024,timeout_ms=60000" +
                       (nodes.empty() ? "" : "," + nodes));
  std::string failures;
  uint64_t step = 100;
  const auto check = [&](const char* format) {
    failures +=
        compare(world, comm.get(), inputs, format, GQSGD_SCHEDULE_HIERARCHICAL, ++step, nodes);
  };
  for (const char* preset : kPresets) check(preset);
  for (const char* format : kBlockFormats) check(format);
  for (const char* format : kWideFormats) check(format);
  for (const char* format : kHostFormats) check(format);
  return failures;
}

/** The nodes that MPI reports, which on one machine are one; one rank beside the others; three in
 *  turn; three ranks, then the rest; and nodes of different sizes. */
std::string same_bits_on_nodes(const World& world) {
  const std::vector<Values> inputs = gradients(world.size, 20011, 70);
  std::vector<int32_t> first, turns, halves;
  for (int rank = 0; rank < world.size; ++rank) {
    first.push_back(rank == 0 ? 0 : 1);
    turns.push_back(rank % 3);
    halves.push_back(rank < 3 ? 8 : 2);
  }
  std::string failures = compare_nodes(world, inputs, {});
  for (const auto& node_ids : {first, turns, halves, uneven_nodes(world.size)}) {
    failures += compare_nodes(world, inputs, node_ids);
  }
  return failures;
}

/** Ranks measure with MPI's own sums before the first call that auto has to choose for, and the
 *  calls behind it find MPI as it was. */
std::string measured(const World& world) {
  const WorldComm comm("costs=measure,threads=2,timeout_ms=60000");
  const Values own(1000, static_cast<float>(world.rank));
  const Values sum(1000, static_cast<float>(world.size * (world.size - 1) / 2));
  std::string failures;
  for (const gqsgd_schedule schedule :
       {GQSGD_SCHEDULE_AUTO, GQSGD_SCHEDULE_NATIVE, GQSGD_SCHEDULE_RING}) {
    Values result;
    const Operation operation{"none", schedule, GQSGD_SUM};
    const std::string failure = allreduce(comm.get(), operation, own, &result);
    if (!failure.empty()) return failures + failure;
    const std::string wrong = difference(result, sum);
    if (!wrong.empty()) failures += describe(operation) + ", measured: " + wrong;
  }
  return failures;
}

std::string same_bits(const World& world) {
  const WorldComm comm("chunk_value_count=4096,timeout_ms=60000");
  std::string failures;
  for (const size_t count : {size_t{0}, size_t{33}, size_t{20011}}) {
    failures += compare_all(world, comm.get(), gradients(world.size, count, 7 + count));
  }
  return failures + same_bits_on_nodes(world) + measured(world);
}

}  // namespace
}  // namespace gq::test

int main(int argc, char** argv) { return gq::test::run_check(argc, argv, gq::test::same_bits); }
