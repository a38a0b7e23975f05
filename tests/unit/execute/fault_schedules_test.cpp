// Thousands of allreduces over a network that delays, reorders, stops, cuts and kills, each from a
// seed: every rank that lives ends, with the bits of an allreduce without faults or with a failure
// that leaves its buffer as it was. A seed that fails is printed and can be repeated.
#include <gtest/gtest.h>
#include <inttypes.h>
#include <stdio.h>

#include <algorithm>
#include <initializer_list>
#include <string>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/call/progress_loop.h"
#include "tests/support/seeds.h"
#include "tests/support/succeeds.h"
#include "tests/unit/execute/simulated_network.h"

namespace gq {
namespace {

constexpr size_t kValues = 400;  // of which the last chunk has few
constexpr uint64_t kTimeoutUs = 1000000;
constexpr uint64_t kEndUs = 20 * kTimeoutUs;  // no rank that lives is inside a call then
constexpr int32_t kSchedules[] = {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_TREE,
                                  GQSGD_SCHEDULE_BUTTERFLY, GQSGD_SCHEDULE_DIRECT};
constexpr const char* kFormats[] = {"paper-gl8", "paper-ge4,block=64"};

struct Scenario {
  explicit Scenario(uint64_t seed)
      : ranks(static_cast<uint32_t>(2 + seed % 4)),
        schedule(kSchedules[seed / 4 % 4]),
        format(kFormats[seed / 16 % 2]) {}
  const uint32_t ranks;
  const int32_t schedule;
  const char* const format;
};

/** All ranks of one allreduce in place, advanced by one thread. */
class Simulation {
 public:
  Simulation(const Scenario& scenario, uint64_t seed, bool overtakes)
      : network(scenario.ranks, seed), ranks_(scenario.ranks) {
    network.overtakes = overtakes;
    for (uint32_t rank = 0; rank < scenario.ranks; ++rank) {
      Rank& own = ranks_[rank];
      own.endpoint.set_transport(
          std::make_unique<SimulatedTransport>(&network, rank, scenario.ranks));
      own.endpoint.stages = cpu_stages_named("scalar");
      own.endpoint.chunk_value_count = 64;
      EXPECT_TRUE(test::succeeds(parse_quantizer(scenario.format, &own.call.format)));
      own.given = test::gradients(static_cast<int>(scenario.ranks), kValues, 3)[rank];
      own.values = own.given;
      own.call.send = own.call.recv = own.values.data();
      own.call.value_count = own.values.size();
      own.call.schedule_id = scenario.schedule;
    }
  }

  /** Until no rank that lives has anything to do. */
  void run() {
    for (uint32_t rank = 0; rank < size(); ++rank) begin(rank);
    while (network.now_us < kEndUs) {
      bool any = false;
      deliver();
      const uint64_t first = network.draws.below(size());
      for (uint64_t k = 0; k < size(); ++k) {
        any = advance(static_cast<uint32_t>((first + k) % size())) || any;
      }
      if (!any && !pass_time()) return;
    }
  }

  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  bool has_ended(uint32_t rank) const { return ranks_[rank].ended; }
  const Status& status(uint32_t rank) const { return ranks_[rank].status; }
  const test::Values& values(uint32_t rank) const { return ranks_[rank].values; }
  bool is_untouched(uint32_t rank) const { return values(rank) == ranks_[rank].given; }
  /** Never to run again. */
  bool is_gone(uint32_t rank) const {
    const bool stays = network.ranks[rank].resumes_us == kNeverUs;
    return network.is_dead(rank) || (network.is_stopped(rank) && stays);
  }

  SimulatedNetwork network;
  size_t early_ends = 0;  ///< ranks that ended before all that they had sent had left

 private:
  struct Rank {
    Endpoint endpoint;
    Call call;
    Allreduce operation;
    test::Values given, values;
    bool ended = false;
    Status status;
    uint64_t progress = 0, progress_us = 0;
  };

