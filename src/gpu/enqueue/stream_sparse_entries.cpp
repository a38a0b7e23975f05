// Encode and count; exchange the counts; then select, exchange and add the entries.
#include "src/gpu/enqueue/stream_sparse_entries.h"

#include <inttypes.h>

#include <algorithm>
#include <new>

#include "src/call/control_fields.h"
#include "src/gpu/device/time_range.h"

namespace gq {
namespace {

uint64_t count_in(const ControlMessage& control) {
  return control.words[kControlNormLow] | static_cast<uint64_t>(control.words[kControlNormHigh])
                                              << 32;
}

Range all_of(const Call& call) { return {0, static_cast<size_t>(call.value_count)}; }

}  // namespace

Status StreamSparseEntries::reserve(const Plan& plan) {
  if (!plan.schedule->sends_sparse_entries) return Status();
  try {
    transfers_.reserve(2 * size_t{group_.endpoint().size()});
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for sparse entries of %u ranks",
                group_.endpoint().size());
  }
  return Status();
}

Status StreamSparseEntries::encode(const CallOnStream& call, bool* few) {
  GQ_TRY(count(call));
  GQ_TRY(gather_counts(call));
  uint64_t largest = 0;
  GQ_TRY(read_counts(&largest));
  *few = largest <= call.plan().layout.sparse_entries_max();
  return *few ? select(call) : Status();
}

/** The number of entries is written directly into the control message that it travels in. */
Status StreamSparseEntries::count(const CallOnStream& call) const {
  const Device& device = group_.device();
  const StageArguments arguments = arguments_of(call);
  const StreamHandle stream = call.call.stream;
  GQ_TRY(Status(device.stages->quantize(arguments.quantize(all_of(call.call)))));
  CountEntriesArgs args = arguments.count_entries(all_of(call.call));
  args.skipped = scratch_.zero_codes();
  args.entry_count = scratch_.own_entry_count();
  args.workspace = workspace_.sparse(call.plan());
  GQ_TRY(device.clear(args.skipped, sizeof *args.skipped, stream));
  GQ_TRY(device.clear(args.entry_count, sizeof *args.entry_count, stream));
  return Status(device.stages->count_entries(args));
}

/** The second control message of the call has a number of its own. The norm comes along. */
Status StreamSparseEntries::gather_counts(const CallOnStream& call) {
  const TimeRange range("gqsgd.await_counts");
  const StreamHandle stream = call.call.stream;
  group_.endpoint().sequence += 1;
  GQ_TRY(agreement_.exchange_again(call));
  GQ_TRY(group_.device().copy(scratch_.pinned_norm(), scratch_.norm(), sizeof(float), stream));
  return agreement_.read_controls(stream, "the numbers of sparse entries of all ranks");
}

Status StreamSparseEntries::read_counts(uint64_t* largest) {
  Endpoint& endpoint = group_.endpoint();
  for (uint32_t rank = 0; rank < endpoint.size(); ++rank) {
    GQ_TRY(check_count(rank));
    RankEntries entries;
    entries.entry_count = count_in(scratch_.controls().seen(rank));
    *largest = std::max(*largest, entries.entry_count);
    endpoint.rank_entries[rank] = entries;
  }
  return Status();
}

/** All ranks have agreed on this call: a second control message can only differ if its rank is not
 *  sound. */
Status StreamSparseEntries::check_count(uint32_t rank) const {
  const Endpoint& endpoint = group_.endpoint();
  const ControlMessage& control = scratch_.controls().seen(rank);
  const bool numbered = control.words[kControlStatus] == GQSGD_OK &&
                        control.words[kControlSequence] == static_cast<uint32_t>(endpoint.sequence);
  const bool same = same_request(control, scratch_.controls().seen(endpoint.rank()));
  if (numbered && same && !has_spare_bits(control, false)) return Status();
  return fail(
      GQSGD_PROTOCOL,
      "call %" PRIu64
      ", allreduce: the entry count of rank %u comes with the control message of another call",
      endpoint.sequence, rank);
}

Status StreamSparseEntries::select(const CallOnStream& call) const {
  SelectArgs args = arguments_of(call).select();
  args.workspace = workspace_.sparse(call.plan());
  args.counted = true;
  return Status(group_.device().stages->select(args));
}

/** Each to the rank after it first, so that no rank is flooded. Messages without entries are not
 *  sent. */
Status StreamSparseEntries::exchange(const CallOnStream& call) {
  const Layout& layout = call.plan().layout;
  const Endpoint& endpoint = group_.endpoint();
  const uint32_t rank = endpoint.rank(), ranks = endpoint.size();
  const auto size_bytes = [&endpoint](uint32_t origin) {
    return static_cast<size_t>(endpoint.rank_entries[origin].entry_count) * sizeof(uint32_t);
  };
  transfers_.clear();
  for (uint32_t distance = 1; distance < ranks; ++distance) {
    const uint32_t to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
    if (size_bytes(rank) > 0) {
      transfers_.push_back(
          {to, true, layout.sparse_bytes(), size_bytes(rank), 0, call.call.value_count});
    }
    if (size_bytes(from) > 0) {
      transfers_.push_back({from, false, layout.sparse_landing_bytes(from), size_bytes(from),
                            layout.sparse_bytes()});
    }
  }
  if (transfers_.empty()) return Status();
  return group_.transport().exchange(workspace_.arena(), transfers_.data(), transfers_.size(),
                                     call.call.stream);
}

Status StreamSparseEntries::add(const CallOnStream& call) {
  const Layout& layout = call.plan().layout;
  Endpoint& endpoint = group_.endpoint();
  AddSparseArgs args = arguments_of(call).add_sparse(all_of(call.call));
  args.rank_entries = scratch_.entries();
  for (uint32_t rank = 0; rank < endpoint.size(); ++rank) {
    RankEntries& entries = endpoint.rank_entries[rank];
    const bool own = rank == endpoint.rank();
    entries.entries = reinterpret_cast<const uint32_t*>(
        workspace_.arena() + (own ? layout.sparse_bytes() : layout.sparse_landing_bytes(rank)));
    args.entries_max = std::max(args.entries_max, entries.entry_count);
    scratch_.pinned_entries()[rank] = entries;
  }
  GQ_TRY(group_.device().copy(args.rank_entries, scratch_.pinned_entries(),
                              endpoint.size() * sizeof(RankEntries), call.call.stream));
  args.scale = *scratch_.pinned_norm();
  args.workspace = workspace_.sparse(call.plan());
  args.gate = {scratch_.gate(), group_.transport().broken_word()};
  return Status(group_.device().stages->add_sparse(args));
}

}  // namespace gq
