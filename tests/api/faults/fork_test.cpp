// A process that forks or executes something else with a communicator open.
#include <gqsgd_network.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/api/faults/support/call.h"
#include "tests/support/ranks.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

/** What a child of `comm`'s owner sees of it. */
std::string child_view(gqsgd_comm comm) {
  Child child([comm] {
    const Outcome called = Call(0).make(comm);
    const Outcome destroyed = outcome_of(gqsgd_comm_destroy(comm));
    const Outcome aborted = outcome_of(gqsgd_comm_abort(comm));
    gqsgd_comm own[1];
    const Outcome made = outcome_of(gqsgd_comm_create_local(1, "", own));
    const Outcome used = Call(0).make(own[0]);
    return called.text() + " | " + destroyed.text() + " | " + aborted.text() + " | " + made.text() +
           " | " + used.text();
  });
  return child.line();
}

const char* const kForked =
    "^FORKED: rank 0's communicator belongs to the parent.* \\| FORKED.* \\| FORKED.* \\| OK \\| "
    "OK$";

TEST(Fork, Child_GetsAnError_ParentContinues) {
  for (const char* options : {"timeout_ms=20000", "timeout_ms=20000,threads=3"}) {
    Group group(2, options);
    const std::string line = child_view(group.comm(0));
    EXPECT_TRUE(found(line, kForked));
    EXPECT_TRUE(group.still_works());
  }
}

TEST(Fork, ChildOfAProcessRank_GetsAnError_GroupContinues) {
  const std::string lines = run_processes(2, "timeout_ms=20000", [](int rank, gqsgd_comm comm) {
    for (int turn = 0; turn < 3; ++turn) {
      if (rank == 0) {
        const std::string line = child_view(comm);
        if (!matches(line, kForked)) return line;
      }
      const Outcome outcome = Call(rank).make(comm);
      if (outcome.status != GQSGD_OK) return outcome.text();
    }
    return std::string();
  });
  EXPECT_EQ(lines, "");
}

// The exit handlers and static destructors of the child must not touch what is the parent's.
TEST(Fork, ExitOfTheChild_GroupContinues) {
  const std::string lines =
      run_processes(2, "timeout_ms=20000,threads=3", [](int rank, gqsgd_comm comm) {
        const pid_t child = rank == 0 ? fork() : -1;
        if (child == 0) std::exit(9);
        int wait_status = 9 << 8;
        if (rank == 0) waitpid(child, &wait_status, 0);
        if (WEXITSTATUS(wait_status) != 9) return std::string("the child crashed");
        const Outcome outcome = Call(rank).make(comm);
        return outcome.status == GQSGD_OK ? "" : outcome.text();
      });
  EXPECT_EQ(lines, "");
}

TEST(Fork, ExecutingAnotherProgram_IsADeath) {
  RankProcesses ranks(2, "timeout_ms=20000", [](int rank, gqsgd_comm comm) {
    Outcome outcome = Call(rank).make(comm);
    if (outcome.status != GQSGD_OK) return outcome.text();
    if (rank == 1) execl("/bin/sleep", "sleep", "1", nullptr);
    return Call(rank).make(comm).text();
  });
  const auto lines = ranks.wait_each();
  EXPECT_EQ(lines[0].rfind("PEER_LOST: rank 1 has died or gone away", 0), 0u) << lines[0];
  EXPECT_EQ(lines[1], "") << "sleep ran to its end";
}

/** A child that is forked while another thread looks for the listener of an id. */
TEST(Fork, WhileListenersAreLookedFor_ChildMakesAnId) {
  gqsgd_unique_id unknown, spare;
  ASSERT_EQ(gqsgd_network_id_create("address=127.0.0.1", &unknown), GQSGD_OK);
  for (int k = 0; k < 200; ++k) {
    ASSERT_EQ(gqsgd_network_id_create("address=127.0.0.1", &spare), GQSGD_OK);
  }
  unknown.bytes[8] ^= 1;  // of its name
  std::atomic<bool> ends{false};
  std::thread looking([&] {
    gqsgd_comm comm = nullptr;
    while (!ends) (void)gqsgd_comm_create_network(&unknown, 0, 2, "", &comm);
  });
  std::string line = "OK";
  for (int turn = 0; turn < 50 && line == "OK"; ++turn) {
    Child child([] {
      alarm(5);
      gqsgd_unique_id made;
      return outcome_of(gqsgd_network_id_create("address=127.0.0.1", &made)).text();
    });
    line = child.line();
  }
  ends = true;
  looking.join();
  EXPECT_EQ(line, "OK");
}

}  // namespace
}  // namespace gq::test