  SimulatedTransport& transport(uint32_t rank) {
    return static_cast<SimulatedTransport&>(*ranks_[rank].endpoint.host);
  }

  void begin(uint32_t rank) {
    Rank& own = ranks_[rank];
    const Status given = network.ranks[rank].refuses
                             ? fail(GQSGD_INVALID_ARGUMENT, "rank %u refuses its call", rank)
                             : Status();
    const Status begun = own.operation.begin(own.endpoint, own.call, given);
    if (!begun.ok()) end(rank, begun);
  }

  /** Words arrive whether or not their receiver looks. */
  void deliver() {
    for (uint32_t to = 0; to < size(); ++to) {
      for (uint32_t from = 0; from < size(); ++from) transport(to).deliver(from);
    }
  }

  /** As the progress loop does; true if something has happened. */
  bool advance(uint32_t rank) {
    Rank& own = ranks_[rank];
    if (own.ended || network.is_dead(rank) || network.is_stopped(rank)) return false;
    bool done = false;
    Status status = own.operation.advance(&done);
    if (status.ok() && !done) status = own.endpoint.transport->check();
    if (!status.ok() || done) {
      end(rank, status);
    } else if (own.operation.progress() != own.progress) {
      own.progress = own.operation.progress();
      own.progress_us = network.now_us;
      return true;
    } else if (network.now_us - own.progress_us >= kTimeoutUs) {
      uint32_t culprit = 0;
      const Status late = own.operation.timed_out(kTimeoutUs / 1000, &culprit);
      own.endpoint.transport->abort_group(late.code(), culprit);
      end(rank, late);
    }
    return own.ended;
  }

  void end(uint32_t rank, const Status& status) {
    Rank& own = ranks_[rank];
    own.ended = true;
    own.status = status;
    early_ends += status.ok() && transport(rank).unflushed_peer() != rank ? 1 : 0;
    const bool shared = !own.operation.agreed() && status.code() < GQSGD_TIMEOUT;
    if (!status.ok() && !shared) own.endpoint.transport->abort_group(status.code(), rank);
  }

  /** To the next event or timeout; false if there is none. */
  bool pass_time() {
    uint64_t next_us = kNeverUs;
    while (!network.events.empty() && network.events.top() <= network.now_us) network.events.pop();
    if (!network.events.empty()) next_us = network.events.top();
    for (uint32_t rank = 0; rank < size(); ++rank) {
      const bool stays = network.is_dead(rank) || network.is_stopped(rank);
      if (ranks_[rank].ended || stays) continue;
      next_us = std::min(next_us, ranks_[rank].progress_us + kTimeoutUs);
    }
    if (next_us == kNeverUs) return false;
    network.now_us = std::max(network.now_us + 1, next_us);
    return true;
  }

