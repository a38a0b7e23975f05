// The stages of kernels/cuda, as stages.cpp puts them into a table.
#ifndef GQ_KERNELS_CUDA_TABLES_H
#define GQ_KERNELS_CUDA_TABLES_H

#include "kernels/numbers.h"

namespace gq::cuda {

StageError norm(const NormArgs* args, size_t count, const BatchTable& table);
StageError merge_norms(const MergeNormsArgs* args, size_t count);
StageError quantize(const QuantizeArgs* args, size_t count, const BatchTable& table);
StageError reduce(const ReduceArgs& args);
StageError reduce_many(const ReduceManyArgs* args, size_t count, const BatchTable& table);
StageError dequantize(const DequantizeArgs* args, size_t count, const BatchTable& table);

// The same of ranges that are whole groups (adaptive/), where widths are adaptive.
StageError norm_of_groups(const NormArgs* args, size_t count, const BatchTable& table);
StageError quantize_groups(const QuantizeArgs* args, size_t count, const BatchTable& table);
StageError reduce_groups(const ReduceManyArgs* args, size_t count, const BatchTable& table);
StageError dequantize_groups(const DequantizeArgs* args, size_t count, const BatchTable& table);
// The same of Rice codes (rice/): all ranges are whole groups.
StageError quantize_rice(const QuantizeArgs* args, size_t count, const BatchTable& table);
StageError reduce_rice(const ReduceManyArgs* args, size_t count, const BatchTable& table);
StageError dequantize_rice(const DequantizeArgs* args, size_t count, const BatchTable& table);

StageError write_segments(const WriteSegmentsArgs& args);
StageError write_widths(const WriteWidthsArgs& args);

StageError count_entries(const CountEntriesArgs& args);
StageError select(const SelectArgs& args);
StageError add_sparse(const AddSparseArgs& args);

}  // namespace gq::cuda

#endif
