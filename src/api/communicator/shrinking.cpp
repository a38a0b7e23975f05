// The loop between the agreement and the transport, and the sentences of those that are left out.
#include "src/api/communicator/shrinking.h"

#include <string.h>

#include <algorithm>
#include <new>

#include "src/api/communicator/successor.h"
#include "src/call/allreduce.h"
#include "src/call/hand_over.h"
#include "src/support/clock.h"
#include "src/support/log.h"
#include "src/support/rank_list.h"

namespace gq {
namespace {

constexpr uint32_t kLookUs = 5000;
// A rank that shares its processor with many others may not run for so long.
constexpr uint64_t kSilenceMinUs = 50000;
constexpr uint64_t kSilenceMaxUs = 1000000;

MembershipOptions membership_options(const Endpoint& endpoint, const CommOptions& options) {
  MembershipOptions membership;
  membership.rank = endpoint.rank();
  membership.size = endpoint.size();
  if (options.timeout_ms >= 0) {
    membership.patience_us = static_cast<uint64_t>(options.timeout_ms) * 1000;
    membership.silence_us = std::clamp(membership.patience_us / 4, kSilenceMinUs, kSilenceMaxUs);
  }
  return membership;
}

/** Half of what others wait for this rank before they go on without it: until it has entered, or
 *  until its register changes again. */
UnheardLimits unheard_limits(const MembershipOptions& agreement) {
  return {agreement.patience_us / 2, agreement.silence_us / 2};
}

CallReport report_of(const Communicator& old, const void* recv) {
  const Endpoint& endpoint = old.endpoint;
  CallReport report;
  report.ended = endpoint.ended_calls;
  report.step = counter_of(old);
  report.costs_digest = endpoint.choice.digest();
  report.has_result = endpoint.newest_ended.has_result ? 1 : 0;
  report.is_in_place = endpoint.newest_ended.in_place ? 1 : 0;
  report.is_kept = endpoint.newest_ended.is_kept ? 1 : 0;
  report.takes_result = recv != nullptr && endpoint.newest_result_bytes != 0 ? 1 : 0;
  report.uses_streams = old.on_streams ? 1 : 0;
  return report;
}

/** What another rank may have caused, also as UCX or a name that is over by now shows it: the next
 *  attempt may succeed without that rank. */
bool is_of_the_group(gqsgd_status code) {
  return (code >= GQSGD_MISMATCH && code < GQSGD_NONFINITE) || code == GQSGD_BACKEND ||
         code == GQSGD_INVALID_ARGUMENT;
}

/** Says that a rank was lost or late, and not why. */
bool is_loss(gqsgd_status code) { return code == GQSGD_PEER_LOST || code == GQSGD_TIMEOUT; }

/** Without rank `self`, which may be a member that has no end. */
RankList others_of(const RankSet& set, uint32_t self, uint32_t size) {
  RankList list;
  for (uint32_t rank = 0; rank < size; ++rank) {
    if (set.has(rank) && rank != self) list.add(rank);
  }
  return list;
}

RegisterWords words_of(const Register& own) {
  RegisterWords words;
  memcpy(words.words, static_cast<const void*>(&own), sizeof own);
  return words;
}

Register register_of(const RegisterWords& words) {
  Register found;
  memcpy(static_cast<void*>(&found), words.words, sizeof found);
  return found;
}

GroupName name_of(const gqsgd_unique_id& id) {
  GroupName name;
  memcpy(name.bytes, id.bytes, sizeof name.bytes);
  return name;
}

gqsgd_unique_id id_of(const GroupName& name) {
  gqsgd_unique_id id{};
  memcpy(id.bytes, name.bytes, sizeof name.bytes);
  return id;
}

}  // namespace

Shrinking::Shrinking(Communicator* old, const CommOptions& options, void* recv)
    : old_(*old),
      registers_(*old->endpoint.host->registers()),
      options_(options),
      rank_(old->endpoint.rank()),
      size_(old->endpoint.size()),
      agreement_(membership_options(old->endpoint, options)),
      membership_(agreement_, report_of(*old, recv), monotonic_us()),
      recv_(recv) {}

Shrinking::~Shrinking() {
  drop_end();
  for (const gqsgd_unique_id& offer : offers_) registers_.drop_name(offer);
}

void Shrinking::decline(Communicator* old) {
  Register own;
  own.entered = own.gave_up = 1;
  own.beat = 1;
  old->endpoint.host->registers()->publish(words_of(own), true);
  old->was_followed = true;
}

Status Shrinking::run() {
  try {
    agree();
  } catch (const std::bad_alloc&) {
    give_up_without_memory();
  }
  registers_.publish(words_of(membership_.own()), true);
  old_.was_followed = true;
  return membership_.outcome() == Membership::Outcome::decided ? Status() : left_out();
}

/** The others go on without this rank. It never begins anew, since what it has promised holds. */
void Shrinking::give_up_without_memory() {
  if (membership_.outcome() != Membership::Outcome::undecided) return;
  own_failure_ = fail(GQSGD_NO_MEMORY, "no memory for the agreement of rank %u", rank_);
  membership_.give_up();
}

void Shrinking::agree() {
  for (;;) {
    registers_.look(0);
    look();
    if (membership_.outcome() != Membership::Outcome::undecided) return;
    if (membership_.to_form() != 0) {
      form();
    } else {
      registers_.look(kLookUs);
    }
  }
}

/** Deaths are looked for first: what a rank had published before it is read after. */
void Shrinking::look() {
  const UnheardLimits unheard = unheard_limits(agreement_);
  for (uint32_t peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const bool is_gone = registers_.is_gone(peer, unheard);
    RegisterWords words;
    if (registers_.read(peer, &words)) {
      membership_.see(peer, register_of(words), monotonic_us());
    }
    if (is_gone) membership_.mark_dead(peer);
  }
  for (uint64_t version = 0; version != membership_.version();) {
    version = membership_.version();
    renew_offer();
    membership_.advance(monotonic_us());
  }
  publish();
}

/** A rank that cannot make one does not go on, but the others do. */
void Shrinking::renew_offer() {
  if (!membership_.needs_offer() || !own_failure_.ok()) return;
  offers_.emplace_back();
  own_failure_ = registers_.make_name(&offers_.back());
  own_failure_.ok() ? membership_.set_offer(name_of(offers_.back())) : membership_.give_up();
}

void Shrinking::publish() {
  if (membership_.version() == published_) return;
  published_ = membership_.version();
  registers_.publish(words_of(membership_.own()), false);
}

/** While it waits for the other members it goes on looking at registers. */
void Shrinking::form() {
  drop_end();
  forming_ = membership_.to_form();
  const Proposal proposal = membership_.forming();
  const GroupName name = membership_.forming_name();
  const Status formed = form_end(proposal, name);
  if (formed.ok()) {
    formed_ = forming_;
  } else {
    drop_end();
    log_line(GQSGD_LOG_INFO, old_.endpoint.subject, "a group of survivors has not formed: %s",
             formed.sentence());
  }
  if (!formed.ok() && !is_of_the_group(formed.code())) {
    own_failure_ = formed;
    membership_.give_up();
  }
  // Attempts follow each other until time is up. One that was cut short says less than one before
  // it that said what ranks differ in.
  const bool says_more = !not_formed_.ok() && !is_loss(not_formed_.code());
  if (!formed.ok() && (!is_loss(formed.code()) || !says_more)) not_formed_ = formed;
  membership_.end_forming(forming_, formed.ok());
}

Status Shrinking::form_end(const Proposal& proposal, const GroupName& name) {
  const gqsgd_unique_id id = id_of(name);
  uint32_t rank = 0;
  for (uint32_t old = 0; old < rank_; ++old) rank += proposal.members.has(old) ? 1 : 0;
  const Interrupt interrupt{
      [](void* shrinking) { return static_cast<Shrinking*>(shrinking)->is_superseded(); }, this};
  const char* transport_name = nullptr;
  std::unique_ptr<HostTransport> transport;
  GQ_TRY(join_group({&id, rank, proposal.members.count()}, options_, interrupt, Status(),
                    &transport_name, &transport));
  GQ_TRY(make_end(proposal, std::move(transport), transport_name));
  return proposal.fate == CallFate::hand_over ? exchange_result(proposal) : Status();
}

Status Shrinking::make_end(const Proposal& proposal, std::unique_ptr<HostTransport> transport,
                           const char* name) {
  CommOptions options = options_;
  options.stream_id = old_.endpoint.stream_id;
  options.choice = old_.endpoint.choice.options();
  // Some had measured, and others had not: all do so again.
  if (proposal.costs_differ != 0) {
    options.choice.costs.reset();
    options.choice.measures = true;
  }
  return add_survivor(std::move(transport), name, options, proposal.step, &end_);
}

/** Before it is decided who goes on, so that all that do so have the result. */
Status Shrinking::exchange_result(const Proposal& proposal) {
  ExclusiveAccess access;
  GQ_TRY(access.enter(end_));
  Endpoint& old = old_.endpoint;
  const bool is_source = proposal.source == rank_;
  result_.assign(
      is_behind(proposal) ? old.newest_result_bytes : old.newest_ended.result_bytes, 0);
  if (is_source) GQ_TRY(write_kept_result(old, result_.data()));
  const KeepGoing keep_going{
      [](void* shrinking) { return !static_cast<Shrinking*>(shrinking)->is_superseded(); }, this};
  return hand_over(access->endpoint, is_source, &result_, keep_going);
}

void Shrinking::drop_end() {
  if (end_ != nullptr) gqsgd_comm_destroy(end_);
  end_ = nullptr;
}

bool Shrinking::is_superseded() {
  registers_.look(0);
  look();
  return membership_.to_form() != forming_;
}

Status Shrinking::left_out() const {
  if (!own_failure_.ok()) return own_failure_;
  if (membership_.own().decided != 0) {
    return fail(GQSGD_REVOKED,
                "rank %u of %u: ranks %s go on without this rank, which did not answer them in "
                "time; hint: it may join them as a newcomer (gqsgd_comm_reconfigure)",
                rank_, size_, others_of(membership_.decision().members, rank_, size_).text());
  }
  if (membership_.missing().count() == 0 && !not_formed_.ok()) {
    return fail(GQSGD_REVOKED, "rank %u of %u: no group of the survivors formed: %s", rank_, size_,
                not_formed_.sentence());
  }
  return fail(GQSGD_REVOKED,
              "rank %u of %u: rank%s %s did not answer within %lld ms (timeout_ms), and may go on "
              "without this rank: they are not known to be dead, and those that answer are no "
              "strict majority of %u",
              rank_, size_, membership_.missing().count() == 1 ? "" : "s",
              others_of(membership_.missing(), rank_, size_).text(),
              static_cast<long long>(options_.timeout_ms), size_);
}

Status Shrinking::take(gqsgd_comm* comm) {
  const Proposal& agreed = membership_.decision();
  if (end_ == nullptr || formed_ != agreed.attempt) {
    return fail(GQSGD_INTERNAL, "rank %u has no end of the group that the survivors agreed on",
                rank_);
  }
  if (agreed.fate == CallFate::hand_over && is_behind(agreed)) {
    memcpy(recv_, result_.data(), result_.size());
  }
  *comm = end_;
  end_ = nullptr;
  return Status();
}

}  // namespace gq
