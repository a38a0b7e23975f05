// The groups that are forming are one of the documented registries: an id is a value that names one
// of this process.
#include "src/transport/shared_memory/local_join.h"

#include <string.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <vector>

#include "src/support/clock.h"
#include "src/support/immortal.h"
#include "src/support/posix/fork.h"
#include "src/support/rank_list.h"
#include "src/transport/bootstrap/unique_id.h"
#include "src/transport/refusal.h"
#include "src/transport/shared_memory/local.h"

namespace gq {
namespace {

constexpr uint32_t kMagic = 0x6c697147;  // "Gqil"
constexpr int kWaitMs = 1000;

struct FormingGroup {
  gqsgd_unique_id id;
  uint32_t joined = 0;
  bool has_ended = false;  // and the outcome is that of all
  Status outcome;
  std::vector<bool> is_there;
  std::vector<std::unique_ptr<HostTransport>> ends;
  std::condition_variable ended;

  uint32_t size() const { return static_cast<uint32_t>(ends.size()); }
};

using Groups = std::vector<std::shared_ptr<FormingGroup>>;

struct FormingGroups {
  FormingGroups() { hold_across_fork(&mutex); }

  /** With the lock. In a child of fork() there are none: those that the parent's threads form stay
   *  in memory, since a condition variable on which others wait may not be destroyed. May throw
   *  std::bad_alloc. */
  Groups& of_this_process() {
    if (groups != nullptr && generation == fork_generation()) return *groups;
    auto fresh = std::make_unique<Groups>();
    (void)groups.release();
    groups = std::move(fresh);
    generation = fork_generation();
    return *groups;
  }

  std::mutex mutex;
  std::unique_ptr<Groups> groups;
  uint64_t generation = 0;
};

FormingGroups& forming() { return immortal<FormingGroups>(); }

/** With the lock, as all that follows. May throw std::bad_alloc. */
std::shared_ptr<FormingGroup> find_or_add(const gqsgd_unique_id& id, uint32_t size) {
  Groups& groups = forming().of_this_process();
  for (const auto& group : groups) {
    if (memcmp(&group->id, &id, sizeof id) == 0) return group;
  }
  auto group = std::make_shared<FormingGroup>();
  group->id = id;
  group->is_there.resize(size);
  group->ends.resize(size);
  groups.push_back(group);
  return group;
}

void set_outcome(Status outcome, FormingGroup* group) {
  if (group->has_ended) return;
  group->has_ended = true;
  group->outcome = std::move(outcome);
  group->ended.notify_all();
}

void forget(const FormingGroup* group) {
  std::erase_if(*forming().groups, [&](const auto& other) { return other.get() == group; });
}

void end_with(Status outcome, FormingGroup* group) {
  set_outcome(std::move(outcome), group);
  forget(group);
}

Status missing(const FormingGroup& group, uint32_t rank, int64_t timeout_ms) {
  RankList ranks;
  for (uint32_t other = 0; other < group.size(); ++other) {
    if (!group.is_there[other]) ranks.add(other);
  }
  return fail(GQSGD_TIMEOUT,
              "missing ranks: %s; rank %u waited %lld ms for them to join the group of threads "
              "(timeout_ms sets the limit)",
              ranks.text(), rank, static_cast<long long>(timeout_ms));
}

void await_end(std::unique_lock<std::mutex>* lock, const Deadline& deadline, FormingGroup* group) {
  while (!group->has_ended && !deadline.is_over()) {
    group->ended.wait_for(*lock, std::chrono::milliseconds(deadline.poll_ms(kWaitMs)));
  }
}

/** This rank cannot join: those that wait, and those that still come, are told. */
void refuse(gqsgd_status own, uint32_t rank, std::unique_lock<std::mutex>* lock,
            FormingGroup* group) {
  set_outcome(could_not_join(rank, own), group);
  group->joined += 1;
  const Deadline deadline(deadline_after_ms(kRefusalMs));
  while (group->joined < group->size() && !deadline.is_over()) {
    group->ended.wait_for(*lock, std::chrono::milliseconds(deadline.poll_ms(kWaitMs)));
  }
  forget(group);
}

Status enter(uint32_t rank, uint32_t size, FormingGroup* group) {
  if (group->has_ended) {
    group->joined += 1;
    group->ended.notify_all();
    return group->outcome;
  }
  if (size != group->size()) {
    end_with(fail(GQSGD_MISMATCH, "size: rank %u joins a group of %u ranks, and another of %u",
                  rank, size, group->size()),
             group);
    return group->outcome;
  }
  if (group->is_there[rank]) {
    return fail(GQSGD_DUPLICATE_RANK, "rank %u of the group of threads has joined already", rank);
  }
  group->is_there[rank] = true;
  group->joined += 1;
  if (group->joined < size) return Status();
  const Status made = create_local(size, group->ends.data());
  end_with(made.ok() ? made : could_not_join(rank, made.code()), group);
  return made;
}

/** May throw std::bad_alloc. */
Status join(const gqsgd_unique_id& id, uint32_t rank, uint32_t size, int64_t timeout_ms,
            Interrupt interrupt, const Status& own, std::unique_ptr<HostTransport>* out) {
  const Deadline deadline(deadline_after_ms(timeout_ms), interrupt);
  std::unique_lock<std::mutex> lock(forming().mutex);
  const std::shared_ptr<FormingGroup> group = find_or_add(id, size);
  if (!own.ok()) refuse(own.code(), rank, &lock, group.get());
  GQ_TRY(own);
  GQ_TRY(enter(rank, size, group.get()));
  try {
    await_end(&lock, deadline, group.get());
  } catch (const std::bad_alloc&) {  // of the function that interrupts
    end_with(could_not_join(rank, GQSGD_NO_MEMORY), group.get());
    throw;
  }
  if (!group->has_ended) end_with(missing(*group, rank, timeout_ms), group.get());
  if (group->outcome.ok()) *out = std::move(group->ends[rank]);
  return group->outcome;
}

}  // namespace

Status make_local_id(gqsgd_unique_id* out) {
  GQ_TRY(make_unique_id(out));
  memcpy(out->bytes, &kMagic, sizeof kMagic);
  return Status();
}

bool is_local_id(const gqsgd_unique_id& unique_id) {
  return memcmp(unique_id.bytes, &kMagic, sizeof kMagic) == 0;
}

Status join_local(const gqsgd_unique_id& unique_id, uint32_t rank, uint32_t size,
                  int64_t timeout_ms, std::unique_ptr<HostTransport>* out, Interrupt interrupt,
                  const Status& own) {
  if (size == 0 || size > kLocalRanksMax || rank >= size) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "rank %u of a local group of %u: it has 1 to %u ranks, numbered from 0", rank, size,
                kLocalRanksMax);
  }
  GQ_TRY(watch_forks());
  try {
    return join(unique_id, rank, size, timeout_ms, interrupt, own, out);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for rank %u of %u", rank, size);
  }
}

}  // namespace gq
