// What each rank does, and which statuses are right for it.
#include "tools/soak_lib/soak_round.h"

#include <gqsgd_elastic.h>
#include <gqsgd_network.h>
#include <signal.h>
#include <unistd.h>

#include <initializer_list>
#include <thread>
#include <vector>

#include "tools/soak_lib/soak_calls.h"

namespace gq::tools {
namespace {

constexpr int kStallMs = 300;
constexpr int kCallsAfterwards = 2;

bool is_one_of(gqsgd_status status, std::initializer_list<gqsgd_status> statuses) {
  for (const gqsgd_status each : statuses) {
    if (status == each) return true;
  }
  return false;
}

/** A status after which the group makes further calls. */
bool is_usable_after(gqsgd_status status) {
  return is_one_of(status, {GQSGD_OK, GQSGD_INVALID_ARGUMENT, GQSGD_UNSUPPORTED, GQSGD_MISMATCH,
                            GQSGD_REMOTE_ERROR, GQSGD_NO_MEMORY});
}

bool breaks(const std::string& fault) {
  return fault == "abort" || fault == "leave" || fault == "stall" || fault == "kill";
}

/** Whether call `number` of a rank may return this. */
bool is_right(const Round& round, int rank, int number, gqsgd_status status) {
  if (round.fault == "mismatch" && number == round.fault_call) return status == GQSGD_MISMATCH;
  if (round.fault == "refuse" && number == round.fault_call) {
    return rank == round.victim ? is_one_of(status, {GQSGD_OK, GQSGD_NO_MEMORY})
                                : status == GQSGD_REMOTE_ERROR;
  }
  if (is_one_of(status, {GQSGD_OK, GQSGD_INVALID_ARGUMENT, GQSGD_UNSUPPORTED})) return true;
  if (!breaks(round.fault)) return false;
  // Ranks learn of a rank that is gone from it or from each other.
  return is_one_of(status, {GQSGD_PEER_LOST, GQSGD_ABORTED, GQSGD_REVOKED, GQSGD_REMOTE_ERROR}) ||
         (round.fault == "stall" && status == GQSGD_TIMEOUT);
}

std::string sentence(const Round& round, int rank, const char* what, gqsgd_status status) {
  return "round " + std::to_string(round.number) + " (" + round.transport + ", " + round.fault +
         " of rank " + std::to_string(round.victim) + "), rank " + std::to_string(rank) + ", " +
         what + ": " + gqsgd_status_name(status) + ": " +
         (status == GQSGD_OK ? "" : gqsgd_last_error());
}

/** One rank of one round, from its communicator on. */
class Rank {
 public:
  Rank(const Round& round, int rank, const Leak& leak)
      : round_(round), rank_(rank), leak_(leak),
        calls_(round.seed, rank, round.size, round.value_count_max) {}

  RoundEnd run(gqsgd_comm comm, const gqsgd_unique_id& next_id) {
    make_calls(comm);
    gqsgd_comm next = nullptr;
    if (round_.continues) next = continued(comm, next_id);
    destroy(comm);
    for (int k = 0; next != nullptr && k < kCallsAfterwards; ++k) make_call(next, -1 - k);
    if (next != nullptr) destroy(next);
    return {wrong_, calls_.calls().made, calls_.calls().refused, calls_.calls().digest};
  }

 private:
  bool is_victim() const { return rank_ == round_.victim; }

  void make_calls(gqsgd_comm comm) {
    for (int number = 0; number < round_.call_count; ++number) {
      if (number == round_.fault_call && is_victim()) {
        if (round_.fault == "leave") return;
        if (round_.fault == "stall") {
          usleep(kStallMs * 1500);
          return;
        }
      }
      if (number == round_.fault_call && round_.fault == "stall")
        gqsgd_comm_set_timeout(comm, kStallMs);
      if (!make_call(comm, number)) return;
    }
  }

  /** False if the group has broken, rightly or not. */
  bool make_call(gqsgd_comm comm, int number) {
    const gqsgd_status status = number == round_.fault_call ? faulty_call(comm, number)
                                                            : calls_.make(comm, number);
    leak_.after_call();
    if (!is_right(round_, rank_, number, status) && wrong_.empty())
      wrong_ = sentence(round_, rank_, ("call " + std::to_string(number)).c_str(), status);
    return is_usable_after(status);
  }

