// The stages of the real device under test, called like those of a CPU: buffers of the host go to
// the device and come back.
#include <algorithm>
#include <stdexcept>

#include "kernels/codec/norm.h"
#include "kernels/sparse_workspace.h"
#include "tests/gpu/stages/image.h"
#include "tests/gpu/stages/batch_pieces.h"
#include "tests/gpu/stages/stages_under_test.h"

namespace gq::test {
namespace {

template <typename Enqueue>
StageError run(Image& image, Enqueue enqueue) {
  StageError error;
  image.run([&](void* stream) { error = enqueue(stream); });
  return error;
}

/** Calls as one batch. */
template <typename Args, typename Enqueue>
StageError enqueue(Image& image, std::vector<Args> calls, Enqueue enqueue) {
  return run(image, [&](void* stream) {
    for (Args& call : calls) call.stream = stream;
    return enqueue(calls.data(), calls.size());
  });
}

/** Step and index that the stage reads from memory. */
template <typename Args>
void bring_step(Image& image, Args* args) {
  args->random.step_at = image.input(args->random.step_at, 2 * sizeof(uint32_t));
}

size_t code_bytes(const Coding& coding, const Range& range, uint32_t bits) {
  return words_for(bits, code_count(coding.rotated, range.value_count)) * 4;
}

size_t block_bytes(const Coding& coding, const Range& range) {
  return norm_count(coding.block, coding.rotated, range.value_count) * 2;
}

NormView norms_in(Image& image, const NormView& norms, const Coding& coding, const Range& range) {
  NormView view;
  view.one = image.input(norms.one, sizeof(float));
  view.blocks = image.input(norms.blocks, block_bytes(coding, range));
  return view;
}

/** A table, and what it has. */
struct Table : BatchTable {
  std::vector<unsigned char> pieces;

  Table(Image& image, size_t piece_count) {
    if (!batch_mode.has_table) return;
    on_device = image.scratch(piece_count * kBatchPieceBytes);
    if (!batch_mode.keeps_table) return;
    pieces.assign(piece_count * kBatchPieceBytes, kUnwrittenByte);
    written = pieces.data();
  }

