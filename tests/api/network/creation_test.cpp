// Groups of a network that are made, and those that cannot be: by ids and by the environment.
#include <dirent.h>
#include <gqsgd_elastic.h>
#include <gqsgd_network.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "tests/api/faults/support/call.h"
#include "tests/api/network/network_ranks.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

using Variables = std::vector<std::pair<const char*, const char*>>;

constexpr const char* kAllVariables[] = {"RANK",
                                         "WORLD_SIZE",
                                         "MASTER_ADDR",
                                         "MASTER_PORT",
                                         "OMPI_COMM_WORLD_RANK",
                                         "OMPI_COMM_WORLD_SIZE",
                                         "OMPI_COMM_WORLD_LOCAL_SIZE",
                                         "PMI_RANK",
                                         "PMI_SIZE",
                                         "MPI_LOCALNRANKS",
                                         "SLURM_PROCID",
                                         "SLURM_NTASKS",
                                         "SLURM_JOB_ID",
                                         "SLURM_STEP_NODELIST",
                                         "SLURM_JOB_NODELIST",
                                         "SLURM_NODELIST",
                                         "GQSGD_PORT",
                                         "GQSGD_ADDRESS",
                                         "GQSGD_SECRET",
                                         "GQSGD_INTERFACE",
                                         "GQSGD_HOST_ID",
                                         "TORCHELASTIC_RUN_ID"};

void set_only(const Variables& variables) {
  for (const char* name : kAllVariables) unsetenv(name);
  for (const auto& [name, value] : variables) setenv(name, value, 1);
}

/** What gqsgd_comm_create_env makes of an environment, in a process of its own. */
std::string created_by(const Variables& variables, const char* options = "timeout_ms=300") {
  Child child([&] {
    set_only(variables);
    gqsgd_comm comm = nullptr;
    const Outcome outcome = outcome_of(gqsgd_comm_create_env(options, &comm));
    if (outcome.status != GQSGD_OK) return outcome.text();
    int32_t rank = -1, size = -1;
    const char* name = "";
    gqsgd_comm_rank(comm, &rank);
    gqsgd_comm_size(comm, &size);
    gqsgd_comm_transport(comm, &name);
    return std::to_string(rank) + " of " + std::to_string(size) + " over " + name;
  });
  return child.line();
}

