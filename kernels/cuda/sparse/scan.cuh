// Sums before each item of a row in memory, in the order of items, by one block of threads. Sums
// need not be of numbers: `plus` joins two neighbours, and an item that is all zeros is nothing.
#ifndef GQ_KERNELS_CUDA_SPARSE_SCAN_CUH
#define GQ_KERNELS_CUDA_SPARSE_SCAN_CUH

#include <cub/block/block_scan.cuh>

#include "kernels/cuda/launch/launch.cuh"

namespace gq::cuda {

GQ_DEVICE uint64_t plus(uint64_t a, uint64_t b) { return a + b; }

/** The same for CUB. */
struct Plus {
  template <typename Item>
  GQ_DEVICE Item operator()(const Item& a, const Item& b) const {
    return plus(a, b);
  }
};

/** Each item of a row becomes the sum before it. Rows has Item; count(), the items of a row;
 *  items(row), where they are; first(row), what comes before all of them; end(row, sum). A block
 *  has a row. */
template <typename Rows>
__global__ void __launch_bounds__(kBlockThreads, 3)
    scan_rows_kernel(const __grid_constant__ Rows rows) {
  using Item = typename Rows::Item;
  using Scan = cub::BlockScan<Item, kBlockThreads>;
  __shared__ typename Scan::TempStorage storage;
  const uint32_t row = blockIdx.x;
  const uint64_t count = rows.count(), each = (count + kBlockThreads - 1) / kBlockThreads;
  const uint64_t begin = threadIdx.x * each < count ? threadIdx.x * each : count;
  const uint64_t end = begin + each < count ? begin + each : count;
  Item* const item = rows.items(row);
  Item own{}, sum;
  for (uint64_t k = begin; k < end; ++k) own = plus(own, item[k]);
  Scan(storage).ExclusiveScan(own, sum, rows.first(row), Plus());
  for (uint64_t k = begin; k < end; ++k) {
    const Item next = plus(sum, item[k]);
    item[k] = sum;
    sum = next;
  }
  __syncthreads();  // all have read what comes first
  if (threadIdx.x == kBlockThreads - 1) rows.end(row, sum);
}

}  // namespace gq::cuda

#endif
