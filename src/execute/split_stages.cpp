// Where ranges are cut. Codes depend on a value's position alone, so that any multiple of the
// format's value alignment will do; norms that are sums have groups, added in one order.
#include "src/execute/split_stages.h"

#include <algorithm>

#include "kernels/checksum/digest.h"
#include "kernels/codec/groups.h"
#include "kernels/codec/norm.h"

namespace gq {
namespace {

// Whole cache lines of everything that a stage writes.
constexpr uint64_t kPartUnit = 1024;
// Tiles for each thread: one that starts late, or loses its processor, is not waited for with half
// of the work.
constexpr uint64_t kPartsPerThread = 2;
constexpr uint32_t kPartsMax = kThreadsMax * kPartsPerThread;

// Values of the smallest tile: it takes some microseconds, many times the cost of handing it over.
constexpr uint64_t kLeastOfNorm = 16384;
constexpr uint64_t kLeastOfCodes = 8192;
constexpr uint64_t kLeastOfReduce = 16384;

/** A range as tiles of one length, the last one shorter. */
struct Parts {
  uint64_t value_count;
  uint32_t count;
};

Parts parts_of(const Endpoint& endpoint, const Range& range, uint64_t alignment, uint64_t least) {
  const uint64_t threads = endpoint.workers == nullptr ? 1 : endpoint.workers->thread_count();
  if (threads == 1 || range.value_count < 2 * least) return {range.value_count, 1};
  const uint64_t unit = std::max(alignment, kPartUnit);
  const uint64_t parts = threads * kPartsPerThread;
  const uint64_t even = (range.value_count + parts - 1) / parts;
  const uint64_t length = (std::max(even, least) + unit - 1) / unit * unit;
  return {length, static_cast<uint32_t>((range.value_count + length - 1) / length)};
}

Parts parts_of(const Endpoint& endpoint, const Range& range, const Coding& coding, uint64_t least) {
  const uint32_t alignment = coding.adaptive() ? kGranuleValues
                                               : value_alignment(coding.block, coding.rotated);
  return parts_of(endpoint, range, alignment, least);
}

/** The offset of a tile in its range, in what each buffer holds. Of a group, whose words, norms and
 *  scales stages find by the number of the first block, only values have one. */
struct Skip {
  uint64_t values;
  GroupPlace group;

