// Encode and count; exchange the counts in a second header; then send, receive and add the entries
// (docs/FORMAT.md, section 14).
#include "src/call/sparse.h"

#include <inttypes.h>

#include <algorithm>

#include "kernels/codec/sparse.h"
#include "src/call/agreement.h"
#include "src/call/header_fields.h"
#include "src/execute/split_stages.h"
#include "src/transport/culprit.h"

namespace gq {

void SparseLists::begin(Endpoint& endpoint, const Call& call, const Plan& plan,
                        unsigned char* arena, float norm) {
  *this = SparseLists();
  endpoint_ = &endpoint;
  call_ = &call;
  plan_ = &plan;
  arena_ = arena;
  norm_ = norm;
}

Status SparseLists::advance(Outcome* outcome) {
  *outcome = Outcome::waiting;
  bool all = false;
  if (phase_ == Phase::encode) {
    GQ_TRY(encode());
    GQ_TRY(publish_count());
    phase_ = Phase::count;
  }
  if (phase_ == Phase::count) {
    GQ_TRY(read_counts(&all));
    if (!all) return Status();
    if (longest_ > plan_->layout.list_entries_max()) {
      *outcome = Outcome::too_long;
      return Status();
    }
    GQ_TRY(expect_lists());
    GQ_TRY(send_list());
    phase_ = Phase::receive;
  }
  if (phase_ == Phase::receive) {
    GQ_TRY(receive_lists(&all));
    if (!all) return Status();
    phase_ = Phase::flush;
  }
  bool flushed = false;
  GQ_TRY(endpoint_->transport->flushed(&flushed));
  if (!flushed) return Status();
  GQ_TRY(add());
  *outcome = Outcome::added;
  return Status();
}

Range SparseLists::chunk_at(uint64_t first_value) const {
  const uint64_t left = call_->value_count - first_value;
  return {first_value, static_cast<size_t>(std::min(left, plan_->shape.chunk_value_count))};
}

StageArguments SparseLists::arguments() const {
  return StageArguments(*endpoint_, *call_, *plan_, arena_, &norm_);
}

Status SparseLists::encode() {
  for (uint64_t first = 0; first < call_->value_count;) {
    const Range chunk = chunk_at(first);
    GQ_TRY(encode(chunk));
    first += chunk.value_count;
  }
  steps_made_ += 1;
  return Status();
}

/** Codes are counted while they are in a cache. */
Status SparseLists::encode(Range chunk) {
  GQ_TRY(run_stage(*endpoint_, arguments().quantize(chunk)));
  CountEntriesArgs count = arguments().count_entries(chunk);
  count.skipped = &skipped_;
  count.entry_count = &entry_count_;
  return Status(endpoint_->stages->count_entries(count));
}

Status SparseLists::publish_count() {
  endpoint_->sequence += 1;
  header_ = Agreement::header_of(
      *endpoint_, *call_, plan_->schedule->id,
      NormWords{static_cast<uint32_t>(entry_count_), static_cast<uint32_t>(entry_count_ >> 32)});
  return endpoint_->transport->publish(endpoint_->sequence, header_);
}

Status SparseLists::read_counts(bool* all) {
  *all = false;
  for (; counts_read_ < endpoint_->size(); ++counts_read_, ++steps_made_) {
    Header header;
    bool there = false;
    GQ_TRY(endpoint_->transport->peer_header(counts_read_, endpoint_->sequence, &header, &there));
    if (!there) return Status();
    GQ_TRY(check_header(counts_read_, header));
    EntryList list;
    list.entry_count =
        header.words[kHeaderNormLow] | static_cast<uint64_t>(header.words[kHeaderNormHigh]) << 32;
    longest_ = std::max(longest_, list.entry_count);
    endpoint_->lists[counts_read_] = list;
  }
  *all = true;
  return Status();
}

/** All ranks have agreed on this call: a second header can only differ if its rank is not sound. */
Status SparseLists::check_header(uint32_t rank, const Header& header) const {
  const bool numbered = header.words[kHeaderStatus] == GQSGD_OK &&
                        header.words[kHeaderSequence] == header_.words[kHeaderSequence];
  if (numbered && same_request(header, header_)) return Status();
  endpoint_->transport->abort_group(GQSGD_PROTOCOL, rank);
  return fail(GQSGD_PROTOCOL,
              "call %" PRIu64
              ", allreduce: the entry count of rank %u comes with a header of another call",
              endpoint_->sequence, rank);
}

Message SparseLists::message_of(uint32_t peer, uint32_t origin) const {
  const Layout& layout = plan_->layout;
  const size_t size_bytes =
      static_cast<size_t>(endpoint_->lists[origin].entry_count) * sizeof(uint32_t);
  const size_t here_bytes =
      origin == endpoint_->rank() ? layout.list_bytes() : layout.list_landing_bytes(origin);
  return Message{peer, origin, origin, layout.list_bytes(), size_bytes, here_bytes};
}

/** In the order in which they are taken. */
Status SparseLists::expect_lists() {
  const uint32_t rank = endpoint_->rank(), ranks = endpoint_->size();
  for (uint32_t distance = 1; distance < ranks; ++distance) {
    const uint32_t peer = (rank + ranks - distance) % ranks;
    if (endpoint_->lists[peer].entry_count == 0) continue;
    GQ_TRY(endpoint_->transport->expect(message_of(peer, peer)));
  }
  return Status();
}

/** Each to the rank after it first, so that no rank is flooded. Messages without entries are not
 *  sent. */
Status SparseLists::send_list() {
  SelectArgs args = arguments().select();
  uint64_t skipped = 0, entry_count = 0;
  args.skipped = &skipped;
  args.entry_count = &entry_count;
  GQ_TRY(Status(endpoint_->stages->select(args)));
  const uint32_t rank = endpoint_->rank(), ranks = endpoint_->size();
  for (uint32_t distance = 1; distance < ranks && entry_count > 0; ++distance) {
    GQ_TRY(endpoint_->transport->send(message_of((rank + distance) % ranks, rank)));
  }
  return Status();
}

uint32_t SparseLists::awaited_rank() const {
  const uint32_t ranks = endpoint_->size();
  return (endpoint_->rank() + ranks - 1 - lists_received_) % ranks;
}

Status SparseLists::receive_lists(bool* all) {
  *all = false;
  for (; lists_received_ + 1 < endpoint_->size(); ++lists_received_, ++steps_made_) {
    const uint32_t peer = awaited_rank();
    if (endpoint_->lists[peer].entry_count == 0) continue;
    const unsigned char* entries = nullptr;
    GQ_TRY(endpoint_->transport->receive(message_of(peer, peer), &entries));
    if (entries == nullptr) return Status();
  }
  *all = true;
  return Status();
}

/** Nothing is written where entries are malformed, and nothing fails once something is written. */
Status SparseLists::add() {
  if (call_->recv == nullptr) return Status();  // a virtual rank without an output buffer
  for (uint32_t rank = 0; rank < endpoint_->size(); ++rank) {
    EntryList& list = endpoint_->lists[rank];
    if (list.entry_count == 0) continue;
    list.entries = reinterpret_cast<const uint32_t*>(
        rank == endpoint_->rank() ? arena_ + plan_->layout.list_bytes()
                                  : endpoint_->transport->view(message_of(rank, rank)));
    GQ_TRY(check_list(rank));
  }
  for (uint64_t first = 0; first < call_->value_count;) {
    AddSparseArgs args = arguments().add_sparse(chunk_at(first));
    args.lists = endpoint_->lists.data();
    args.scale = norm_;
    GQ_TRY(Status(endpoint_->stages->add_sparse(args)));
    first += args.range.value_count;
  }
  steps_made_ += 1;
  return Status();
}

/** Entries beyond the call's values violate the format. */
Status SparseLists::check_list(uint32_t rank) const {
  const EntryList& list = endpoint_->lists[rank];
  uint64_t next_value = 0;
  for (uint64_t k = 0; k < list.entry_count; ++k) {
    next_value += gap_of_entry(list.entries[k]) + 1;
    if (next_value <= call_->value_count) continue;
    endpoint_->transport->abort_group(GQSGD_PROTOCOL, rank);
    return fail(GQSGD_PROTOCOL,
                "call %" PRIu64 ", allreduce: entry %" PRIu64 " of %" PRIu64
                " from rank %u lies outside the call's %" PRIu64
                " values; its memory has been overwritten",
                endpoint_->sequence, k, list.entry_count, rank, call_->value_count);
  }
  return Status();
}

Status SparseLists::timed_out(int64_t waited_ms, uint32_t* culprit) const {
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
  const Culprit found(*endpoint_->transport, awaited, kStoppedOrSlow);
  *culprit = found.rank();
  return fail(GQSGD_TIMEOUT,
              "call %" PRIu64 ", allreduce: rank %u waited %" PRId64 " ms for a list of %" PRIu64
              " entries from rank %u (schedule sparse); %s (timeout_ms sets the limit)",
              endpoint_->sequence, self, waited_ms, endpoint_->lists[awaited].entry_count, awaited,
              found.clause());
}

}  // namespace gq