  std::vector<Rank> ranks_;
};

enum Fault : uint64_t { kDeath, kStop, kPause, kCut, kPartition, kAllocation, kRefusal, kCount };

/** How many faults of each kind a seed has drawn. */
struct Faults {
  uint32_t of[kCount] = {};
  bool any(std::initializer_list<Fault> kinds) const {
    return std::any_of(kinds.begin(), kinds.end(), [this](Fault kind) { return of[kind] > 0; });
  }
};

void draw_links(SimulatedNetwork* network) {
  test::Draws& draws = network->draws;
  const uint32_t size = static_cast<uint32_t>(network->ranks.size());
  for (uint32_t from = 0; from < size; ++from) {
    for (uint32_t to = 0; to < size; ++to) {
      SimulatedLink& link = network->link(from, to);
      link.delay_us = 1 + draws.below(50);
      link.jitter_us = 1 + draws.below(200);
      link.byte_us = draws.one_in(4) ? draws.below(40) : 0;
    }
  }
}

void draw_fault(SimulatedNetwork* network, Faults* faults) {
  test::Draws& draws = network->draws;
  const uint32_t size = static_cast<uint32_t>(network->ranks.size());
  const uint64_t fault = draws.below(kCount);
  const uint32_t victim = static_cast<uint32_t>(draws.below(size));
  const uint32_t other = static_cast<uint32_t>((victim + 1 + draws.below(size - 1)) % size);
  const uint64_t at_us = draws.below(1500);
  SimulatedRank& rank = network->ranks[victim];
  faults->of[fault] += 1;
  if (fault == kDeath) {
    rank.dies_us = std::min(rank.dies_us, at_us);
    for (uint32_t peer = 0; peer < size; ++peer) {
      if (peer != victim) network->tell(peer, GQSGD_PEER_LOST, victim, at_us + draws.below(2000));
    }
  } else if (fault == kStop) {
    rank.stops_us = at_us;
    rank.resumes_us = kNeverUs;
  } else if (fault == kPause) {
    if (rank.stops_us != kNeverUs) return;  // it stops for good, or pauses once
    rank.stops_us = at_us;
    rank.resumes_us = at_us + draws.below(kTimeoutUs / 2);
    network->events.push(rank.resumes_us);
  } else if (fault == kCut) {
    network->link(victim, other).cut_us = network->link(other, victim).cut_us = at_us;
  } else if (fault == kPartition) {
    for (uint32_t peer = 0; peer < size; ++peer) {
      network->link(victim, peer).cut_us = network->link(peer, victim).cut_us = at_us;
    }
  } else if (fault == kAllocation) {
    rank.failing_allocation = 1;
  } else if (fault == kRefusal) {
    rank.refuses = true;
  }
}

/** Delays of all links, some of them slow, and up to four faults. */
Faults draw_faults(SimulatedNetwork* network) {
  draw_links(network);
  Faults faults;
  const uint64_t few = network->draws.below(8), count = few < 5 ? (few + 3) / 4 : few - 3;
  for (uint64_t k = 0; k < count; ++k) draw_fault(network, &faults);
  return faults;
}

bool is_allowed(const Faults& faults, gqsgd_status code) {
  switch (code) {
    case GQSGD_OK:
      return true;
    case GQSGD_PEER_LOST:
      return faults.any({kDeath});
    case GQSGD_TIMEOUT:
      return faults.any({kStop, kCut, kPartition});
    case GQSGD_NO_MEMORY:
      return faults.any({kAllocation});
    case GQSGD_INVALID_ARGUMENT:
    case GQSGD_REMOTE_ERROR:
      return faults.any({kRefusal});
    default:
      return false;
  }
}

/** A death is told with the rank that died: by evidence, or by a rank that has it. */
bool names_a_dead_rank(const Simulation& run, const std::string& sentence) {
  for (uint32_t rank = 0; rank < run.size(); ++rank) {
    const std::string name = "rank " + std::to_string(rank) + " is at fault";
    const bool named = sentence.find(name) != std::string::npos;
    if (named && run.network.is_dead(rank)) return true;
  }
  return false;
}

/** What is wrong with the end of a rank that lives, or "". */
std::string problem_of_rank(const Simulation& run, uint32_t rank, const Faults& faults,
                            const test::Values& expected) {
  if (!run.has_ended(rank)) return "has not ended";
  const Status& status = run.status(rank);
  if (status.ok() && faults.any({kRefusal})) return "has a result of a call that was refused";
  if (status.ok()) return run.values(rank) == expected ? "" : "has other bits";
  if (!run.is_untouched(rank)) return "has lost its input";
  const std::string sentence = status.sentence();
  if (!is_allowed(faults, status.code())) return "has no reason for: " + sentence;
  if (sentence.find("rank ") == std::string::npos) return "names no rank: " + sentence;
  const bool lost = status.code() == GQSGD_PEER_LOST;
  const bool right = !lost || names_a_dead_rank(run, sentence);
  return right ? "" : "names a rank that lives: " + sentence;
}

/** What is wrong with a run, or "". */
std::string problem_of(const Simulation& run, const Faults& faults, const test::Values& expected) {
  for (uint32_t rank = 0; rank < run.size(); ++rank) {
    if (run.is_gone(rank)) continue;
    const std::string problem = problem_of_rank(run, rank, faults, expected);
    if (!problem.empty()) return "rank " + std::to_string(rank) + " " + problem;
  }
  if (run.network.early_writes != 0) return "words were changed before they had left";
  if (run.early_ends != 0) return "a call ended before all that was sent had left";
  return run.network.wrong_sizes == 0 ? "" : "a message had another size";
}

/** Of a network without delays or faults. */
const test::Values& expected_of(const Scenario& scenario) {
  static std::map<std::string, test::Values> known;
  test::Values& found =
      known[std::to_string(scenario.ranks) + scenario.format + std::to_string(scenario.schedule)];
  if (found.empty()) {
    Simulation run(scenario, 0, false);
    run.run();
    EXPECT_TRUE(test::succeeds(run.status(0)));
    found = run.values(0);
  }
  return found;
}

/** What happened, when, and how it ended. */
struct Outcome {
  std::string problem;
  Faults faults;
  uint64_t end_us;
  std::string sentences;
};

Outcome run_seed(uint64_t seed, bool overtakes = false) {
  const Scenario scenario(seed);
  Simulation run(scenario, seed, overtakes);
  const Faults faults = draw_faults(&run.network);
  run.run();
  Outcome outcome{problem_of(run, faults, expected_of(scenario)), faults, run.network.now_us, ""};
  for (uint32_t rank = 0; rank < run.size(); ++rank) {
    outcome.sentences += run.status(rank).sentence();
  }
  return outcome;
}

TEST(FaultSchedules, AnySeed_SameBitsOrNamedFailure) {
  const test::Seeds seeds = test::seeds_of_environment(10000);
  uint64_t failed[kCount] = {}, drawn[kCount] = {}, several = 0, ended_well = 0;
  for (uint64_t seed = seeds.first; seed < seeds.end; ++seed) {
    const Outcome outcome = run_seed(seed);
    ASSERT_EQ(outcome.problem, "") << "seed " << seed;
    const bool well = outcome.sentences.empty();
    uint32_t all = 0;
    for (uint64_t fault = 0; fault < kCount; ++fault) {
      all += outcome.faults.of[fault];
      drawn[fault] += outcome.faults.of[fault];
      failed[fault] += outcome.faults.of[fault] > 0 && !well ? 1 : 0;
    }
    several += all > 1 ? 1 : 0;
    ended_well += well ? 1 : 0;
  }
  printf("%" PRIu64 " runs: %" PRIu64 " deaths, %" PRIu64 " stops, %" PRIu64 " pauses, %" PRIu64
         " cuts, %" PRIu64 " partitions, %" PRIu64 " failing allocations, %" PRIu64
         " refusals; several of these in %" PRIu64 " runs; in %" PRIu64 " no rank failed\n",
         seeds.count(), drawn[kDeath], drawn[kStop], drawn[kPause], drawn[kCut], drawn[kPartition],
         drawn[kAllocation], drawn[kRefusal], several, ended_well);
  for (uint64_t fault : {kDeath, kStop, kCut, kPartition, kAllocation, kRefusal}) {
    EXPECT_GT(failed[fault], drawn[fault] / 10) << "fault " << fault << " has struck seldom";
  }
  EXPECT_GT(several, seeds.count() / 4);
}

TEST(FaultSchedules, SameSeed_SameRun) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Outcome first = run_seed(seed), second = run_seed(seed);
    EXPECT_EQ(first.end_us, second.end_us) << "seed " << seed;
    EXPECT_EQ(first.sentences, second.sentences) << "seed " << seed;
  }
}

/** A transport that breaks its contract: the checks above find it. */
TEST(FaultSchedules, MessagesOfALinkOvertake_Found) {
  uint64_t found = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) found += !run_seed(seed, true).problem.empty();
  EXPECT_GT(found, 20u);
}

}  // namespace
}  // namespace gq
