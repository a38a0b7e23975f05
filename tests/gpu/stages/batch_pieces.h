// A stage's range as several pieces of a batch, which together are to give the bits of the whole.
#ifndef GQ_TESTS_GPU_STAGES_BATCH_PIECES_H
#define GQ_TESTS_GPU_STAGES_BATCH_PIECES_H

#include <algorithm>
#include <vector>

#include "kernels/codec/rotate.h"
#include "kernels/stages.h"

namespace gq::test {

/** How the stages under test are called from now on. */
struct BatchMode {
  size_t piece_count = 1;     ///< at most, as far as a range has places to cut it
  bool has_table = true;      ///< else as many pieces at a time as are arguments
  bool keeps_table = false;   ///< and need not write it twice
  bool operands_in_memory = false;  ///< else, up to kOperandArgumentsMax, as arguments
  bool running_norm = false;  ///< one norm by running words, where it is in one piece
};
inline BatchMode batch_mode;

/** Pieces begin where segments of a call may. `move(piece, values)` moves its buffers on. */
template <typename Args, typename Move>
std::vector<Args> cut(const Args& args, bool rotated, uint32_t block, Move move) {
  const uint64_t unit = std::max<uint64_t>(rotated ? kRotationValues : kValueAlignment, block);
  const uint64_t value_count = args.range.value_count, units = (value_count + unit - 1) / unit;
  const uint64_t pieces = std::clamp<uint64_t>(units, 1, batch_mode.piece_count);
  std::vector<Args> all;
  for (uint64_t k = 0; k < pieces; ++k) {
    const uint64_t first = units * k / pieces * unit;
    const uint64_t end = std::min(units * (k + 1) / pieces * unit, value_count);
    all.push_back(args);
    all.back().range = {args.range.first_value + first, static_cast<size_t>(end - first)};
    move(all.back(), first);
  }
  return all;
}

template <typename Element>
void advance(Element*& place, uint64_t elements) {
  if (place != nullptr) place += elements;
}
inline void advance_values(const void*& values, int32_t dtype, uint64_t count) {
  values = static_cast<const char*>(values) + count * dtype_size_bytes(dtype);
}
inline void advance_norms(NormView& norms, uint32_t block, uint64_t values) {
  if (block > 0) advance(norms.blocks, values / block);
}
inline void advance_words(const uint32_t*& words, uint32_t bits, uint64_t values) {
  words += values * bits / 32;
}

inline std::vector<QuantizeArgs> cut(const QuantizeArgs& args) {
  const Coding& coding = args.coding;
  return cut(args, coding.rotated, coding.block, [&](QuantizeArgs& piece, uint64_t first) {
    advance_values(piece.values, piece.dtype, first);
    advance_norms(piece.norms, coding.block, first);
    piece.words += first * coding.bits / 32;
  });
}

inline std::vector<DequantizeArgs> cut(const DequantizeArgs& args) {
  const Coding& coding = args.coding;
  return cut(args, coding.rotated, coding.block, [&](DequantizeArgs& piece, uint64_t first) {
    const void* values = piece.values;
    advance_values(values, piece.dtype, first);
    piece.values = const_cast<void*>(values);
    advance_norms(piece.scales, coding.block, first);
    advance_words(piece.words, coding.bits_down, first);
  });
}

inline uint32_t operand_count(const ReduceManyArgs& args) {
  return args.weights != nullptr ? args.weight_count : args.coding.ranks;
}

/** The arrays of operands of all pieces, one after the other, behind those of the whole. */
inline std::vector<const uint32_t*> operand_lists(const ReduceManyArgs& args) {
  const uint32_t operands = operand_count(args);
  std::vector<const uint32_t*> lists;
  cut(args, args.coding.rotated, args.coding.block, [&](ReduceManyArgs&, uint64_t first) {
    for (uint32_t k = 0; k < operands; ++k) {
      lists.push_back(args.words[k] + first * args.coding.bits / 32);
    }
  });
  return lists;
}

/** words, operands: where the stage and its host read what operand_lists() made. */
inline std::vector<ReduceManyArgs> cut(const ReduceManyArgs& args, const uint32_t* const* words,
                                       const uint32_t* const* operands) {
  const Coding& coding = args.coding;
  return cut(args, coding.rotated, coding.block, [&](ReduceManyArgs& piece, uint64_t first) {
    piece.words = words;
    piece.operands = batch_mode.operands_in_memory ? nullptr : operands;
    words += operand_count(args);
    operands += operand_count(args);
    advance_norms(piece.norms, coding.block, first);
    piece.out_words += first * coding.bits_down / 32;
    if (piece.operand_scales_bytes != 0) {
      piece.operand_scales_bytes += first / coding.block * sizeof(uint16_t) -
                                    first * coding.bits / 8;
    }
    if (coding.block > 0) advance(piece.out_scales, first / coding.block);
  });
}

/** outs: one for each piece, where there is one norm; their largest is the norm of the whole. */
inline std::vector<NormArgs> cut(const NormArgs& args, uint32_t* outs) {
  return cut(args, args.rotated, args.block, [&](NormArgs& piece, uint64_t first) {
    advance_values(piece.values, piece.dtype, first);
    piece.out = args.block > 0
                    ? static_cast<void*>(static_cast<uint16_t*>(args.out) + first / args.block)
                    : outs++;
  });
}

/** Operands that are `a` together, each with a part of its norms. */
inline std::vector<std::vector<uint16_t>> merge_operands(const MergeNormsArgs& args) {
  std::vector<std::vector<uint16_t>> operands(batch_mode.piece_count,
                                              std::vector<uint16_t>(args.norm_count + 8));
  for (size_t k = 0; k < args.norm_count; ++k) {
    operands[(k + k / 8) % operands.size()][k] = args.a[k];
  }
  return operands;
}

}  // namespace gq::test

#endif
