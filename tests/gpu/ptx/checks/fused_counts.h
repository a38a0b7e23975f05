// What one rank's fused kernel executes and asks of memory, of each stage that is in it.
#ifndef GQ_TESTS_GPU_PTX_CHECKS_FUSED_COUNTS_H
#define GQ_TESTS_GPU_PTX_CHECKS_FUSED_COUNTS_H

namespace gq::test {

/** Lines as those of other kernels (memory_check.cpp), of 2, 4 and 8 ranks: stage "fused norm n=2"
 *  and so on, and "fused beside n=2": what a block executes once, whatever it has of values. */
void print_fused_counts();

}  // namespace gq::test

#endif
