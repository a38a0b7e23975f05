// Processes that die at random instants, with requests in flight and while the others shrink: the
// survivors have one membership and the bits of gqsgd_simulate. Times are printed.
// GQ_KILLS=first:end runs other seeds than a few.
#include <gqsgd_elastic.h>
#include <gqsgd_network.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "src/support/clock.h"
#include "tests/api/faults/support/outcome.h"
#include "tests/api/network/network_ranks.h"
#include "tests/support/operation.h"
#include "tests/support/shared_memory.h"
#include "tests/api/elastic/simulated_allreduce.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

enum class Kind { processes, network };

constexpr int kRanksMax = 8;
constexpr size_t kValues = 5000;
constexpr size_t kInFlight = 3;
constexpr const char* kFormat = "rotated-4";
constexpr const char* kOptions = "timeout_ms=20000,stream_id=9,chunk_value_count=512";

struct Times {
  std::atomic<uint64_t> killed_us, named_us[kRanksMax], entered_us[kRanksMax],
      returned_us[kRanksMax];
};

/** What a run does, from its seed. */
struct Plan {
  explicit Plan(uint64_t seed)
      : ranks(3 + static_cast<int>(seed % 6)),
        victim(static_cast<int>(mix(seed) % static_cast<uint64_t>(ranks))),
        second((victim + 1 + static_cast<int>(mix(seed + 1) % static_cast<uint64_t>(ranks - 1))) %
               ranks),
        at_us(static_cast<useconds_t>(mix(seed + 2) % 20000)),
        dies_while_shrinking(ranks > 3 && mix(seed + 3) % 2 == 0),
        later_us(static_cast<useconds_t>(mix(seed + 4) % 3000)),
        has_requests(mix(seed + 5) % 2 == 0),
        aborts_after(mix(seed + 6) % 2 == 0 ? 1 + mix(seed + 7) % 20 : UINT64_MAX) {}
  const int ranks, victim, second;
  const useconds_t at_us;
  const bool dies_while_shrinking;
  const useconds_t later_us;
  const bool has_requests;
  const uint64_t aborts_after;  ///< so many calls rank `second` aborts, and shrinks
};

struct Shared {
  SharedArray<Times> times{1};
  SharedArray<gqsgd_unique_id> id{1};
  SharedArray<std::atomic<int>> has_id{1}, formed{1}, failed{1}, handed{1};
};

std::string make_group(const Plan& plan, Kind kind, int rank, Shared* shared, gqsgd_comm* comm) {
  if (rank == 0) {
    const gqsgd_status made = kind == Kind::network
                                  ? gqsgd_network_id_create("address=127.0.0.1", &shared->id[0])
                                  : gqsgd_unique_id_create(&shared->id[0]);
    shared->has_id[0] = made == GQSGD_OK ? 1 : 2;
  }
  while (shared->has_id[0] == 0) usleep(200);
  const auto create = kind == Kind::network ? gqsgd_comm_create_network : gqsgd_comm_create_process;
  const gqsgd_status created = create(&shared->id[0], rank, plan.ranks, kOptions, comm);
  if (created != GQSGD_OK) return "no group: " + outcome_of(created).text();
  shared->formed[0] += 1;
  return "";
}

/** What a rank has done before it shrinks. */
struct Called {
  Outcome failure;
  uint64_t ended = 0;  ///< calls with a result
  Values newest;       ///< the result of the newest of them
  Values interrupted;  ///< the buffer of the first that failed: its input
};

/** One call in place, or some in flight. */
std::vector<Outcome> call(const Plan& plan, gqsgd_comm comm, std::vector<Values>* buffers) {
  const Quantizer quantizer(kFormat);
  std::vector<gqsgd_request> requests(buffers->size());
  std::vector<Outcome> ends(buffers->size());
  for (size_t k = 0; k < buffers->size(); ++k) {
    float* const values = (*buffers)[k].data();
    ends[k] = outcome_of(
        plan.has_requests
            ? gqsgd_allreduce_start(comm, quantizer.get(), values, values, kValues, GQSGD_FLOAT32,
                                    GQSGD_MEAN, nullptr, nullptr, &requests[k])
            : gqsgd_allreduce(comm, quantizer.get(), values, values, kValues, GQSGD_FLOAT32,
                              GQSGD_MEAN, nullptr, nullptr));
  }
  for (size_t k = 0; plan.has_requests && k < buffers->size(); ++k) {
    ends[k] = outcome_of(gqsgd_request_wait(requests[k]));
  }
  return ends;
}