TEST(NetworkEnvironment, WrongVariables_NamedWithTheirValues) {
  const struct {
    Variables variables;
    const char* expected;
  } rows[] = {
      {{}, "INVALID_ARGUMENT: the environment has none of RANK, "},
      {{{"RANK", "1"}}, "INVALID_ARGUMENT: .* has RANK and not WORLD_SIZE"},
      {{{"WORLD_SIZE", "2"}}, "INVALID_ARGUMENT: .* has WORLD_SIZE and not RANK"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "INVALID_ARGUMENT: .*RANK=2 and WORLD_SIZE=2"},
      {{{"RANK", "one"}, {"WORLD_SIZE", "2"}}, "INVALID_ARGUMENT: .*RANK=one"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "INVALID_ARGUMENT: .*WORLD_SIZE=0"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, "INVALID_ARGUMENT: .*RANK=-1"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}},
       "INVALID_ARGUMENT: .*set MASTER_ADDR or GQSGD_ADDRESS"},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}},
       "INVALID_ARGUMENT: .*PMI_RANK of PMI and no address of rank 0"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"GQSGD_PORT", "x"}},
       "INVALID_ARGUMENT: .*GQSGD_PORT=x"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "70000"}},
       "INVALID_ARGUMENT: .*MASTER_PORT=70000"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "no.such.host.invalid"}},
       "INVALID_ARGUMENT: MASTER_ADDR=no.such.host.invalid has no address"},
      // What is found, by the address at which rank 0 is not:
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "2000"}},
       "TIMEOUT: missing ranks: 0; rank 1 .*127.0.0.1:2100 .MASTER_ADDR=127.0.0.1.: Connection "
       "refused"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}}, "127.0.0.1:29600"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "65500"}},
       "127.0.0.1:65400"},
      {{{"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"MASTER_ADDR", "127.0.0.2"},
        {"GQSGD_ADDRESS", "127.0.0.3"},
        {"MASTER_PORT", "2000"},
        {"GQSGD_PORT", "2001"}},
       "127.0.0.3:2001 .GQSGD_ADDRESS=127.0.0.3"},
      {{{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
        {"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "1"}},
       "rank 1 cannot connect to rank 0 at 127.0.0.1:29600"},
      {{{"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_JOB_ID", "12345"},
        {"SLURM_STEP_NODELIST", "localhost,other"}},
       ":22345 .SLURM_STEP_NODELIST=localhost"},
      {{{"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_JOB_NODELIST", "no[07-09,11].invalid"}},
       "SLURM_JOB_NODELIST=no07.invalid has no address"},
      {{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_NODELIST", "r[1-2]n[3,5]x.invalid"}},
       "SLURM_NODELIST=r1n3x.invalid has no address"},
  };
  for (const auto& row : rows) EXPECT_TRUE(found(created_by(row.variables), row.expected));
}

TEST(NetworkEnvironment, OneRank_OverProcesses) {
  EXPECT_EQ(created_by({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "0 of 1 over processes");
}

/** Ranks that the environment alone describes; each makes one call. */
std::vector<std::string> launched(int size, const Variables& variables,
                                  const std::function<void(int)>& change = nullptr,
                                  const char* options = "timeout_ms=10000") {
  const CommMaker make = [&](int rank, int count, const char* text, gqsgd_comm* comm) {
    set_only(variables);
    setenv("RANK", std::to_string(rank).c_str(), 1);
    setenv("WORLD_SIZE", std::to_string(count).c_str(), 1);
    if (change) change(rank);
    return gqsgd_comm_create_env(text, comm);
  };
  RankProcesses ranks(
      size, options,
      [](int rank, gqsgd_comm comm) -> std::string {
        const char* name = "";
        gqsgd_comm_transport(comm, &name);
        for (int turn = 0; turn < 3; ++turn) {  // groups at one port, one after the other
          gqsgd_comm another = nullptr;
          const Outcome made = outcome_of(gqsgd_comm_create_env("timeout_ms=10000", &another));
          if (made.status != GQSGD_OK) return made.text();
          const Outcome outcome = Call(rank).make(turn % 2 == 0 ? comm : another);
          if (outcome.status != GQSGD_OK) return outcome.text();
          gqsgd_comm_destroy(another);
        }
        return name;
      },
      make);
  return ranks.wait_each();
}

std::string free_port() { return std::to_string(20000 + getpid() % 9000); }

TEST(NetworkEnvironment, RanksOfOneMachine_OverProcesses) {
  const std::string port = free_port();
  const Variables here = {{"MASTER_ADDR", "127.0.0.1"}, {"GQSGD_PORT", port.c_str()}};
  EXPECT_EQ(launched(4, here), std::vector<std::string>(4, "processes"));
  Variables secret = here;
  secret.push_back({"GQSGD_SECRET", "of this test"});
  EXPECT_EQ(launched(4, secret), std::vector<std::string>(4, "processes"));
}

TEST(NetworkEnvironment, RanksOfSeveralHosts_OverTheNetwork) {
  GQ_SKIP_WITHOUT_NETWORK();
  const std::string port = free_port();
  const Variables here = {{"MASTER_ADDR", "localhost"}, {"GQSGD_PORT", port.c_str()}};
  const auto lines =
      launched(3, here, [](int rank) { setenv("GQSGD_HOST_ID", rank == 2 ? "b" : "a", 1); });
  EXPECT_EQ(lines, std::vector<std::string>(3, "network"));
}

TEST(NetworkEnvironment, AddressOfAnotherMachine_NamedByRankZero) {
  const std::string port = free_port();
  const std::string line = created_by({{"RANK", "0"},
                                       {"WORLD_SIZE", "2"},
                                       {"MASTER_ADDR", "198.51.100.7"},
                                       {"GQSGD_PORT", port.c_str()}});
  EXPECT_TRUE(found(line, "TIMEOUT: missing ranks: 1; .* rank 0 at 0.0.0.0:" + port +
                              " .MASTER_ADDR=198.51.100.7.; are they started"));
}

TEST(NetworkEnvironment, AnotherSecret_Refused) {
  const std::string port = free_port();
  const Variables here = {{"MASTER_ADDR", "127.0.0.1"}, {"GQSGD_PORT", port.c_str()}};
  const auto lines =
      launched(2, here, [](int rank) { setenv("GQSGD_SECRET", rank == 0 ? "one" : "another", 1); });
  EXPECT_TRUE(found(lines[1], "INVALID_ARGUMENT: rank 1: .*GQSGD_SECRET"));
  EXPECT_TRUE(found(lines[0],
                    "TIMEOUT: missing ranks: 1; 1 of 2.* 1 connection was refused, from "
                    "127.0.0.1:.*GQSGD_SECRET"));
}

TEST(NetworkId, WrongArguments_SentencesNameThem) {
  gqsgd_unique_id id;
  gqsgd_comm comm = nullptr;
  EXPECT_TRUE(is(outcome_of(gqsgd_network_id_create("", nullptr)), GQSGD_INVALID_ARGUMENT,
                 "unique_id is NULL"));
  EXPECT_TRUE(is(outcome_of(gqsgd_network_id_create("interface=nosuch0", &id)),
                 GQSGD_INVALID_ARGUMENT, "interface \"nosuch0\" is not up.*lo 127.0.0.1"));
  EXPECT_TRUE(is(outcome_of(gqsgd_network_id_create("address=192.0.2.1", &id)),
                 GQSGD_INVALID_ARGUMENT, "192.0.2.1, no address of this machine"));
  EXPECT_TRUE(is(outcome_of(gqsgd_network_id_create("port=70000", &id)), GQSGD_INVALID_ARGUMENT,
                 "port=70000 is outside 0 to 65535"));
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_unique_id_create(&id))));
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_create_network(&id, 0, 1, "", &comm)),
                 GQSGD_INVALID_ARGUMENT, "does not hold the id of a network"));
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_create_network(nullptr, 0, 1, "", &comm)),
                 GQSGD_INVALID_ARGUMENT, "unique_id is NULL"));
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_create_network(&id, 0, 1, "", nullptr)),
                 GQSGD_INVALID_ARGUMENT, "comm is NULL"));
  EXPECT_TRUE(
      is(outcome_of(gqsgd_comm_create_env("", nullptr)), GQSGD_INVALID_ARGUMENT, "comm is NULL"));
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_network_id_create("address=127.0.0.1", &id))));
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_create_network(&id, 2, 2, "", &comm)),
                 GQSGD_INVALID_ARGUMENT, "rank"));
  gqsgd_unique_id other = id;
  other.bytes[9] = static_cast<unsigned char>(other.bytes[9] ^ 1);
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_create_network(&other, 0, 1, "", &comm)),
                 GQSGD_INVALID_ARGUMENT, "does not listen at 127.0.0.1:"));
}

