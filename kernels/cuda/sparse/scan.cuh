// Sums before each piece, in the order of pieces: over the threads of a block, and over a row of
// items in memory, which one block goes through. Sums need not be of numbers: `plus` joins two
// neighbours, and an item that is all zeros is nothing.
#ifndef GQ_KERNELS_CUDA_SPARSE_SCAN_CUH
#define GQ_KERNELS_CUDA_SPARSE_SCAN_CUH

#include "kernels/cuda/launch/body.cuh"

namespace gq::cuda {

GQ_HD uint64_t plus(uint64_t a, uint64_t b) { return a + b; }

/** What the 256 threads of a block have, and sums of it. Each step of it comes after a barrier. */
template <typename ItemType>
struct BlockSums {
  using Item = ItemType;
  static constexpr uint32_t kThreads = BodyDefaults::kThreads;
  static constexpr uint32_t kRow = 16;
  static_assert(kRow * kRow == kThreads);
  Item item[kThreads];
  Item row[kRow];
  Item all;

  GQ_HD void set(uint32_t thread, const Item& value) { item[thread] = value; }
  /** Step 1. */
  GQ_HD void add_rows(uint32_t thread) {
    if (thread >= kRow) return;
    Item sum{};
    for (uint32_t k = 0; k < kRow; ++k) sum = plus(sum, item[thread * kRow + k]);
    row[thread] = sum;
  }
  /** Step 2: rows become the sums before them. */
  GQ_HD void add_all(uint32_t thread) {
    if (thread != 0) return;
    Item sum{};
    for (uint32_t k = 0; k < kRow; ++k) {
      const Item next = plus(sum, row[k]);
      row[k] = sum;
      sum = next;
    }
    all = sum;
  }
  /** Step 3: of the threads before this one. */
  GQ_HD Item before(uint32_t thread) const {
    Item sum = row[thread / kRow];
    for (uint32_t k = thread / kRow * kRow; k < thread; ++k) sum = plus(sum, item[k]);
    return sum;
  }
};

/** Each item of a row becomes what `Rows` makes of the sum before it. Rows has Item; count(), the
 *  items of a row; first(row), what comes before all of them; at(row, k), whose Item is found
 *  there; put(row, k, sum); end(row, sum). An iteration is a row. */
template <typename Rows>
struct ScanRows : BodyDefaults {
  using Item = typename Rows::Item;
  static constexpr uint32_t kIntervals = 4;
  static constexpr bool kIterationBarriers = true;
  struct Shared {
    BlockSums<Item> sums;
    Item first;
  };
  struct Own {};
  using Here = Local<Shared, Own>;
  Rows rows;
  uint64_t each;  ///< items of a thread

  ScanRows(const Rows& rows, uint32_t row_count) : rows(rows) {
    iteration_count = row_count;
    each = (rows.count() + kThreads - 1) / kThreads;
  }

  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t, Here local) const {
    Item sum{};
    if (local.thread == 0) sum = local.shared.first = rows.first(iteration);
    for (uint64_t k = begin_of(local.thread); k < begin_of(local.thread + 1); ++k) {
      sum = plus(sum, rows.at(iteration, k));
    }
    local.shared.sums.set(local.thread, sum);
  }
  GQ_HD void run(Interval<1>, uint32_t, uint32_t, Here local) const {
    local.shared.sums.add_rows(local.thread);
  }
  GQ_HD void run(Interval<2>, uint32_t, uint32_t, Here local) const {
    local.shared.sums.add_all(local.thread);
  }
  GQ_HD void run(Interval<3>, uint32_t iteration, uint32_t, Here local) const {
    Item sum = local.thread == 0 ? local.shared.first : local.shared.sums.before(local.thread);
    for (uint64_t k = begin_of(local.thread); k < begin_of(local.thread + 1); ++k) {
      const Item next = plus(sum, rows.at(iteration, k));
      rows.put(iteration, k, sum);
      sum = next;
    }
    if (local.thread == kThreads - 1) rows.end(iteration, sum);
  }

 private:
  GQ_HD uint64_t begin_of(uint32_t thread) const {
    const uint64_t begin = thread * each;
    return begin < rows.count() ? begin : rows.count();
  }
};

}  // namespace gq::cuda

#endif
