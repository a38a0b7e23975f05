// Each end for communicators of both kinds.
#include "tests/gpu/nccl_ends.h"

#include <gqsgd_nccl.h>

#include <array>
#include <thread>

#include "tests/gpu/device_values.h"
#include "tests/support/operation.h"

namespace gq::test {
namespace {

constexpr char kFormat[] = "paper-ge8";
constexpr size_t kCount = 5000;
constexpr int kEndMs = 5000;  // that NCCL may take over an abort

/** A communicator of one rank, and its values on the device. */
struct Rank {
  gqsgd_comm comm = nullptr;
  const DeviceQueue queue;
  DeviceValues send{kCount}, recv{kCount};

  ~Rank() { gqsgd_comm_destroy(comm); }

  /** With workspace: none is freed while the other rank's kernels wait. */
  gqsgd_status join(const gqsgd_unique_id& id, int rank, const std::string& options) {
    const gqsgd_status made = gqsgd_comm_create_nccl(&id, rank, 2, options.c_str(), &comm);
    if (made != GQSGD_OK) return made;
    return gqsgd_comm_reserve(comm, Quantizer(kFormat).get(), kCount, GQSGD_FLOAT32);
  }
  gqsgd_status call() {
    const Operation operation{kFormat, GQSGD_SCHEDULE_DIRECT};
    return enqueue(comm, operation, send.data(), recv.data(), kCount, config_of(operation),
                   queue.get());
  }
};

std::string sentence(const char* what) { return std::string(what) + ": " + gqsgd_last_error(); }

std::string check_missing_rank(const std::string& options, int timeout_ms) {
  gqsgd_unique_id id;
  const std::string late = options + ",timeout_ms=" + std::to_string(timeout_ms);
  if (gqsgd_nccl_unique_id_create(late.c_str(), &id) != GQSGD_OK) return gqsgd_last_error();
  gqsgd_comm comm = nullptr;
  const uint64_t begun_us = monotonic_us();
  const gqsgd_status status = gqsgd_comm_create_nccl(&id, 0, 2, late.c_str(), &comm);
  const int took_ms = static_cast<int>((monotonic_us() - begun_us) / 1000);
  gqsgd_comm_destroy(comm);
  if (status != GQSGD_TIMEOUT) return sentence("a group without its second rank");
  if (took_ms <= timeout_ms + kEndMs) return "";
  return "a group without its second rank took " + std::to_string(took_ms) + " ms";
}

/** Rank 0 makes a second call; rank 1 stays until that has ended. */
std::string lose_a_call(Rank* rank, bool is_first) {
  rank->send.clear(rank->queue);
  rank->recv.clear(rank->queue);
  if (rank->call() != GQSGD_OK) return sentence("the first call");
  if (!rank->queue.wait(kEndMs)) return "the first call does not get through";
  if (!is_first) return "";
  if (rank->call() != GQSGD_OK) return sentence("the second call");
  if (rank->queue.wait(300)) return "the second call ended without its peer";
  gqsgd_comm_abort(rank->comm);
  if (!rank->queue.wait(kEndMs)) return "an abort does not end the stream";
  return gqsgd_comm_status(rank->comm) == GQSGD_ABORTED ? "" : sentence("after the abort");
}

std::string check_lost_call(const std::string& options, bool share_a_gpu) {
  gqsgd_unique_id id;
  if (gqsgd_nccl_unique_id_create(options.c_str(), &id) != GQSGD_OK) return gqsgd_last_error();
  std::array<std::string, 2> failures;
  std::array<std::unique_ptr<Rank>, 2> ranks;
  const auto on_both = [&](auto body) {
    std::array<std::thread, 2> threads;
    for (int k = 0; k < 2; ++k) {
      threads[static_cast<size_t>(k)] = std::thread([&, k] {
        const size_t rank = static_cast<size_t>(k);
        done(device_of_tests().set_current(share_a_gpu ? 0 : k));
        if (failures[rank].empty()) failures[rank] = body(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  on_both([&](size_t k) -> std::string {
    ranks[k] = std::make_unique<Rank>();
    const bool joined = ranks[k]->join(id, static_cast<int>(k), options) == GQSGD_OK;
    return joined ? "" : sentence("creation");
  });
  on_both([&](size_t k) { return lose_a_call(ranks[k].get(), k == 0); });
  on_both([&](size_t k) {
    ranks[k].reset();
    return std::string();
  });
  return failures[0].empty() ? failures[1] : failures[0];
}

}  // namespace

std::string check_nccl_ends(const NcclRanks& setting, bool has_two) {
  for (const char* blocking : {"on", "off"}) {
    std::string options = std::string("nccl_blocking=") + blocking;
    if (!setting.options.empty()) options += "," + setting.options;
    std::string failure = check_missing_rank(options, setting.missing_ms);
    const std::string timeout = ",timeout_ms=" + std::to_string(setting.timeout_ms);
    if (failure.empty() && has_two) {
      failure = check_lost_call(options + timeout, setting.gpu_count < 2);
    }
    if (!failure.empty()) return options + ": " + failure;
  }
  return "";
}

}  // namespace gq::test