TEST(NetworkId, PortInUse_Named) {
  gqsgd_unique_id id;
  const std::string port = std::to_string(29100 + getpid() % 400);
  const std::string options = "address=127.0.0.1,port=" + port;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_network_id_create(options.c_str(), &id))));
  EXPECT_TRUE(is(outcome_of(gqsgd_network_id_create(options.c_str(), &id)), GQSGD_NO_RESOURCE,
                 "127.0.0.1:" + port + " is in use"));
}

TEST(NetworkId, ForAnotherProcess_RankZeroRefused) {
  gqsgd_unique_id id;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_network_id_create("address=127.0.0.1", &id))));
  Child child([&] {
    gqsgd_comm comm = nullptr;
    return outcome_of(gqsgd_comm_create_network(&id, 0, 1, "", &comm)).text();
  });
  EXPECT_TRUE(found(child.line(), "INVALID_ARGUMENT: this process does not listen at"));
}

TEST(NetworkGroup, MissingRank_NamedOnAll) {
  const CommMaker all = network_maker();
  RankProcesses ranks(
      3, "timeout_ms=1000", [](int, gqsgd_comm) { return std::string("made"); },
      [&](int rank, int size, const char* options, gqsgd_comm* comm) {
        if (rank == 2) _exit(0);
        return all(rank, size, options, comm);
      });
  const auto lines = ranks.wait_each();
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(found(lines[static_cast<size_t>(rank)], "TIMEOUT: missing ranks: 2; 1 of 3"));
  }
}