  gqsgd_status faulty_call(gqsgd_comm comm, int number) {
    if (round_.fault == "mismatch") return calls_.make_plain(comm, number, is_victim() ? 1 : 0);
    if (round_.fault == "refuse") {
      return is_victim() ? gqsgd_comm_refuse(comm, GQSGD_NO_MEMORY, nullptr, nullptr)
                         : calls_.make_plain(comm, number, 0);
    }
    if (!is_victim() || (round_.fault != "abort" && round_.fault != "kill"))
      return calls_.make(comm, number);
    std::thread ending([this, comm] {
      usleep(static_cast<useconds_t>(round_.delay_us));
      if (round_.fault == "kill") raise(SIGKILL);
      gqsgd_comm_abort(comm);
    });
    const gqsgd_status status = calls_.make(comm, number);
    ending.join();
    return status;
  }

  /** NULL where the group does not go on. */
  gqsgd_comm continued(gqsgd_comm comm, const gqsgd_unique_id& next_id) {
    std::vector<int32_t> members;
    for (int32_t rank = 0; rank < round_.size; ++rank) members.push_back(rank);
    gqsgd_comm next = nullptr;
    const gqsgd_status status = gqsgd_comm_reconfigure(
        comm, &next_id, members.data(), rank_, round_.size, "timeout_ms=20000", &next);
    if (status != GQSGD_OK && wrong_.empty())
      wrong_ = sentence(round_, rank_, "gqsgd_comm_reconfigure", status);
    return next;
  }

  void destroy(gqsgd_comm comm) {
    const gqsgd_status status = gqsgd_comm_destroy(comm);
    if (status != GQSGD_OK && wrong_.empty())
      wrong_ = sentence(round_, rank_, "gqsgd_comm_destroy", status);
  }

  const Round& round_;
  const int rank_;
  const Leak& leak_;
  RankCalls calls_;
  std::string wrong_;
};

RoundEnd run_threads(const Round& round, const Leak& leak) {
  std::vector<gqsgd_comm> comms(static_cast<size_t>(round.size));
  gqsgd_unique_id next_id{};
  gqsgd_status status =
      gqsgd_comm_create_local(round.size, round.options.c_str(), comms.data());
  if (status == GQSGD_OK) status = gqsgd_local_id_create(&next_id);
  if (status != GQSGD_OK) return {sentence(round, 0, "creation", status)};
  std::vector<RoundEnd> ends(comms.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < comms.size(); ++rank) {
    threads.emplace_back([&, rank] {
      ends[rank] = Rank(round, static_cast<int>(rank), leak).run(comms[rank], next_id);
    });
  }
  for (std::thread& thread : threads) thread.join();
  RoundEnd all;
  for (const RoundEnd& end : ends) {
    all.calls += end.calls;
    all.refused += end.refused;
    if (all.wrong.empty()) all.wrong = end.wrong;
  }
  all.digest = ends[0].digest;
  return all;
}

RoundEnd run_process(const Round& round, const Leak& leak) {
  gqsgd_comm comm = nullptr;
  const gqsgd_status status =
      round.transport == "network"
          ? gqsgd_comm_create_network(&round.id, round.rank, round.size, round.options.c_str(),
                                      &comm)
          : gqsgd_comm_create_process(&round.id, round.rank, round.size, round.options.c_str(),
                                      &comm);
  if (status == GQSGD_OK) return Rank(round, round.rank, leak).run(comm, round.next_id);
  // A process may be killed while the group forms.
  if (round.fault == "kill" && is_one_of(status, {GQSGD_PEER_LOST, GQSGD_TIMEOUT})) return {};
  return {sentence(round, round.rank, "creation", status)};
}

}  // namespace

RoundEnd run_round(const Round& round, const Leak& leak) {
  const RoundEnd end =
      round.transport == "threads" ? run_threads(round, leak) : run_process(round, leak);
  leak.after_round();
  return end;
}

gqsgd_status make_id(const std::string& transport, gqsgd_unique_id* id) {
  return transport == "network" ? gqsgd_network_id_create("address=127.0.0.1", id)
                                : gqsgd_unique_id_create(id);
}

}  // namespace gq::tools
