// Rows and columns of a grid draw different random numbers, by the ranks that they have.
#include "tests/api/mpi/ranks.h"

namespace gq::test {
namespace {

constexpr int kSide = 2;
const Operation kOperation{"blocks-8", GQSGD_SCHEDULE_DIRECT, GQSGD_MEAN, false, 3, 0};

/** Of the ranks of a row, and of those of a column. */
std::vector<Values> inputs() { return gradients(kSide, 1000, 5); }

/** What an allreduce gives in a communicator made of the ranks that have one colour; the sentence
 *  of a failure. */
std::string reduce_in(int color, int rank, const char* options, Values* result) {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, color, rank, &part);
  gqsgd_comm comm = nullptr;
  if (gqsgd_comm_create_mpi(part, options, &comm) != GQSGD_OK) return gqsgd_last_error();
  int32_t own = 0;
  gqsgd_comm_rank(comm, &own);
  const std::string failure = allreduce(comm, kOperation, inputs()[own], result);
  gqsgd_comm_destroy(comm);
  MPI_Comm_free(&part);
  return failure;
}

std::string expect(const Values& result, uint32_t stream_id, const char* what) {
  const std::string options = "stream_id=" + std::to_string(stream_id);
  const std::string wrong = difference(result, simulate(kOperation, inputs(), options));
  return wrong.empty() ? "" : std::string(what) + ": " + wrong;
}

uint32_t digest(uint32_t first, uint32_t second) {
  return ((2166136261u ^ first) * 16777619u ^ second) * 16777619u;
}

/** A stream is given by the option of that name alone, however it is written. */
std::string ways_to_write(int column, int rank, uint32_t stream_of_column) {
  const struct {
    const char* options;
    uint32_t stream_id;
  } cases[] = {{"interface=stream_id=7", stream_of_column},  // ignored over MPI, but for its name
               {"", stream_of_column},
               {"  ", stream_of_column},
               {"timeout_ms=60000, stream_id = 7", 7},
               {" stream_id=7,threads=1", 7}};
  std::string failures;
  for (const auto& one : cases) {
    Values result;
    const std::string failure = reduce_in(column, rank, one.options, &result);
    failures += failure.empty() ? expect(result, one.stream_id, one.options) : failure;
  }
  return failures;
}

std::string streams(const World& world) {
  const auto rank = static_cast<uint32_t>(world.rank);
  const uint32_t row = rank / kSide, column = rank % kSide;
  Values of_row, of_column, given;
  std::string failures =
      reduce_in(static_cast<int>(row), world.rank, "timeout_ms=60000", &of_row);
  failures += reduce_in(static_cast<int>(column), world.rank, nullptr, &of_column);
  failures += reduce_in(static_cast<int>(column), world.rank, "stream_id=7", &given);
  if (!failures.empty()) return failures;
  failures += expect(of_row, digest(kSide * row, kSide * row + 1), "row");
  failures += expect(of_column, digest(column, kSide + column), "column");
  failures += expect(given, 7, "a stream that was given");
  if (difference(of_row, of_column).empty()) failures += "rows and columns draw alike";
  return failures + ways_to_write(static_cast<int>(column), world.rank,
                                  digest(column, kSide + column));
}

}  // namespace
}  // namespace gq::test

int main(int argc, char** argv) { return gq::test::run_check(argc, argv, gq::test::streams); }
