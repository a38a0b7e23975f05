// Groups of a move, one after the other or several at once: no group knows of another.
#include "src/execute/rice_stages.h"

#include <algorithm>
#include <atomic>

#include "kernels/checksum/digest.h"
#include "src/execute/workers.h"

namespace gq {
namespace {

// Places of words in a call's digest, for each value before the group (docs/FORMAT.md, section 18).
constexpr uint64_t kPlacesOfValue = 8;

}  // namespace

RiceStages::Group RiceStages::group_of(const Move& move, uint32_t number) const {
  const Groups& groups = plan_.groups;
  const uint64_t end = move.first_value + move.value_count;
  Group group{move, move, uint64_t{number} * groups.group_values, 0, 0};
  group.part.first_value += group.skipped;
  group.part.value_count = std::min<uint64_t>(groups.group_values, end - group.part.first_value);
  const uint64_t index = group.part.first_value / groups.group_values;
  group.first_value = groups.first_value(index);
  group.value_count = groups.value_count_of(index, end);
  return group;
}

Packing RiceStages::packing_of(Content content) const {
  return content == Content::sums ? plan_.coding.packing_down() : plan_.coding.packing();
}

/** All groups of an allreduce have as many; the last one of a slice has fewer if it is shorter. */
uint32_t RiceStages::planes_of_group(Content content, const Group& group) const {
  const Packing packing = packing_of(content);
  const bool is_whole = plan_.groups.interleaved || group.value_count == packing.group_values;
  return is_whole ? packing.group_planes
                  : static_cast<uint32_t>(planes_of(packing, group.value_count));
}

uint32_t* RiceStages::own_words(Content content, const Group& group) const {
  return arguments_.own_words(content, group.move, Piece{{}, 0, group.skipped});
}

template <typename Work>
Status RiceStages::each_group(const Move& move, const Work& work) const {
  Workers& workers = *endpoint_.workers;
  GQ_TRY(workers.reserve_scratch(kRiceScratchBytes));
  OneError error;
  workers.run(static_cast<uint32_t>(divided_up(move.value_count, plan_.groups.group_values)),
              [&](uint32_t number, uint32_t thread) {
                error.add(work(group_of(move, number),
                               static_cast<float*>(workers.scratch(thread))));
              });
  return Status(error.get());
}

template <typename Work>
StageError RiceStages::each_tile(const Group& group, const Work& work) const {
  GroupPieces pieces(group.part, call_.segments == nullptr ? nullptr : &call_.segments->parts,
                     plan_.groups, plan_.coding.mean_half_bits, kValueAlignment);
  for (Piece run; pieces.next(&run);) {
    const size_t end = run.range.value_count;
    for (size_t done = 0; done < end; done += kGranuleValues) {
      Piece tile = run;
      tile.range = {run.range.first_value + done / kGranuleValues * plan_.groups.stride_values(),
                    std::min<size_t>(kGranuleValues, end - done)};
      tile.into_group += done;
      const StageError error = work(tile);
      if (failed(error)) return error;
    }
  }
  return {};
}

/** What no segment has counts as 0. */
StageError RiceStages::gather(const Group& group, float* values) const {
  if (call_.segments != nullptr) std::fill_n(values, group.value_count, 0.0f);
  return each_tile(group, [&](const Piece& tile) {
    QuantizeArgs args{};
    args.coding = plan_.decoding;
    args.range = tile.range;
    args.values = call_.send_at(tile.range.first_value, tile.segment);
    args.dtype = call_.dtype;
    args.words = reinterpret_cast<uint32_t*>(values + tile.into_group);
    return endpoint_.stages->quantize(args);
  });
}

StageError RiceStages::scatter(const Group& group, const float* values) const {
  return each_tile(group, [&](const Piece& tile) {
    void* const to = call_.recv_at(tile.range.first_value, tile.segment);
    if (to == nullptr) return StageError();  // of a virtual rank
    DequantizeArgs args{};
    args.coding = plan_.decoding;
    args.random = random_site(endpoint_, call_, group.move.hop);
    args.range = tile.range;
    args.words = reinterpret_cast<const uint32_t*>(values + tile.into_group);
    args.dtype = call_.dtype;
    args.op = call_.op;
    args.values = to;
    return endpoint_.stages->dequantize(args);
  });
}

/** Values of the move's next group, which this thread may read next. */
ValuesAhead RiceStages::values_behind(const Group& group) const {
  const Groups& groups = plan_.groups;
  const uint64_t next = group.part.first_value + groups.group_values;
  const bool is_last = next >= group.move.first_value + group.move.value_count;
  if (is_last || call_.segments != nullptr) return {};
  const uint32_t value_bytes = dtype_size_bytes(call_.dtype);
  return {call_.send_at(groups.first_value(next / groups.group_values)), value_bytes,
          static_cast<size_t>(groups.stride_values()) * value_bytes};
}

StageError RiceStages::encode(Content content, const Group& group, EncodeRiceArgs args) const {
  args.coding = plan_.coding;
  args.random = random_site(endpoint_, call_, group.move);
  args.first_value = group.first_value;
  args.stride_values = plan_.groups.stride_values();
  args.value_count = group.value_count;
  args.plane_count = planes_of_group(content, group);
  args.words = own_words(content, group);
  return endpoint_.stages->encode_rice(args);
}

StageError RiceStages::decode(Content content, const Group& group, const uint32_t* chunk,
                              DecodeRiceArgs args) const {
  args.value_count = group.value_count;
  args.plane_count = planes_of_group(content, group);
  args.words = chunk + plan_.layout.between_bytes(content, group.skipped) / sizeof(uint32_t);
  return endpoint_.stages->decode_rice(args);
}

/** In the order of operands. */
StageError RiceStages::add(Content content, const Group& group, const uint32_t* const* chunks,
                           uint32_t count, float* values) const {
  for (uint32_t k = 0; k < count; ++k) {
    DecodeRiceArgs args{};
    args.values = values;
    args.add = k > 0;
    const StageError error = decode(content, group, chunks[k], args);
    if (failed(error)) return error;
  }
  return {};
}

Status RiceStages::quantize(const Move& move) const {
  std::atomic<uint64_t> poisoned{0};
  GQ_TRY(each_group(move, [&](const Group& group, float* values) {
    const StageError error = gather(group, values);
    if (failed(error)) return error;
    uint32_t cells = 0;
    EncodeRiceArgs args{};
    args.values = values;
    args.poisoned_cells = &cells;
    args.ahead = values_behind(group);
    const StageError encoded = encode(move.content, group, args);
    poisoned.fetch_add(cells, std::memory_order_relaxed);
    return encoded;
  }));
  endpoint_.nonfinite_blocks += poisoned.load(std::memory_order_relaxed);
  return Status();
}

/** The sum of a node lies as the codes that it is made of. */
Status RiceStages::reduce_many(const Move& move, const uint32_t* const* chunks) const {
  const Content sums = move.addends == Addends::node ? Content::codes : Content::sums;
  const uint32_t count = operand_count(plan_.shape, endpoint_.rank(), move);
  return each_group(move, [&](const Group& group, float* values) {
    const StageError error = add(move.content, group, chunks, count, values);
    if (failed(error)) return error;
    EncodeRiceArgs args{};
    args.values = values;
    args.is_sum = true;
    return encode(sums, group, args);
  });
}

/** Groups of a slice follow each other, so that sums are one array. */
Status RiceStages::add_values(const Move& move, const uint32_t* const* chunks) const {
  return each_group(move, [&](const Group& group, float*) {
    float* const sums = reinterpret_cast<float*>(own_words(Content::sums, group));
    return add(move.content, group, chunks, endpoint_.size(), sums);
  });
}

DecodeRiceArgs RiceStages::place_of(const Group& group, float* scratch) const {
  if (call_.segments != nullptr) {
    DecodeRiceArgs args{};
    args.values = scratch;
    return args;
  }
  void* const to = call_.recv_at(group.first_value);
  const uint64_t apart = plan_.groups.stride_values();
  const float divisor = result_divisor(call_.op, plan_.decoding.ranks);
  return rice_results(to, call_.dtype, apart, divisor, scratch);
}

/** A virtual rank may have no output buffer. */
Status RiceStages::dequantize(const Move& move, const unsigned char* chunk,
                              uint64_t* digest) const {
  if (call_.places == nullptr && call_.recv == nullptr) return Status();
  const auto* const words = reinterpret_cast<const uint32_t*>(chunk);
  std::atomic<uint64_t> sum{0};
  const Status status = each_group(move, [&](const Group& group, float* scratch) {
    const DecodeRiceArgs args = place_of(group, scratch);
    const StageError error = decode(move.content, group, words, args);
    if (failed(error)) return error;
    if (digest != nullptr) {
      const size_t skipped_words =
          plan_.layout.between_bytes(move.content, group.skipped) / sizeof(uint32_t);
      const size_t word_count = size_t{planes_of_group(move.content, group)} * kPlaneWords;
      sum.fetch_add(digest_of_words(group.first_value * kPlacesOfValue, words + skipped_words,
                                    word_count),
                    std::memory_order_relaxed);
    }
    return args.values == scratch ? scatter(group, scratch) : StageError();
  });
  if (digest != nullptr) *digest += sum.load(std::memory_order_relaxed);
  return status;
}

}  // namespace gq