/** Until a call fails; its input is as it was. */
std::string call_until_failure(const Plan& plan, int rank, gqsgd_comm comm, Called* called) {
  const Values given = gradients(plan.ranks, kValues, 5)[static_cast<size_t>(rank)];
  while (called->interrupted.empty()) {
    if (rank == plan.second && called->ended >= plan.aborts_after) {
      called->failure = {GQSGD_ABORTED, "rank of its own accord"};
      gqsgd_comm_abort(comm);
      return "";
    }
    std::vector<Values> buffers(plan.has_requests ? kInFlight : 1, given);
    const std::vector<Outcome> ends = call(plan, comm, &buffers);
    for (size_t k = 0; k < buffers.size(); ++k) {
      if (ends[k].status == GQSGD_OK) {
        if (!called->interrupted.empty()) return "a call succeeded after one that failed";
        called->ended += 1;
        called->newest = buffers[k];
        continue;
      }
      if (buffers[k] != given) return "a call that failed changed its input";
      if (!called->interrupted.empty()) continue;
      called->failure = ends[k];
      called->interrupted = buffers[k];
    }
  }
  return "";
}

/** Counts what the shrink has finished: "calls 12 of 0.3741". The same on all survivors. */
std::string state_of(int32_t interrupted, Called* called) {
  if (interrupted == GQSGD_CALLS_FINISHED) {
    called->ended += 1;
    called->newest = called->interrupted;
  }
  uint64_t digest = 0;
  for (const float value : called->newest) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    digest = mix(digest ^ bits);
  }
  if (interrupted == GQSGD_CALLS_REPEAT_FINISHED) return "! a result has been lost";
  if (interrupted == GQSGD_CALLS_DIFFER) return "! calls differ";
  return "calls " + std::to_string(called->ended) + " " + std::to_string(digest) + "; ";
}

/** One call of the new group, whose bits are those of virtual ranks. */
std::string repeat(gqsgd_comm comm, gqsgd_status* ended) {
  uint64_t step = 0;
  gqsgd_comm_counter(comm, &step);
  return allreduce_as_simulated(comm, {kFormat, kValues, step, "stream_id=9"}, ended);
}

/** A survivor: "members 0,2; " of each group that it gets, or what is wrong after "! ". */
std::string survive(const Plan& plan, Kind kind, int rank, Shared* shared) {
  gqsgd_comm comm = nullptr;
  std::string problem = make_group(plan, kind, rank, shared, &comm);
  Called called;
  if (problem.empty()) problem = call_until_failure(plan, rank, comm, &called);
  Times& times = shared->times[0];
  times.named_us[rank] = monotonic_us();
  shared->failed[0] += 1;
  if (problem.empty() && !matches(called.failure.text(), "^(PEER_LOST|REVOKED|ABORTED): .*rank")) {
    problem = called.failure.text();
  }
  std::vector<int> names(static_cast<size_t>(plan.ranks));
  for (int k = 0; k < plan.ranks; ++k) names[static_cast<size_t>(k)] = k;
  std::string line;
  for (int round = 0; problem.empty(); ++round) {
    if (round == 4) return "! four groups, and none of them works";
    int32_t members[kRanksMax], interrupted = -1, size = 0;
    gqsgd_comm next = nullptr;
    if (round == 0) times.entered_us[rank] = monotonic_us();
    float* const recv = round == 0 ? called.interrupted.data() : nullptr;
    const Outcome shrunk =
        outcome_of(gqsgd_comm_shrink(
            comm, recv, kValues, GQSGD_FLOAT32, "", &next, members, &interrupted));
    if (round == 0) times.returned_us[rank] = monotonic_us();
    gqsgd_comm_destroy(comm);
    comm = next;
    if (shrunk.status != GQSGD_OK) return "! shrink: " + shrunk.text();
    gqsgd_comm_size(comm, &size);
    if (round == 0) {
      line = state_of(interrupted, &called);
      shared->handed[0] += interrupted == GQSGD_CALLS_FINISHED ? 1 : 0;
    }
    std::vector<int> kept;
    line += "members";
    for (int32_t k = 0; k < size; ++k) {
      kept.push_back(names[static_cast<size_t>(members[k])]);
      line += " " + std::to_string(kept.back());
    }
    line += "; ";
    names = kept;
    gqsgd_status ended = GQSGD_OK;
    problem = repeat(comm, &ended);
    if (ended == GQSGD_OK) break;
    if (ended == GQSGD_PEER_LOST || ended == GQSGD_REVOKED) problem.clear();
  }
  gqsgd_comm_destroy(comm);
  return problem.empty() ? line : "! " + problem;
}

