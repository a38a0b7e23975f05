// The stages of kernels/cuda, as stages.cpp puts them into a table.
#ifndef GQ_KERNELS_CUDA_TABLES_H
#define GQ_KERNELS_CUDA_TABLES_H

#include "kernels/stages.h"

namespace gq::cuda {

gqsgd_status norm(const NormArgs& args);
gqsgd_status merge_norms(const MergeNormsArgs& args);
gqsgd_status quantize(const QuantizeArgs& args);
gqsgd_status reduce(const ReduceArgs& args);
gqsgd_status reduce_many(const ReduceManyArgs& args);
gqsgd_status dequantize(const DequantizeArgs& args);
gqsgd_status count_entries(const CountEntriesArgs& args);
gqsgd_status select(const SelectArgs& args);
gqsgd_status add_sparse(const AddSparseArgs& args);

}  // namespace gq::cuda

#endif