TEST(NetworkGroup, UcxMissingOnOneRank_NamedOnAll) {
  GQ_SKIP_WITHOUT_NETWORK();
  const CommMaker all = network_maker();
  RankProcesses ranks(
      3, "timeout_ms=10000", [](int, gqsgd_comm) { return std::string("made"); },
      [&](int rank, int size, const char* options, gqsgd_comm* comm) {
        const std::string more = std::string(options) + (rank == 1 ? ",ucx=/nonexistent.so" : "");
        return all(rank, size, more.c_str(), comm);
      });
  const auto lines = ranks.wait_each();
  EXPECT_TRUE(found(lines[1], "UNSUPPORTED: .*nonexistent.so"));
  for (const int rank : {0, 2}) {
    EXPECT_TRUE(found(lines[static_cast<size_t>(rank)],
                      "REMOTE_ERROR: rank 1 could not join: .*nonexistent.so"));
  }
}

// No rank waits for one that has been refused.
/** It cannot prove to the others that it is rank 0: they find its listener closed. */
TEST(NetworkGroup, NoCryptoOnRankZero_OthersDoNotWait) {
  gqsgd_unique_id id;
  ASSERT_EQ(gqsgd_network_id_create("address=127.0.0.1", &id), GQSGD_OK);
  Child other([&] {
    gqsgd_comm comm = nullptr;
    return outcome_of(gqsgd_comm_create_network(&id, 1, 2, "timeout_ms=40000", &comm)).text();
  });
  setenv("GQSGD_CRYPTO_LIBRARY", "/nowhere/libcrypto.so", 1);
  gqsgd_comm comm = nullptr;
  const Outcome own = outcome_of(gqsgd_comm_create_network(&id, 0, 2, "timeout_ms=40000", &comm));
  unsetenv("GQSGD_CRYPTO_LIBRARY");
  EXPECT_TRUE(is(own, GQSGD_UNSUPPORTED, "libcrypto"));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(found(other.line(), "^TIMEOUT: missing ranks: 0; .*Connection refused"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
}

TEST(NetworkGroup, OptionRefusedOnOneRank_ToldToAll) {
  for (const int culprit : {0, 1}) {
    for (const char* option : {"bogus=1", "interface=nosuch0", "costs=/nosuch"}) {
      RankProcesses ranks(
          3, "timeout_ms=60000", [](int, gqsgd_comm) { return std::string("made"); },
          [all = network_maker(), &option, culprit](int rank, int size, const char* options,
                                                    gqsgd_comm* comm) {
            const std::string more = std::string(options) + "," + option;
            return all(rank, size, rank == culprit ? more.c_str() : options, comm);
          });
      const auto lines = ranks.wait_each();
      for (int rank = 0; rank < 3; ++rank) {
        const std::string told =
            "REMOTE_ERROR: rank " + std::to_string(culprit) + " could not join:";
        EXPECT_TRUE(found(lines[static_cast<size_t>(rank)],
                          (rank == culprit ? "INVALID_ARGUMENT:" : told) + " .*(nosuch|bogus)"));
      }
    }
  }
}

TEST(NetworkEnvironment, InterfaceMissingOnOneRank_ToldToAll) {
  const std::string port = free_port();
  const Variables here = {{"MASTER_ADDR", "127.0.0.1"}, {"GQSGD_PORT", port.c_str()}};
  const auto lines = launched(2, here, [](int rank) {
    if (rank == 1) setenv("GQSGD_INTERFACE", "nosuch0", 1);
  });
  EXPECT_TRUE(found(lines[1], "INVALID_ARGUMENT: .*nosuch0"));
  EXPECT_TRUE(found(lines[0], "REMOTE_ERROR: rank 1 could not join: .*nosuch0"));
}

TEST(NetworkGroup, TooFewDescriptorsForItsPaths_CountedOnAll) {
  const CommMaker all = network_maker();
  RankProcesses ranks(
      3, "timeout_ms=10000,paths=16", [](int, gqsgd_comm) { return std::string("made"); },
      [&](int rank, int size, const char* options, gqsgd_comm* comm) {
        const rlimit few{80, 80};
        if (rank == 1) setrlimit(RLIMIT_NOFILE, &few);
        return all(rank, size, options, comm);
      });
  const auto lines = ranks.wait_each();
  EXPECT_TRUE(found(lines[1], "NO_RESOURCE: needs [0-9]+ more .*, limit 80: 139 for a group of 3"));
  for (const int rank : {0, 2}) {
    EXPECT_TRUE(found(lines[static_cast<size_t>(rank)],
                      "REMOTE_ERROR: rank 1 could not join: needs .*limit 80"));
  }
}

size_t open_descriptors() {
  size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(folder);
  return count - 1;  // the folder's own
}

/** As many as docs/TRANSPORTS.md says. While a group forms two ranks may connect to each other at
 *  the same time. */
TEST(NetworkGroup, JustEnoughDescriptors_Forms) {
  GQ_SKIP_WITHOUT_NETWORK();
  const CommMaker all = network_maker();
  constexpr int kRanks = 8;
  RankProcesses ranks(
      kRanks, "timeout_ms=20000,paths=16",
      [](int rank, gqsgd_comm comm) -> std::string {
        const Outcome outcome = Call(rank).make(comm);
        return outcome.status == GQSGD_OK ? "" : outcome.text();
      },
      [&](int rank, int size, const char* options, gqsgd_comm* comm) {
        setenv("UCX_TLS", "tcp,self", 1);
        const size_t enough = open_descriptors() + 1 + 40 + (1 + 2 * 16) * kRanks;  // 1: the id's
        const rlimit few{enough, enough};
        setrlimit(RLIMIT_NOFILE, &few);
        return all(rank, size, options, comm);
      });
  EXPECT_EQ(ranks.wait(), "");
}

TEST(NetworkGroup, SurvivorsWithOtherNumbersOfPaths_RevokedSaysSo) {
  GQ_SKIP_WITHOUT_NETWORK();
  RankProcesses ranks(
      2, "timeout_ms=1500",
      [](int rank, gqsgd_comm comm) {
        int32_t members[2];
        int32_t interrupted = 0;
        gqsgd_comm next = nullptr;
        return outcome_of(gqsgd_comm_shrink(comm, nullptr, 0, GQSGD_FLOAT32,
                                            rank == 0 ? "paths=2" : "paths=3", &next, members,
                                            &interrupted))
            .text();
      },
      network_maker());
  for (const std::string& line : ranks.wait_each()) {
    EXPECT_TRUE(found(line, "REVOKED: .* no group of the survivors formed: .*option paths is "));
  }
}

TEST(NetworkGroup, SecondGroupInOneProcess_Forms) {
  GQ_SKIP_WITHOUT_NETWORK();
  const CommMaker second = network_maker();
  RankProcesses ranks(
      3, "timeout_ms=20000",
      [&](int rank, gqsgd_comm comm) -> std::string {
        gqsgd_comm other = nullptr;
        Outcome outcome = outcome_of(second(rank, 3, "timeout_ms=20000", &other));
        if (outcome.status != GQSGD_OK) return outcome.text();
        for (int turn = 0; turn < 3; ++turn) {
          for (const gqsgd_comm each : {comm, other}) {
            outcome = Call(rank).make(each);
            if (outcome.status != GQSGD_OK) return outcome.text();
          }
        }
        return failure_of(gqsgd_comm_destroy(other), "gqsgd_comm_destroy");
      },
      network_maker());
  EXPECT_EQ(ranks.wait(), "");
}

}  // namespace
}  // namespace gq::test