struct Measured {
  std::vector<double> named_ms;
  std::vector<double> shrunk_ms;  ///< of each seed
  int handed = 0;  ///< ranks that have got the result of another
};

/** What is wrong with a run, or "". */
std::string run_seed(uint64_t seed, Kind kind, Measured* measured) {
  const Plan plan(seed);
  Shared shared;
  std::vector<Child> ranks;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    ranks.emplace_back([&plan, kind, rank, &shared] { return survive(plan, kind, rank, &shared); });
  }
  for (int step = 0; shared.formed[0] < plan.ranks && step < 30000; ++step) usleep(1000);
  usleep(plan.at_us);
  Times& times = shared.times[0];
  times.killed_us = monotonic_us();
  ranks[static_cast<size_t>(plan.victim)].signal(SIGKILL);
  if (plan.dies_while_shrinking) {
    for (int step = 0; shared.failed[0] == 0 && step < 300000; ++step) usleep(100);
    usleep(plan.later_us);
    ranks[static_cast<size_t>(plan.second)].signal(SIGKILL);
  }
  std::string first, problem;
  uint64_t named_us = 0, entered_us = 0, returned_us = 0;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const std::string line = ranks[static_cast<size_t>(rank)].line();
    if (line == "killed by signal 9" && rank == plan.victim) continue;
    if (rank == plan.second && plan.dies_while_shrinking) continue;  // perhaps too late to notice
    if (line.empty() || line[0] == '!' || line[0] == 'k') {
      problem += "rank " + std::to_string(rank) + ": " + line + "; ";
      continue;
    }
    // The last group is that of all; one before it may have been formed and lost a member.
    const std::string last =
        line.substr(0, line.find("members")) + line.substr(line.rfind("members"));
    if (first.empty()) first = last;
    if (last != first) problem += "rank " + std::to_string(rank) + ": " + line + "not " + first;
    named_us = std::max(named_us, times.named_us[rank].load());
    entered_us = std::max(entered_us, times.entered_us[rank].load());
    returned_us = std::max(returned_us, times.returned_us[rank].load());
  }
  measured->handed += shared.handed[0];
  const uint64_t killed_us = times.killed_us;
  if (named_us > killed_us && plan.aborts_after == UINT64_MAX) {
    measured->named_ms.push_back(double(named_us - killed_us) / 1000);
  }
  measured->shrunk_ms.push_back(double(returned_us - entered_us) / 1000);
  return problem;
}

double part_of(std::vector<double> times, size_t percent) {
  std::sort(times.begin(), times.end());
  return times.empty() ? 0 : times[(times.size() - 1) * percent / 100];
}

void kill_ranks(Kind kind, uint64_t runs) {
  uint64_t first = 0, end = runs;
  if (const char* text = getenv("GQ_KILLS")) {
    unsigned long long a = 0, b = 0;
    ASSERT_EQ(sscanf(text, "%llu:%llu", &a, &b), 2) << "GQ_KILLS is first:end";
    first = a;
    end = b;
  }
  Measured measured;
  for (uint64_t seed = first; seed < end; ++seed) {
    ASSERT_EQ(run_seed(seed, kind, &measured), "") << "seed " << seed;
  }
  using Line = std::pair<const char*, const std::vector<double>*>;
  for (const auto& [what, times] :
       {Line{"named", &measured.named_ms}, Line{"shrunk after the last", &measured.shrunk_ms}}) {
    printf("%s: median %.2f ms, 90 %% %.2f, 99 %% %.2f, all %.2f (%zu runs)\n", what,
           part_of(*times, 50), part_of(*times, 90), part_of(*times, 99), part_of(*times, 100),
           times->size());
  }
  const auto longest = std::max_element(measured.shrunk_ms.begin(), measured.shrunk_ms.end());
  printf("the longest to shrink: seed %" PRIu64 "\n",
         first + static_cast<uint64_t>(longest - measured.shrunk_ms.begin()));
  printf("%d ranks got the result of another\n", measured.handed);
}

TEST(ShrinkKills, Processes_AnyInstant_OneGroupBitsOfSimulation) {
  kill_ranks(Kind::processes, 24);
}

TEST(ShrinkKills, Network_AnyInstant_OneGroupBitsOfSimulation) {
  GQ_SKIP_WITHOUT_NETWORK();
  kill_ranks(Kind::network, 12);
}

}  // namespace
}  // namespace gq::test
