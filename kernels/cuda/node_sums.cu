// Wide sums of the ranks of a node, whose roundings are correlated with those of other nodes.
#include "kernels/cuda/sums/wide_sums.cuh"

namespace gq::cuda {

StageError reduce_many_of_node(const ReduceManyCalls& calls) {
  return WideSums<StrataThresholds>(calls).run();
}

}  // namespace gq::cuda