  bool in_group() const { return group.block_count > 0; }
  /** In the call, and in the caller's buffer. */
  uint64_t distance() const {
    return in_group() ? values / kGranuleValues * group.stride_values : values;
  }
  size_t words(uint32_t bits) const {
    return in_group() ? 0 : static_cast<size_t>(values / codes_per_word(bits));
  }
  size_t bytes(int32_t dtype) const {
    return static_cast<size_t>(distance()) * dtype_size_bytes(dtype);
  }
  size_t blocks(uint32_t block) const {
    return in_group() ? 0 : static_cast<size_t>(values / block);
  }
  NormView norms(NormView view, uint32_t block) const {
    if (view.blocks != nullptr) view.blocks += blocks(block);
    return view;
  }
};

/** Calls stage(args of a tile) for each; narrow(args, skip, thread) moves their pointers on. */
template <typename Stage, typename Args, typename Narrow>
Status in_parts(const Endpoint& endpoint, Stage stage, const Args& whole, Parts parts,
                Narrow narrow) {
  OneError error;
  const auto make = [&](uint32_t part, uint32_t thread) {
    const Skip skip{part * parts.value_count, whole.range.group};
    Args args = whole;
    args.range.first_value += skip.distance();
    if (skip.in_group()) {
      args.range.group.first_block += static_cast<uint32_t>(skip.values / kAdaptiveBlock);
    }
    args.range.value_count =
        static_cast<size_t>(std::min(parts.value_count, whole.range.value_count - skip.values));
    narrow(&args, skip, part, thread);
    error.add(stage(args));
  };
  endpoint.workers->run(parts.count, make);
  return Status(error.get());
}

const void* values_at(const void* values, size_t skipped_bytes) {
  return static_cast<const unsigned char*>(values) + skipped_bytes;
}

Status norms_of_blocks(const Endpoint& endpoint, const NormArgs& whole) {
  const uint64_t alignment = whole.range.group.block_count > 0
                                 ? kGranuleValues
                                 : value_alignment(whole.block, whole.rotated);
  const Parts parts = parts_of(endpoint, whole.range, alignment, kLeastOfNorm);
  if (parts.count <= 1) return Status(endpoint.stages->norm(whole));
  return in_parts(endpoint, endpoint.stages->norm, whole, parts,
                  [&](NormArgs* args, Skip skip, uint32_t, uint32_t) {
                    args->values = values_at(whole.values, skip.bytes(whole.dtype));
                    args->out = static_cast<uint16_t*>(whole.out) + skip.blocks(whole.block);
                  });
}

Status largest_magnitude(const Endpoint& endpoint, const NormArgs& whole) {
  const uint64_t alignment = value_alignment(0, whole.rotated);
  const Parts parts = parts_of(endpoint, whole.range, alignment, kLeastOfNorm);
  if (parts.count <= 1) return Status(endpoint.stages->norm(whole));
  uint32_t largest[kPartsMax];
  GQ_TRY(in_parts(endpoint, endpoint.stages->norm, whole, parts,
                  [&](NormArgs* args, Skip skip, uint32_t part, uint32_t) {
                    args->values = values_at(whole.values, skip.bytes(whole.dtype));
                    args->out = &largest[part];
                  }));
  *static_cast<uint32_t*>(whole.out) = *std::max_element(largest, largest + parts.count);
  return Status();
}

/** A tile for each group of the one order of additions; groups are positions in the call. */
Status sum_of_magnitudes(const Endpoint& endpoint, const NormArgs& whole) {
  const bool alone = endpoint.workers == nullptr || endpoint.workers->thread_count() == 1;
  if (alone || whole.range.value_count < 2 * kNormGroupValues) {
    return Status(endpoint.stages->norm(whole));
  }
  double sums[kPartsMax];
  double total = 0;
  const uint64_t end = whole.range.first_value + whole.range.value_count;
  for (uint64_t first = whole.range.first_value; first < end;) {
    const uint64_t group = first / kNormGroupValues;
    const uint64_t last = std::min(end, (group + kPartsMax) * kNormGroupValues);
    const uint32_t groups = static_cast<uint32_t>(norm_group_count(first, last - first));
    OneError error;
    const auto make = [&](uint32_t part, uint32_t) {
      NormArgs args = whole;
      args.range.first_value = std::max(first, (group + part) * kNormGroupValues);
      args.range.value_count = static_cast<size_t>(
          std::min(last, (group + part + 1) * kNormGroupValues) - args.range.first_value);
      args.values = values_at(whole.values, (args.range.first_value - whole.range.first_value) *
                                                dtype_size_bytes(whole.dtype));
      args.out = &sums[part];
      error.add(endpoint.stages->norm(args));
    };
    endpoint.workers->run(groups, make);
    GQ_TRY(Status(error.get()));
    for (uint32_t part = 0; part < groups; ++part) total += sums[part];
    first = last;
  }
  *static_cast<double*>(whole.out) = total;
  return Status();
}

/** The same where widths are adaptive: the words of a group go with its first block, and norms,
 *  which widths follow from, lie between the scales. */
uint64_t digest_of_group(const DequantizeArgs& args) {
  constexpr uint64_t kPlacesOfGranule = kGranuleBlocks * kWidthMax * kPlaneWords;
  const GroupPlace& place = args.range.group;
  uint64_t first = args.range.first_value;
  uint64_t sum = 0;
  if (place.first_block == 0) {
    sum = digest_of_words(first / kGranuleValues * kPlacesOfGranule, args.words,
                          size_t{place.plane_count} * kPlaneWords);
  }
  const size_t blocks = static_cast<size_t>(adaptive_blocks(args.range.value_count));
  for (size_t b = 0; b < blocks; b += kGranuleBlocks, first += place.stride_values) {
    const size_t count = std::min<size_t>(kGranuleBlocks, blocks - b);
    uint16_t codes[2 * kGranuleBlocks];
    for (size_t k = 0; k < count; ++k) {
      codes[2 * k] = args.scales.blocks[place.first_block + b + k];
      codes[2 * k + 1] = args.norms.blocks[place.first_block + b + k];
    }
    sum += digest_of_scales(first / kAdaptiveBlock * 2, codes, 2 * count);
  }
  return sum;
}

/** Words and scales by their places in the call. */
uint64_t digest_of(const DequantizeArgs& args) {
  const Coding& coding = args.coding;
  if (coding.adaptive()) return digest_of_group(args);
  const uint64_t first = args.range.first_value;
  const size_t value_count = args.range.value_count;
  const uint64_t sum =
      digest_of_words(first / codes_per_word(coding.bits_down), args.words,
                      words_for(coding.bits_down, code_count(coding.rotated, value_count)));
  if (coding.block == 0) return sum;
  return sum + digest_of_scales(first / coding.block, args.scales.blocks,
                                norm_count(coding.block, coding.rotated, value_count));
}

template <typename Stage>
Status in_tiles(const Endpoint& endpoint, Stage stage, const DequantizeArgs& whole) {
  const Coding& coding = whole.coding;
  const Parts parts = parts_of(endpoint, whole.range, coding, kLeastOfCodes);
  if (parts.count <= 1) return Status(stage(whole));
  return in_parts(endpoint, stage, whole, parts,
                  [&](DequantizeArgs* args, Skip skip, uint32_t, uint32_t) {
                    args->words = whole.words + skip.words(coding.bits_down);
                    args->scales = skip.norms(whole.scales, coding.block);
                    args->values =
                        static_cast<unsigned char*>(whole.values) + skip.bytes(whole.dtype);
                  });
}

}  // namespace

Status run_stage(const Endpoint& endpoint, const NormArgs& args) {
  if (args.block > 0) return norms_of_blocks(endpoint, args);
  return args.q == NormOrder::inf ? largest_magnitude(endpoint, args)
                                  : sum_of_magnitudes(endpoint, args);
}

Status run_stage(const Endpoint& endpoint, const QuantizeArgs& whole) {
  const Coding& coding = whole.coding;
  const Parts parts = parts_of(endpoint, whole.range, coding, kLeastOfCodes);
  if (parts.count <= 1) return Status(endpoint.stages->quantize(whole));
  return in_parts(endpoint, endpoint.stages->quantize, whole, parts,
                  [&](QuantizeArgs* args, Skip skip, uint32_t, uint32_t) {
                    args->values = values_at(whole.values, skip.bytes(whole.dtype));
                    args->norms = skip.norms(whole.norms, coding.block);
                    args->words = whole.words + skip.words(coding.bits);
                  });
}

Status run_stage(const Endpoint& endpoint, const ReduceArgs& whole) {
  const Parts parts = parts_of(endpoint, whole.range, whole.coding, kLeastOfReduce);
  if (parts.count <= 1) return Status(endpoint.stages->reduce(whole));
  return in_parts(endpoint, endpoint.stages->reduce, whole, parts,
                  [&](ReduceArgs* args, Skip skip, uint32_t, uint32_t) {
                    args->a = whole.a + skip.words(whole.coding.bits);
                    args->b = whole.b + skip.words(whole.coding.bits);
                  });
}

Status run_stage(const Endpoint& endpoint, const ReduceManyArgs& whole) {
  const Coding& coding = whole.coding;
  const uint32_t operands = whole.weights != nullptr ? whole.weight_count : coding.ranks;
  const Parts parts = parts_of(endpoint, whole.range, coding, kLeastOfCodes);
  if (parts.count <= 1) return Status(endpoint.stages->reduce_many(whole));
  return in_parts(endpoint, endpoint.stages->reduce_many, whole, parts,
                  [&](ReduceManyArgs* args, Skip skip, uint32_t, uint32_t thread) {
                    const uint32_t** words = endpoint.workers->operands(thread);
                    for (uint32_t k = 0; k < operands; ++k) {
                      words[k] = whole.words[k] + skip.words(coding.bits);
                    }
                    args->words = words;
                    if (whole.operand_scales_bytes != 0) {
                      args->operand_scales_bytes +=
                          skip.blocks(coding.block) * sizeof(uint16_t) -
                          skip.words(coding.bits) * sizeof(uint32_t);
                    }
                    args->norms = skip.norms(whole.norms, coding.block);
                    args->out_words = whole.out_words + skip.words(coding.bits_down);
                    if (coding.rescale) {
                      args->out_scales = whole.out_scales + skip.blocks(coding.block);
                    }
                  });
}

Status run_stage(const Endpoint& endpoint, const DequantizeArgs& args) {
  return in_tiles(endpoint, endpoint.stages->dequantize, args);
}

Status run_stage(const Endpoint& endpoint, const DequantizeArgs& args, uint64_t* digest) {
  std::atomic<uint64_t> sum{0};
  const Status status = in_tiles(
      endpoint,
      [&](const DequantizeArgs& tile) {
        const StageError error = endpoint.stages->dequantize(tile);
        sum.fetch_add(digest_of(tile), std::memory_order_relaxed);
        return error;
      },
      args);
  *digest += sum.load(std::memory_order_relaxed);
  return status;
}

}  // namespace gq
