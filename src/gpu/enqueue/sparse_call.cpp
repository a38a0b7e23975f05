// Calls of schedule sparse on streams (docs/FORMAT.md, section 14): the host reads the entry counts
// of all ranks from a second header that the device fills in, and enqueues either the exchange of
// entries or the moves of direct.
#include <inttypes.h>
#include <string.h>

#include <algorithm>
#include <new>

#include "src/call/header_fields.h"
#include "src/gpu/device/time_range.h"
#include "src/gpu/enqueue/scratch_layout.h"
#include "src/gpu/enqueue/sparse_arena.h"
#include "src/gpu/enqueue/stream_calls.h"

namespace gq {
namespace {

uint64_t count_in(const Header& header) {
  return header.words[kHeaderNormLow] | static_cast<uint64_t>(header.words[kHeaderNormHigh]) << 32;
}

}  // namespace

unsigned char* StreamCalls::sparse_workspace(const Plan& plan) const {
  return arena_.data() + in_lines(plan.layout.arena_bytes());
}

/** Nothing may fail for want of memory once ranks have agreed. */
Status StreamCalls::prepare_lists(const Plan& plan) {
  if (!plan.schedule->sends_lists) return Status();
  try {
    list_transfers_.reserve(2 * size_t{endpoint_.size()});
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for lists of %u ranks", endpoint_.size());
  }
  return Status();
}

/** Ranks have agreed on the call and have its norm. */
Status StreamCalls::list_codes(const Attempt& attempt, bool* as_lists) {
  const Plan& plan = attempt.known->execution_plan.plan();
  GQ_TRY(count_codes(attempt.call, plan));
  GQ_TRY(gather_counts(attempt));
  uint64_t longest = 0;
  GQ_TRY(read_counts(&longest));
  *as_lists = longest <= plan.layout.list_entries_max();
  return *as_lists ? select_entries(attempt.call, plan) : Status();
}

/** Encodes the whole call. Its number of entries is written directly into the header that it
 *  travels in. */
Status StreamCalls::count_codes(const Call& call, const Plan& plan) {
  const StageArguments arguments = arguments_of(call, plan);
  const Range all{0, static_cast<size_t>(call.value_count)};
  GQ_TRY(Status(device_.stages->quantize(arguments.quantize(all))));
  CountEntriesArgs count = arguments.count_entries(all);
  count.skipped = scratch_.as<uint64_t>(kSkippedBytes);
  count.entry_count = scratch_.as<uint64_t>(kOwnCountBytes);
  count.workspace = sparse_workspace(plan);
  GQ_TRY(device_.clear(count.skipped, sizeof *count.skipped, call.stream));
  GQ_TRY(device_.clear(count.entry_count, sizeof *count.entry_count, call.stream));
  return Status(device_.stages->count_entries(count));
}

/** The second header of the call has a number of its own. The norm comes along. */
Status StreamCalls::gather_counts(const Attempt& attempt) {
  const TimeRange range("gqsgd.await_counts");
  const StreamHandle stream = attempt.call.stream;
  endpoint_.sequence += 1;
  GQ_TRY(write_header(attempt, true));
  GQ_TRY(transport_.gather(scratch_.data() + kOwnHeaderBytes, scratch_.data() + kHeadersBytes,
                           sizeof(Header), stream));
  GQ_TRY(device_.copy(pinned_.data() + kPinnedHeadersBytes, scratch_.data() + kHeadersBytes,
                      endpoint_.size() * sizeof(Header), stream));
  GQ_TRY(device_.copy(pinned_.data() + kPinnedNormBytes, scratch_.data() + kNormBytes,
                      sizeof(float), stream));
  GQ_TRY(device_.record(there_, stream));
  return wait_on_host(there_, "the lengths of all ranks' lists");
}

Status StreamCalls::read_counts(uint64_t* longest) {
  for (uint32_t rank = 0; rank < endpoint_.size(); ++rank) {
    GQ_TRY(check_count(rank));
    EntryList list;
    list.entry_count = count_in(seen_headers()[rank]);
    *longest = std::max(*longest, list.entry_count);
    endpoint_.lists[rank] = list;
  }
  return Status();
}

/** All ranks have agreed on this call: a second header can only differ if its rank is not sound. */
Status StreamCalls::check_count(uint32_t rank) const {
  const Header& header = seen_headers()[rank];
  const bool numbered = header.words[kHeaderStatus] == GQSGD_OK &&
                        header.words[kHeaderSequence] == static_cast<uint32_t>(endpoint_.sequence);
  if (numbered && same_request(header, seen_headers()[endpoint_.rank()])) return Status();
  return fail(GQSGD_PROTOCOL,
              "call %" PRIu64
              ", allreduce: the entry count of rank %u comes with a header of another call",
              endpoint_.sequence, rank);
}

Status StreamCalls::select_entries(const Call& call, const Plan& plan) {
  SelectArgs args = arguments_of(call, plan).select();
  args.workspace = sparse_workspace(plan);
  args.counted = true;
  return Status(device_.stages->select(args));
}

/** Each to the rank after it first, so that no rank is flooded. Messages without entries are not
 *  sent. */
Status StreamCalls::exchange_lists(const Call& call, const Plan& plan) {
  const Layout& layout = plan.layout;
  const uint32_t rank = endpoint_.rank(), ranks = endpoint_.size();
  const auto size_bytes = [this](uint32_t origin) {
    return static_cast<size_t>(endpoint_.lists[origin].entry_count) * sizeof(uint32_t);
  };
  list_transfers_.clear();
  for (uint32_t distance = 1; distance < ranks; ++distance) {
    const uint32_t to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
    if (size_bytes(rank) > 0) {
      list_transfers_.push_back({to, true, layout.list_bytes(), size_bytes(rank)});
    }
    if (size_bytes(from) > 0) {
      list_transfers_.push_back(
          {from, false, layout.list_landing_bytes(from), size_bytes(from), layout.list_bytes()});
    }
  }
  if (list_transfers_.empty()) return Status();
  return transport_.exchange(arena_.data(), list_transfers_.data(), list_transfers_.size(),
                             call.stream);
}

/** Values, if the gate is open by then. */
Status StreamCalls::add_lists(const Call& call, const Plan& plan) {
  const Layout& layout = plan.layout;
  const size_t lists_bytes = endpoint_.size() * sizeof(EntryList);
  const size_t headers_bytes = endpoint_.size() * sizeof(Header);
  auto* const staged = pinned_.as<EntryList>(kPinnedHeadersBytes + headers_bytes);
  AddSparseArgs args =
      arguments_of(call, plan).add_sparse({0, static_cast<size_t>(call.value_count)});
  args.lists = scratch_.as<EntryList>(kHeadersBytes + headers_bytes);
  for (uint32_t rank = 0; rank < endpoint_.size(); ++rank) {
    EntryList& list = endpoint_.lists[rank];
    const bool own = rank == endpoint_.rank();
    list.entries =
        arena_.as<const uint32_t>(own ? layout.list_bytes() : layout.list_landing_bytes(rank));
    args.entries_max = std::max(args.entries_max, list.entry_count);
    staged[rank] = list;
  }
  GQ_TRY(device_.copy(args.lists, staged, lists_bytes, call.stream));
  args.scale = *pinned_.as<const float>(kPinnedNormBytes);
  args.workspace = sparse_workspace(plan);
  args.gate = scratch_.as<const uint32_t>(kGateBytes);
  return Status(device_.stages->add_sparse(args));
}

}  // namespace gq
