// Every group joins, makes its calls in one piece, in chunks and in a graph, and leaves.
#include "tests/gpu/nccl_ranks.h"

#include <gqsgd_nccl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/gpu/device_values.h"
#include "tests/gpu/host_agreement_graph.h"
#include "tests/gpu/nccl_ends.h"

namespace gq::test {
namespace {

/** What each rank is at, for a sentence about those that hang. */
using Phases = std::array<std::atomic<const char*>, kNcclRanksMax>;

/** Gives up at its limit unless it has ended before. */
class Watch {
 public:
  Watch(const NcclRanks& setting, std::function<std::string()> describe)
      : thread_([this, &setting, describe = std::move(describe)] {
          std::unique_lock<std::mutex> lock(mutex_);
          const auto limit = std::chrono::milliseconds(setting.limit_ms);
          if (!ended_cv_.wait_for(lock, limit, [this] { return ended_; })) {
            setting.give_up(describe());
          }
        }) {}
  ~Watch() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    ended_cv_.notify_all();
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_cv_;
  bool ended_ = false;
  std::thread thread_;
};

class Group {
 public:
  Group(const NcclRanks& setting, int ranks)
      : setting_(setting),
        ranks_(ranks),
        calls_(ranks, setting.formats, setting.value_count, true),
        in_graphs_{{{ranks, operation_in_graph(false), setting.value_count},
                    {ranks, operation_in_graph(true), setting.value_count}}} {
    for (auto& phase : phases_) phase = "has not begun";
  }

  std::string name() const {
    const std::string count = std::to_string(ranks_);
    if (ranks_ == 1) return count + " rank";
    if (!share_a_gpu()) return count + " ranks on a GPU each";
    return count + " ranks on one GPU" + (replay() ? "" : ", no graphs");
  }

  /** "" or what went wrong, a line for each rank that knows of it. */
  std::string check() {
    const Watch watch(setting_, [this] { return hung(); });
    std::string failures;
    for (const char* options : {"", "chunk_value_count=2048"}) {
      if (failures.empty()) failures = run(options);
    }
    return failures;
  }

 private:
  bool share_a_gpu() const { return ranks_ > setting_.gpu_count; }
  bool replay() const { return !share_a_gpu() || ranks_ <= setting_.sharing_replays_max; }

  static Operation operation_in_graph(bool at_device) {
    Operation operation;
    operation.quantizer = "blocks-8";
    operation.schedule = GQSGD_SCHEDULE_DIRECT;
    operation.at_device = at_device;
    operation.index = at_device ? 3 : 0;  // the counter's has none
    return operation;
  }

  std::string hung() const {
    std::string text = name() + ": no end after " + std::to_string(setting_.limit_ms) + " ms:";
    for (int rank = 0; rank < ranks_; ++rank) {
      text += (rank == 0 ? " rank " : "; rank ") + std::to_string(rank) + " " +
              phases_[static_cast<size_t>(rank)].load();
    }
    return text;
  }

  std::string run(const std::string& more) {
    std::string options = "timeout_ms=" + std::to_string(setting_.timeout_ms);
    for (const std::string& part : {setting_.options, more}) {
      if (!part.empty()) options += "," + part;
    }
    gqsgd_unique_id id;
    if (gqsgd_nccl_unique_id_create(options.c_str(), &id) != GQSGD_OK) return gqsgd_last_error();
    std::mutex mutex;
    std::string failures;
    std::array<HostBarrier, 2> have_graphs = {HostBarrier(ranks_), HostBarrier(ranks_)};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back([&, rank] {
        const std::string failure = run_rank(rank, id, options, &have_graphs);
        phases_[static_cast<size_t>(rank)] = "has ended";
        const std::lock_guard<std::mutex> lock(mutex);
        if (!failure.empty()) failures += "rank " + std::to_string(rank) + ": " + failure + "\n";
      });
    }
    for (std::thread& thread : threads) thread.join();
    return failures;
  }

  std::string run_rank(int rank, const gqsgd_unique_id& id, const std::string& options,
                       std::array<HostBarrier, 2>* have_graphs) {
    std::atomic<const char*>& phase = phases_[static_cast<size_t>(rank)];
    gqsgd_comm comm = nullptr;
    Kept kept;
    try {
      phase = "joins";
      done(device_of_tests().set_current(share_a_gpu() ? 0 : rank));
      if (gqsgd_comm_create_nccl(&id, rank, ranks_, options.c_str(), &comm) != GQSGD_OK) {
        return gqsgd_last_error();
      }
      phase = "makes its calls";
      std::string failure = reserve(comm);
      if (failure.empty()) {
        failure = calls_.make_and_compare(rank, comm, setting_.timeout_ms, &kept);
      }
      phase = "replays a graph";
      const size_t replayed = replay() ? in_graphs_.size() : 0;
      for (size_t k = 0; k < replayed && failure.empty(); ++k) {
        HostAgreementGraph graph(setting_.make_graph(), &(*have_graphs)[k]);
        failure = in_graphs_[k].make_and_compare(rank, comm, &graph, setting_.timeout_ms, &kept);
      }
      if (!failure.empty()) gqsgd_comm_abort(comm);  // The others would wait for it.
      phase = "leaves";
      gqsgd_comm_destroy(comm);
      return failure;
    } catch (const std::exception& error) {
      if (comm != nullptr) gqsgd_comm_abort(comm);
      gqsgd_comm_destroy(comm);
      return error.what();
    }
  }

  /** Workspace for all calls, so that none has to free what is too short (Kept). */
  std::string reserve(gqsgd_comm comm) const {
    const Quantizer longest("none");
    const gqsgd_status status =
        gqsgd_comm_reserve(comm, longest.get(), 8 * setting_.value_count, GQSGD_FLOAT32);
    return status == GQSGD_OK ? "" : gqsgd_last_error();
  }

  const NcclRanks& setting_;
  const int ranks_;
  const DeviceCalls calls_;
  const std::array<ReplayedCall, 2> in_graphs_;  // with the counter, and at the device's steps
  Phases phases_;
};

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

/** Says a line about groups, and what failed; false if something did. */
bool say_outcome(const NcclRanks& setting, const std::string& name, const std::string& failures) {
  setting.say((failures.empty() ? "ok      " : "FAILED  ") + name);
  if (!failures.empty()) setting.say(failures);
  return failures.empty();
}

bool check_ends(const NcclRanks& setting) {
  const bool can_share = setting.version >= kSharedGpuVersion;
  const bool has_two = setting.ranks_max > 1 && (setting.gpu_count > 1 || can_share);
  const std::string name = "groups that end early";
  const Watch watch(setting, [&] { return name + ": they do not end"; });
  return say_outcome(setting, name, check_nccl_ends(setting, has_two));
}

}  // namespace

bool check_nccl_ranks(const NcclRanks& setting) {
  for (int ranks = 1; ranks <= setting.ranks_max; ++ranks) {
    const bool shared = ranks > setting.gpu_count;
    if (shared && setting.version < kSharedGpuVersion) {
      setting.say("not run " + std::to_string(ranks) + " ranks and more: NCCL " +
                  version_text(setting.version) +
                  " has one for each GPU, from 2.30 on it can "
                  "have several; GPUs here: " +
                  std::to_string(setting.gpu_count));
      break;
    }
    Group group(setting, ranks);
    if (!say_outcome(setting, group.name(), group.check())) return false;
  }
  return check_ends(setting);
}

}  // namespace gq::test