  /** Stages whose results do not depend on what was there run again by a table that is kept. */
  template <typename Stage>
  StageError run(Stage stage) const {
    const StageError error = stage(*this);
    return failed(error) || written == nullptr ? error : stage(*this);
  }
};

StageError norm(const NormArgs& args) {
  Image image;
  NormArgs there = args;
  bring_step(image, &there);
  const uint64_t codes = code_count(args.rotated, args.range.value_count);
  const uint64_t blocks = norm_count(args.block, args.rotated, args.range.value_count);
  const bool is_one = args.block == 0 && args.q == NormOrder::inf;
  std::vector<uint32_t> outs(batch_mode.piece_count, 0xCACACACA), running(2);
  there.values = image.input(args.values, args.range.value_count * dtype_size_bytes(args.dtype));
  there.out = image.output(is_one ? outs.data() : args.out,
                           is_one ? 4 * outs.size() : args.block > 0 ? 2 * blocks : 8);
  there.workspace = image.scratch(8 * norm_group_count(args.range.first_value, codes));
  if (is_one && batch_mode.running_norm) there.running = image.output(running.data(), 8);
  const bool is_sum = args.block == 0 && !is_one;
  const auto pieces = is_sum ? std::vector<NormArgs>{there}
                             : cut(there, static_cast<uint32_t*>(there.out));
  const Table table(image, pieces.size());
  const StageError error = enqueue(image, pieces, [&](const NormArgs* all, size_t count) {
    return cuda_batch_stages().norm(all, count, table);
  });
  if (failed(error) || !is_one) return error;
  outs.resize(pieces.size());
  *static_cast<uint32_t*>(args.out) = *std::max_element(outs.begin(), outs.end());
  if (running[0] + running[1] != 0) throw std::runtime_error("running words are left");
  return error;
}

StageError merge_norms(const MergeNormsArgs& args) {
  Image image;
  const auto operands = merge_operands(args);
  std::vector<MergeNormsArgs> merges(operands.size(), args);
  for (size_t k = 0; k < operands.size(); ++k) {
    const uint16_t* const a = operands.size() > 1 ? operands[k].data() : args.a;
    merges[k].a = image.input(a, 2 * args.norm_count);
    merges[k].b = image.output(args.b, 2 * args.norm_count);
  }
  return enqueue(image, merges, cuda_batch_stages().merge_norms);
}

StageError quantize(const QuantizeArgs& args) {
  Image image;
  QuantizeArgs there = args;
  bring_step(image, &there);
  there.values = image.input(args.values, args.range.value_count * dtype_size_bytes(args.dtype));
  there.norms = norms_in(image, args.norms, args.coding, args.range);
  there.words = image.output(args.words, code_bytes(args.coding, args.range, args.coding.bits));
  const auto pieces = cut(there);
  const Table table(image, pieces.size());
  return enqueue(image, pieces, [&](const QuantizeArgs* all, size_t count) {
    return table.run([&](const BatchTable& kept) {
      return cuda_batch_stages().quantize(all, count, kept);
    });
  });
}

StageError reduce(const ReduceArgs& args) {
  Image image;
  ReduceArgs there = args;
  bring_step(image, &there);
  const size_t size_bytes = code_bytes(args.coding, args.range, args.coding.bits);
  there.a = image.input(args.a, size_bytes);
  there.b = image.output(args.b, size_bytes);
  return run(image, [&](void* stream) {
    there.stream = stream;
    return cuda_stages().reduce(there);
  });
}

StageError reduce_many(const ReduceManyArgs& args) {
  Image image;
  ReduceManyArgs there = args;
  bring_step(image, &there);
  const Coding& coding = args.coding;
  std::vector<const uint32_t*> list;
  for (uint32_t k = 0; k < operand_count(args); ++k) {
    const size_t words_bytes = code_bytes(coding, args.range, coding.bits);
    const size_t scales = norm_count(coding.block, coding.rotated, args.range.value_count);
    const size_t all_bytes = args.operand_scales_bytes + scales * sizeof(uint16_t);
    list.push_back(
        image.input(args.words[k], args.operand_scales_bytes != 0 ? all_bytes : words_bytes));
  }
  ReduceManyArgs listed = there;
  listed.words = list.data();
  const std::vector<const uint32_t*> lists = operand_lists(listed);
  there.words = image.input(lists.data(), lists.size() * sizeof lists[0]);
  const std::vector<uint64_t> weights(args.weights, args.weights + args.weight_count);
  there.device_weights = image.input(weights.data(), weights.size() * sizeof weights[0]);
  there.norms = norms_in(image, args.norms, coding, args.range);
  there.out_words = image.output(args.out_words, code_bytes(coding, args.range, coding.bits_down));
  if (coding.rescale) {
    there.out_scales = image.output(args.out_scales, block_bytes(coding, args.range));
  }
  const auto pieces = cut(there, there.words, lists.data());
  const Table table(image, pieces.size());
  return enqueue(image, pieces, [&](const ReduceManyArgs* all, size_t count) {
    return cuda_batch_stages().reduce_many(all, count, table);
  });
}

StageError dequantize(const DequantizeArgs& args) {
  Image image;
  DequantizeArgs there = args;
  bring_step(image, &there);
  there.words = image.input(args.words, code_bytes(args.coding, args.range, args.coding.bits_down));
  there.scales = norms_in(image, args.scales, args.coding, args.range);
  there.values = image.output(args.values, args.range.value_count * dtype_size_bytes(args.dtype));
  const auto pieces = cut(there);
  const Table table(image, pieces.size());
  return enqueue(image, pieces, [&](const DequantizeArgs* all, size_t count) {
    return table.run([&](const BatchTable& kept) {
      return cuda_batch_stages().dequantize(all, count, kept);
    });
  });
}

StageError count_entries(const CountEntriesArgs& args) {
  Image image;
  CountEntriesArgs there = args;
  there.words = image.input(args.words, code_bytes(args.coding, args.range, args.coding.bits));
  there.skipped = image.output(args.skipped, sizeof *args.skipped);
  there.entry_count = image.output(args.entry_count, sizeof *args.entry_count);
  const size_t room_bytes = select_workspace_bytes(args.range.value_count);
  there.workspace = args.workspace != nullptr ? image.output(args.workspace, room_bytes)
                                              : image.scratch(room_bytes);
  return run(image, [&](void* stream) {
    there.stream = stream;
    return cuda_stages().count_entries(there);
  });
}

/** Counts first: as many entries come back. */
StageError select(const SelectArgs& args) {
  uint64_t skipped = *args.skipped, entry_end = *args.entry_count;
  const StageError counted =
      count_entries({args.coding, args.range, args.words, &skipped, &entry_end, nullptr});
  if (failed(counted)) return counted;
  Image image;
  SelectArgs there = args;
  there.words = image.input(args.words, code_bytes(args.coding, args.range, args.coding.bits));
  there.entries = image.output(args.entries, entry_end * sizeof(uint32_t));
  there.skipped = image.output(args.skipped, sizeof *args.skipped);
  there.entry_count = image.output(args.entry_count, sizeof *args.entry_count);
  const size_t room_bytes = select_workspace_bytes(args.range.value_count);
  there.workspace =
      args.counted ? image.input(args.workspace, room_bytes) : image.scratch(room_bytes);
  return run(image, [&](void* stream) {
    there.stream = stream;
    return cuda_stages().select(there);
  });
}

StageError add_sparse(const AddSparseArgs& args) {
  Image image;
  AddSparseArgs there = args;
  std::vector<RankEntries> ranks(args.rank_entries, args.rank_entries + args.coding.ranks);
  for (RankEntries& rank : ranks) {
    there.entries_max = std::max(there.entries_max, rank.entry_count);
    rank.entries = image.input(rank.entries, rank.entry_count * sizeof(uint32_t));
  }
  there.rank_entries = image.output(ranks.data(), ranks.size() * sizeof ranks[0]);
  there.values = image.output(args.values, args.range.value_count * dtype_size_bytes(args.dtype));
  const AddSparseWorkspace workspace(args.coding.ranks, there.entries_max, args.range.value_count);
  there.workspace = image.scratch(workspace.size_bytes());
  const StageError error = run(image, [&](void* stream) {
    there.stream = stream;
    return cuda_stages().add_sparse(there);
  });
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    args.rank_entries[rank].next_entry = ranks[rank].next_entry;
    args.rank_entries[rank].next_value = ranks[rank].next_value;
  }
  return error;
}

}  // namespace

const Stages stages_under_test = {
    "cuda",      norm,       merge_norms,   quantize, reduce,
    reduce_many, dequantize, count_entries, select,   add_sparse,
};

}  // namespace gq::test
