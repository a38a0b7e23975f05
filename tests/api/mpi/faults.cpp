// What MPI ranks learn when one of them is wrong, absent or stopped; each in a run of its own:
//
//   mpirun -n 3 faults mismatch | declined | nodes | refused | absent | idle | unsendable
//   mpirun -n 2 faults stopped | stopped_sum
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/api/mpi/ranks.h"
#include "tests/support/ranks.h"

/** MPI's own, but for a time in which it starts no send. */
static bool g_sends_fail = false;
extern "C" int MPI_Isend(const void* bytes, int count, MPI_Datatype type, int peer, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  if (g_sends_fail) return MPI_ERR_OTHER;
  return PMPI_Isend(bytes, count, type, peer, tag, comm, request);
}

namespace gq::test {
namespace {

constexpr int kCulprit = 1;
const Operation kGood{"paper-gl8", GQSGD_SCHEDULE_RING};

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::string expect_in(const std::string& sentence, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (!has(sentence, part)) return std::string("\"") + part + "\" is not in: " + sentence;
  }
  return "";
}

/** All ranks name field, ranks and values, and the group goes on. */
std::string mismatch(const World& world) {
  const WorldComm comm("timeout_ms=20000");
  Operation bad = kGood;
  if (world.rank == kCulprit) bad.quantizer = "paper-gl4";
  Values result;
  const std::string failure = allreduce(comm.get(), bad, Values(100, 1.0f), &result);
  const std::string wrong =
      expect_in(failure, {"MISMATCH", "bits differs: rank 0 has 8, rank 1 has 4"});
  return wrong.empty() ? allreduce(comm.get(), kGood, Values(100, 1.0f), &result) : wrong;
}

/** A rank whose own checks failed takes part, with a request in flight before it. */
std::string declined(const World& world) {
  const WorldComm comm("timeout_ms=20000");
  const char* name = "";
  if (gqsgd_comm_transport(comm.get(), &name) != GQSGD_OK || !has(name, "mpi")) return name;
  const Quantizer quantizer(kGood.quantizer);
  Values send(100, 1.0f), recv(100, 0.0f), result;
  gqsgd_request request = nullptr;
  gqsgd_status status =
      gqsgd_allreduce_start(comm.get(), quantizer.get(), send.data(), recv.data(), send.size(),
                            GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr, &request);
  if (status != GQSGD_OK) return failure_of(status, "start");
  std::string wrong;
  if (world.rank == kCulprit) {
    wrong = failure_of(gqsgd_comm_refuse(comm.get(), GQSGD_NO_MEMORY, nullptr, nullptr), "refuse");
  } else {
    const std::string failure =
        allreduce(comm.get(), kGood, Values(100, 1.0f), &result, /*use_counter=*/true);
    wrong = expect_in(failure, {"REMOTE_ERROR", "rank 1 refused its own call with NO_MEMORY"});
  }
  status = gqsgd_request_wait(request);
  if (wrong.empty()) wrong = failure_of(status, "wait");
  uint64_t step = 0;
  gqsgd_comm_counter(comm.get(), &step);
  if (wrong.empty() && step != 2) wrong = "the counter is at " + std::to_string(step);
  return wrong.empty() ? allreduce(comm.get(), kGood, Values(100, 1.0f), &result) : wrong;
}

/** Nodes that a user gives, otherwise on one rank: found where they matter, and nowhere else. */
std::string nodes(const World& world) {
  const char* given = world.rank == kCulprit ? "nodes=0:1:1" : "nodes=0:0:1";
  const WorldComm comm(std::string("timeout_ms=20000,") + given);
  const Operation hierarchical{"paper-gl8", GQSGD_SCHEDULE_HIERARCHICAL};
  Values result;
  const std::string failure = allreduce(comm.get(), hierarchical, Values(100, 1.0f), &result);
  const std::string wrong =
      expect_in(failure, {"MISMATCH", "rank 0 and rank 1 group the ranks differently"});
  return wrong.empty() ? allreduce(comm.get(), kGood, Values(100, 1.0f), &result) : wrong;
}

/** Options that one rank is refused with fail all ranks, and no rank waits. */
std::string refused(const World& world) {
  gqsgd_comm comm = nullptr;
  const char* options = world.rank == kCulprit ? "speed=high" : "timeout_ms=20000";
  const gqsgd_status status = gqsgd_comm_create_mpi(MPI_COMM_WORLD, options, &comm);
  const std::string sentence = std::string(gqsgd_status_name(status)) + ": " + gqsgd_last_error();
  if (comm != nullptr) return "a communicator was made";
  if (world.rank == kCulprit) return expect_in(sentence, {"INVALID_ARGUMENT", "speed"});
  return expect_in(sentence, {"REMOTE_ERROR", "rank 1", "INVALID_ARGUMENT"});
}

/** A rank that makes its communicator when another has given up waiting gives up as well. */
std::string late(const World& world) {
  if (world.rank == kCulprit) usleep(600000);
  gqsgd_comm comm = nullptr;
  const double begin = wall_seconds();
  const gqsgd_status status = gqsgd_comm_create_mpi(MPI_COMM_WORLD, "timeout_ms=200", &comm);
  const double seconds = wall_seconds() - begin;
  const std::string sentence = std::string(gqsgd_status_name(status)) + ": " + gqsgd_last_error();
  std::string wrong = expect_in(sentence, {"TIMEOUT", "has not called gqsgd_comm_create_mpi"});
  if (comm != nullptr) wrong += "a communicator was made";
  if (seconds < 0.2 || seconds > 1.2) wrong += "after " + std::to_string(seconds) + " s";
  return wrong;
}

/** A timeout names the rank that never calls, in time, and leaves the input as it was. */
std::string absent(const World& world) {
  const WorldComm comm("timeout_ms=400");
  std::string wrong;
  if (world.rank != kCulprit) {
    const Values input(100000, 1.5f);
    Values send = input;
    const Quantizer quantizer("blocks-8");
    const double begin = wall_seconds();
    const gqsgd_status status =
        gqsgd_allreduce(comm.get(), quantizer.get(), send.data(), send.data(), send.size(),
                        GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr);
    const double seconds = wall_seconds() - begin;
    wrong = expect_in(failure_of(status, "allreduce"),
                      {"TIMEOUT", "waited", "for rank 1 to make this call"});
    if (seconds < 0.4 || seconds > 1.4) wrong += "after " + std::to_string(seconds) + " s";
    if (send != input) wrong += "the input was changed";
    if (gqsgd_comm_status(comm.get()) != GQSGD_TIMEOUT) wrong += "the communicator is not broken";
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return wrong;
}

/** A send that MPI refuses to start is a failure with its sentence, and the program ends well. */
std::string unsendable(const World& world) {
  std::string wrong;
  {
    const WorldComm comm("timeout_ms=400");
    Values result;
    g_sends_fail = world.rank == kCulprit;
    const std::string failure = allreduce(comm.get(), kGood, Values(100, 1.0f), &result);
    g_sends_fail = false;
    const char* send_failed = "the transport's send to rank";
    wrong = world.rank == kCulprit
                ? expect_in(failure, {"BACKEND", send_failed, "failed with code"})
                : expect_in(failure, {"TIMEOUT", "rank 1"});
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return wrong;
}

/** A rank that waits leaves its core to others. */
std::string idle(const World& world) {
  constexpr double kSeconds = 1.0, kShare = 0.05;
  const WorldComm comm("timeout_ms=20000");
  Values result;
  std::string wrong = allreduce(comm.get(), kGood, Values(1000, 1.0f), &result);
  double least = kSeconds;
  for (int turn = 0; turn < 3; ++turn) {  // what a machine is busy with besides counts as well
    MPI_Barrier(MPI_COMM_WORLD);
    if (world.rank == kCulprit) usleep(static_cast<useconds_t>(kSeconds * 1e6));
    const double begin = core_seconds();
    wrong += allreduce(comm.get(), kGood, Values(1000, 1.0f), &result);
    least = std::min(least, core_seconds() - begin);
  }
  if (world.rank != kCulprit && least > kShare * kSeconds) {
    wrong += "waiting for 1 s took " + std::to_string(least) + " s of a core";
  }
  return wrong;
}

int g_pipe[2];

/** Stops this process for a while from outside, as soon as something is written to the pipe. */
pid_t start_stopper(pid_t victim) {
  const pid_t stopper = fork();
  if (stopper != 0) return stopper;
  close(g_pipe[1]);
  char byte;
  if (read(g_pipe[0], &byte, 1) == 1) {
    usleep(20000);
    kill(victim, SIGSTOP);
    usleep(1500000);
    kill(victim, SIGCONT);
  }
  _exit(0);
}

/** A rank stopped in mid-operation: TIMEOUT within the time, and inputs intact; the sentence of the
 *  others has one of `words`. */
std::string stop_during(const World& world, const Operation& operation,
                        std::initializer_list<const char*> words) {
  const WorldComm comm("timeout_ms=400,chunk_value_count=4096");
  const Values input = gradients(world.size, 300000, 3)[world.rank];
  Values result;
  std::string failure;
  double begin = 0;
  const char byte = 0;
  if (world.rank == kCulprit && write(g_pipe[1], &byte, 1) != 1) return "cannot wake the stopper";
  for (int call = 0; call < 100000 && failure.empty(); ++call) {
    begin = wall_seconds();
    failure = allreduce(comm.get(), operation, input, &result);
  }
  const double seconds = wall_seconds() - begin;
  MPI_Barrier(MPI_COMM_WORLD);
  if (has(failure, "the input was changed")) return failure;
  if (world.rank == kCulprit) return expect_in(failure, {"TIMEOUT"});
  if (seconds < 0.4 || seconds > 1.4) return failure + ", after " + std::to_string(seconds) + " s";
  for (const char* word : words) {
    if (has(failure, word)) return expect_in(failure, {"TIMEOUT"});
  }
  return failure;
}

std::string stopped(const World& world) {
  return stop_during(world, {"blocks-8", GQSGD_SCHEDULE_DIRECT}, {"rank 1"});
}

/** MPI does not say whom its sums wait for. */
std::string stopped_sum(const World& world) {
  return stop_during(world, {"paper-gl8", GQSGD_SCHEDULE_NATIVE},
                     {"rank 1", "All of them have made this call"});
}

}  // namespace
}  // namespace gq::test

int main(int argc, char** argv) {
  using namespace gq::test;
  const struct {
    const char* name;
    Check check;
  } checks[] = {{"mismatch", mismatch}, {"declined", declined}, {"nodes", nodes},
                {"refused", refused},   {"late", late},         {"absent", absent},
                {"idle", idle},         {"stopped", stopped},   {"stopped_sum", stopped_sum},
                {"unsendable", unsendable}};
  pid_t stopper = -1;
  if (argc == 2 && std::strncmp(argv[1], "stopped", 7) == 0) {
    if (pipe(g_pipe) != 0) return 2;
    stopper = start_stopper(getpid());  // MPI does not like fork() once it runs
    close(g_pipe[0]);
  }
  int result = 2;
  for (const auto& one : checks) {
    if (argc == 2 && std::strcmp(argv[1], one.name) == 0) result = run_check(argc, argv, one.check);
  }
  if (stopper > 0) {
    close(g_pipe[1]);
    waitpid(stopper, nullptr, 0);
  }
  return result;
}
