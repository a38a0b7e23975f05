// Encode and count; exchange the counts in a second control message; then send, receive and add the
// entries (docs/FORMAT.md, section 14).
#include "src/call/sparse.h"

#include <inttypes.h>

#include <algorithm>

#include "kernels/checksum/digest.h"
#include "kernels/codec/sparse.h"
#include "src/call/agreement.h"
#include "src/call/control_fields.h"
#include "src/execute/split_stages.h"
#include "src/transport/culprit.h"

namespace gq {

void SparseEntries::begin(Endpoint& endpoint, const Call& call, const Plan& plan,
                          unsigned char* arena, float norm) {
  *this = SparseEntries();
  endpoint_ = &endpoint;
  call_ = &call;
  plan_ = &plan;
  arena_ = arena;
  norm_ = norm;
}

Status SparseEntries::advance(Outcome* outcome) {
  *outcome = Outcome::waiting;
  bool all = false;
  if (phase_ == Phase::encode) {
    GQ_TRY(encode());
    GQ_TRY(send_count());
    phase_ = Phase::count;
  }
  if (phase_ == Phase::count) {
    GQ_TRY(read_counts(&all));
    if (!all) return Status();
    if (lacks_count_) return end_without_count();
    if (longest_ > plan_->layout.sparse_entries_max()) {
      *outcome = Outcome::too_long;
      return Status();
    }
    GQ_TRY(expect_entries());
    GQ_TRY(send_entries());
    phase_ = Phase::receive;
  }
  if (phase_ == Phase::receive) {
    GQ_TRY(receive_entries(&all));
    if (!all) return Status();
    phase_ = Phase::flush;
  }
  bool flushed = false;
  GQ_TRY(endpoint_->host->flushed(&flushed));
  if (!flushed) return Status();
  if (endpoint_->messages.found()) return endpoint_->messages.failure();
  GQ_TRY(add());
  *outcome = Outcome::added;
  return Status();
}

Range SparseEntries::chunk_at(uint64_t first_value) const {
  const uint64_t left = call_->value_count - first_value;
  return {first_value, static_cast<size_t>(std::min(left, plan_->shape.chunk_value_count))};
}

StageArguments SparseEntries::arguments() const {
  return StageArguments(*endpoint_, *call_, *plan_, arena_, &norm_);
}

Status SparseEntries::encode() {
  for (uint64_t first = 0; first < call_->value_count;) {
    const Range chunk = chunk_at(first);
    GQ_TRY(encode(chunk));
    first += chunk.value_count;
  }
  steps_made_ += 1;
  return Status();
}

/** Codes are counted while they are in a cache. */
Status SparseEntries::encode(Range chunk) {
  GQ_TRY(run_stage(*endpoint_, arguments().quantize(chunk)));
  CountEntriesArgs count = arguments().count_entries(chunk);
  count.skipped = &skipped_;
  count.entry_count = &entry_count_;
  return Status(endpoint_->stages->count_entries(count));
}

Status SparseEntries::send_count() {
  endpoint_->sequence += 1;
  control_ = Agreement::control_of(
      *endpoint_, *call_, plan_->schedule->id,
      NormWords{static_cast<uint32_t>(entry_count_), static_cast<uint32_t>(entry_count_ >> 32)});
  return endpoint_->host->send_control(endpoint_->sequence, control_);
}

Status SparseEntries::read_counts(bool* all) {
  *all = false;
  for (; counts_read_ < endpoint_->size(); ++counts_read_, ++steps_made_) {
    ControlMessage control;
    bool there = false;
    GQ_TRY(endpoint_->host->receive_control(counts_read_, endpoint_->sequence, &control, &there));
    if (!there) return Status();
    if (endpoint_->messages.on() && !is_intact(control)) {
      GQ_TRY(endpoint_->messages.take_damaged_control(counts_read_, endpoint_->sequence));
      lacks_count_ = true;
      continue;
    }
    GQ_TRY(check_control(counts_read_, control));
    RankEntries sparse;
    sparse.entry_count = control.words[kControlNormLow] |
                         static_cast<uint64_t>(control.words[kControlNormHigh]) << 32;
    longest_ = std::max(longest_, sparse.entry_count);
    endpoint_->rank_entries[counts_read_] = sparse;
  }
  *all = true;
  return Status();
}

/** How many entries a rank sends is not known here, so that this rank cannot go on. Those that wait
 *  for its own entries get as many marks. */
Status SparseEntries::end_without_count() {
  if (longest_ <= plan_->layout.sparse_entries_max()) GQ_TRY(send_entries());
  return endpoint_->messages.failure();
}

/** All ranks have agreed on this call: a second control message can only differ if its rank is not
 * sound. */
Status SparseEntries::check_control(uint32_t rank, const ControlMessage& control) const {
  const bool numbered = control.words[kControlStatus] == GQSGD_OK &&
                        control.words[kControlSequence] == control_.words[kControlSequence];
  const bool is_own = digest_of(control) == endpoint_->digests[rank] &&
                      !has_spare_bits(control, endpoint_->result.on);
  if (numbered && is_own && same_request(control, control_)) return Status();
  endpoint_->transport->abort_group(GQSGD_PROTOCOL, rank);
  return fail(
      GQSGD_PROTOCOL,
      "call %" PRIu64
      ", allreduce: the entry count of rank %u comes with the control message of another call",
      endpoint_->sequence, rank);
}

Message SparseEntries::message_of(uint32_t peer, uint32_t origin) const {
  const Layout& layout = plan_->layout;
  const size_t size_bytes =
      static_cast<size_t>(endpoint_->rank_entries[origin].entry_count) * sizeof(uint32_t);
  const size_t here_bytes =
      origin == endpoint_->rank() ? layout.sparse_bytes() : layout.sparse_landing_bytes(origin);
  // Sparse entries stand for all values of the call: those that they leave out are 0.
  return Message{
      peer, origin, origin, layout.sparse_bytes(), size_bytes, here_bytes, call_->value_count};
}

/** In the order in which they are taken. */
Status SparseEntries::expect_entries() {
  const uint32_t rank = endpoint_->rank(), ranks = endpoint_->size();
  for (uint32_t distance = 1; distance < ranks; ++distance) {
    const uint32_t peer = (rank + ranks - distance) % ranks;
    if (endpoint_->rank_entries[peer].entry_count == 0) continue;
    GQ_TRY(endpoint_->messages.expect(message_of(peer, peer)));
  }
  return Status();
}

/** Each to the rank after it first, so that no rank is flooded. Messages without entries are not
 *  sent. */
Status SparseEntries::send_entries() {
  SelectArgs args = arguments().select();
  uint64_t skipped = 0, entry_count = 0;
  args.skipped = &skipped;
  args.entry_count = &entry_count;
  GQ_TRY(Status(endpoint_->stages->select(args)));
  const uint32_t rank = endpoint_->rank(), ranks = endpoint_->size();
  for (uint32_t distance = 1; distance < ranks && entry_count > 0; ++distance) {
    const Message message = message_of((rank + distance) % ranks, rank);
    GQ_TRY(endpoint_->messages.send_words(message, args.entries));
  }
  return Status();
}

uint32_t SparseEntries::awaited_rank() const {
  const uint32_t ranks = endpoint_->size();
  return (endpoint_->rank() + ranks - 1 - ranks_received_) % ranks;
}

Status SparseEntries::receive_entries(bool* all) {
  *all = false;
  for (; ranks_received_ + 1 < endpoint_->size(); ++ranks_received_, ++steps_made_) {
    const uint32_t peer = awaited_rank();
    if (endpoint_->rank_entries[peer].entry_count == 0) continue;
    const unsigned char* entries = nullptr;
    const uint64_t count = call_->value_count;
    GQ_TRY(endpoint_->messages.receive_words(message_of(peer, peer),
                                             {"sparse entries", 0, count, count}, &entries));
    if (entries == nullptr) return Status();
  }
  *all = true;
  return Status();
}

/** Nothing is written where entries are malformed, and nothing fails once something is written. */
Status SparseEntries::add() {
  if (call_->recv == nullptr) return Status();  // a virtual rank without an output buffer
  uint64_t places = 0;  // of entries, those of all ranks one behind the other
  for (uint32_t rank = 0; rank < endpoint_->size(); ++rank) {
    RankEntries& sparse = endpoint_->rank_entries[rank];
    if (sparse.entry_count == 0) continue;
    sparse.entries = reinterpret_cast<const uint32_t*>(
        rank == endpoint_->rank() ? arena_ + plan_->layout.sparse_bytes()
                                  : endpoint_->host->view(message_of(rank, rank)));
    GQ_TRY(check_entries(rank));
    if (!endpoint_->result.on) continue;
    digest_ += digest_of_words(places, sparse.entries, sparse.entry_count);
    places += sparse.entry_count;
  }
  for (uint64_t first = 0; first < call_->value_count;) {
    AddSparseArgs args = arguments().add_sparse(chunk_at(first));
    args.rank_entries = endpoint_->rank_entries.data();
    args.scale = norm_;
    GQ_TRY(Status(endpoint_->stages->add_sparse(args)));
    first += args.range.value_count;
  }
  steps_made_ += 1;
  return Status();
}

/** Entries beyond the call's values violate the format. */
Status SparseEntries::check_entries(uint32_t rank) const {
  const RankEntries& sparse = endpoint_->rank_entries[rank];
  uint64_t next_value = 0;
  for (uint64_t k = 0; k < sparse.entry_count; ++k) {
    next_value += gap_of_entry(sparse.entries[k]) + 1;
    if (next_value <= call_->value_count) continue;
    endpoint_->transport->abort_group(GQSGD_PROTOCOL, rank);
    return fail(GQSGD_PROTOCOL,
                "call %" PRIu64 ", allreduce: entry %" PRIu64 " of %" PRIu64
                " from rank %u lies outside the call's %" PRIu64
                " values; its memory has been overwritten",
                endpoint_->sequence, k, sparse.entry_count, rank, call_->value_count);
  }
  return Status();
}

Status SparseEntries::timed_out(int64_t waited_ms, uint32_t* culprit) const {
  const uint32_t self = endpoint_->rank();
  if (phase_ == Phase::count) {
    RankList missing;
    GQ_TRY(Agreement::find_missing(*endpoint_, counts_read_, &missing, culprit));
    return fail(GQSGD_TIMEOUT,
                "call %" PRIu64 ", allreduce: rank %u waited %" PRId64
                " ms for rank%s %s to count codes (schedule sparse); stopped or too slow "
                "(timeout_ms sets the limit)",
                endpoint_->sequence, self, waited_ms, missing.count() == 1 ? "" : "s",
                missing.text());
  }
  const uint32_t awaited = awaited_rank();
  const Culprit found(*endpoint_->host, awaited, kStoppedOrSlow);
  *culprit = found.rank();
  return fail(GQSGD_TIMEOUT,
              "call %" PRIu64 ", allreduce: rank %u waited %" PRId64 " ms for %" PRIu64
              " entries from rank %u (schedule sparse); %s (timeout_ms sets the limit)",
              endpoint_->sequence, self, waited_ms, endpoint_->rank_entries[awaited].entry_count,
              awaited, found.clause());
}

}  // namespace gq
