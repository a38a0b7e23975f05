// Norm stage: the largest magnitude of a range, or a sum in the one order that docs/FORMAT.md
// allows. Norms of blocks are in block_norms.cuh.
#ifndef GQ_KERNELS_CUDA_NORM_CUH
#define GQ_KERNELS_CUDA_NORM_CUH

#include "kernels/codec/norm.h"
#include "kernels/cuda/block_norms.cuh"

namespace gq::cuda {

struct LargestShared {
  uint32_t largest;
};
struct LargestOwn {
  uint32_t largest;
  uint32_t iterations;  ///< of the block
};

/** What ends a search for the largest magnitude: threads, the block, the call. Without running
 *  words blocks raise the result, which was cleared. With them the last block writes it, the one
 *  with which all iterations are counted, and clears them. */
struct LargestEnd : BodyDefaults {
  static constexpr uint32_t kEndIntervals = 2;
  static constexpr bool kShares = true;
  using Shared = LargestShared;
  using Own = LargestOwn;
  using Here = Local<Shared, Own>;

  uint32_t* out = nullptr;
  uint32_t* running = nullptr;
  uint32_t iterations_in_all = 1;

  GQ_HD void begin(Here local) const {
    local.own = {0, 0};
    if (local.thread == 0) local.shared.largest = 0;
  }
  GQ_HD void end(Interval<0>, Here local) const {
    raise_together(&local.shared.largest, local.own.largest);
  }
  GQ_HD void end(Interval<1>, Here local) const {
    if (local.thread != 0) return;
    if (running == nullptr) return raise(out, local.shared.largest);
    raise(running, local.shared.largest);
    if (!counts_all(local.own.iterations)) return;
    *out = taken(running);
    (void)taken(running + 1);
  }

 private:
  /** What other blocks have raised is there for the one that counts the last iteration. */
  GQ_HD bool counts_all(uint32_t iterations) const {
#if defined(__CUDA_ARCH__)
    __threadfence();
    const bool is_last = atomicAdd(running + 1, iterations) + iterations == iterations_in_all;
    __threadfence();
    return is_last;
#else
    return (running[1] += iterations) == iterations_in_all;
#endif
  }
  /** Leaves 0. */
  GQ_HD static uint32_t taken(uint32_t* word) {
#if defined(__CUDA_ARCH__)
    return atomicExch(word, 0);
#else
    const uint32_t was = *word;
    *word = 0;
    return was;
#endif
  }
};

/** A maximum has no order, so that neighbouring threads take neighbouring vectors. Elements before
 *  the first aligned vector and behind the last one are left to the last iteration. */
template <typename Element>
struct Largest : LargestEnd {
  static constexpr uint32_t kVectors = 4;  ///< that a thread has under way
  static constexpr uint32_t kIterationVectors = kVectors * kThreads;
  static constexpr uint32_t kElements = 16 / sizeof(Element);
  const Element* values;
  uint64_t value_count;
  uint64_t head;
  uint64_t vector_count;

  explicit Largest(const NormArgs& args) {
    running = args.running;
    set(piece_of(args));
    iterations_in_all = iterations();
  }

  GQ_HD void set(const Piece& piece) {
    values = static_cast<const Element*>(piece.values);
    value_count = piece.value_count;
    const uint64_t beyond = reinterpret_cast<uintptr_t>(values) % 16;
    const uint64_t missing = beyond == 0 ? 0 : (16 - beyond) / sizeof(Element);
    head = missing < value_count ? missing : value_count;
    vector_count = (value_count - head) / kElements;
    out = static_cast<uint32_t*>(piece.words);
    iteration_count = static_cast<uint32_t>(vector_count / kIterationVectors) + 1;
  }
  uint32_t iterations() const { return iteration_count; }

  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t, Here local) const {
    local.own.iterations += 1;
    if (uint64_t{iteration + 1} * kIterationVectors <= vector_count)
      return run_full(iteration, local);
    for (uint64_t number = uint64_t{iteration} * kIterationVectors + local.thread;
         number < vector_count; number += kThreads) {
      keep_vector(load_vector<4>(values + head + number * kElements), local);
    }
    if (iteration == iteration_count - 1) take_scraps(local);
  }

  /** An iteration in which every thread has all its vectors. */
  GQ_HD void run_full(uint32_t iteration, Here local) const {
    const uint64_t first = uint64_t{iteration} * kIterationVectors + local.thread;
    const Element* const from = values + head + first * kElements;
    Vector<4> vector[kVectors];
    GQ_UNROLL for (uint32_t k = 0; k < kVectors; ++k) {
      vector[k] = load_vector<4>(from + k * kThreads * kElements);
    }
    GQ_UNROLL for (uint32_t k = 0; k < kVectors; ++k) keep_vector(vector[k], local);
  }

 private:
  GQ_HD static void keep_vector(const Vector<4>& vector, Here local) {
    keep_largest_in<Element>(vector, local.own.largest);
  }

  GQ_HD void take_scraps(Here local) const {
    const uint64_t behind = head + vector_count * kElements;
    const uint64_t e = local.thread < head ? local.thread : behind + local.thread - head;
    if (e < value_count) keep_largest(widened(values[e]), local.own.largest);
  }
};

/** The same of rotated values. */
struct LargestRotated : WorkDefaults {
  static constexpr uint32_t kEndIntervals = 2;
  using Shared = LargestShared;
  using Own = LargestOwn;
  using Here = LargestEnd::Here;
  ValueSource source;
  LargestEnd last;

  explicit LargestRotated(const NormArgs& args)
      : WorkDefaults(args.range, true), source(args.values, args.dtype) {
    last.out = static_cast<uint32_t*>(args.out);
    last.running = args.running;
    last.iterations_in_all = iterations();
  }

  GQ_HD void set(const Piece& piece) {
    set_range(piece);
    source.set(piece.values);
    last.out = static_cast<uint32_t*>(piece.words);
  }

  GQ_HD void begin(Here local) const { last.begin(local); }
  GQ_HD void give(const Place& place, Here, float (&value)[kThreadValues]) const {
    source.load(place.offset, place.value_count, value);
  }
  GQ_HD void open(uint32_t, Here local) const { local.own.iterations += 1; }
  GQ_HD void take(const Place&, Here local, const float (&value)[kThreadValues]) const {
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      keep_largest(value[e], local.own.largest);
    }
  }
  template <uint32_t kInterval>
  GQ_HD void end(Interval<kInterval> interval, Here local) const {
    last.end(interval, local);
  }
};

/** The sum of each group of values, in the order of the format: a thread has 16 of its lanes, and
 *  an iteration is a group of the call, which begins where the range may not. */
template <NormOrder kOrder>
struct GroupSums : WorkDefaults {
  static constexpr uint32_t kThreads = kNormLanes / kThreadValues;
  static constexpr uint32_t kBlocksAtOnce = 8;
  static constexpr uint32_t kHalvings = 10;
  static constexpr uint32_t kCloseIntervals = 2 + kHalvings;
  static constexpr bool kShares = true;
  static constexpr bool kIterationBarriers = true;
  static_assert(kNormLanes >> kHalvings == 1);
  struct Shared {
    double lane[kNormLanes];
  };
  struct Own {
    double lane[kThreadValues];
  };
  using Here = Local<Shared, Own>;
  ValueSource source;
  double* group_sums;

  explicit GroupSums(const NormArgs& args)
      : WorkDefaults(args.range, args.rotated),
        source(args.values, args.dtype),
        group_sums(static_cast<double*>(args.workspace)) {
    part_count = kNormGroupValues / kNormLanes;
    iteration_count = static_cast<uint32_t>(norm_group_count(first_value, code_count));
  }

  /** Values before the range are none. */
  GQ_HD Place place(uint32_t iteration, uint32_t part, uint32_t thread) const {
    const uint64_t group = first_value / kNormGroupValues + iteration;
    const uint64_t lane = thread * kThreadValues;
    const uint64_t value = group * kNormGroupValues + part * uint64_t{kNormLanes} + lane;
    return place_at(iteration, part, value - first_value);  // below 0: beyond every end
  }

  GQ_HD void open(uint32_t, Here local) const {
    GQ_UNROLL for (uint32_t k = 0; k < kThreadValues; ++k) local.own.lane[k] = 0;
  }
  GQ_HD void give(const Place& place, Here, float (&value)[kThreadValues]) const {
    source.load(place.offset, place.value_count, value);
  }
  /** Zeros beyond the last value change no sum. */
  GQ_HD void take(const Place&, Here local, const float (&value)[kThreadValues]) const {
    GQ_UNROLL for (uint32_t k = 0; k < kThreadValues; ++k) {
      local.own.lane[k] += norm_term(kOrder, value[k]);
    }
  }
  GQ_HD void close(Interval<0>, uint32_t, Here local) const {
    GQ_UNROLL for (uint32_t k = 0; k < kThreadValues; ++k) {
      local.shared.lane[local.thread * kThreadValues + k] = local.own.lane[k];
    }
  }
  template <uint32_t kInterval>
  GQ_HD void close(Interval<kInterval>, uint32_t iteration, Here local) const {
    if constexpr (kInterval <= kHalvings) {
      constexpr uint32_t kHalf = kNormLanes >> kInterval;
      for (uint32_t k = local.thread; k < kHalf; k += kThreads) {
        local.shared.lane[k] += local.shared.lane[k + kHalf];
      }
    } else if (local.thread == 0) {
      group_sums[iteration] = local.shared.lane[0];
    }
  }
};

/** Adds the groups in order; a number is the norm of a group of one rank, for which p adds nothing.
 */
struct TotalOfGroups : BodyDefaults {
  const double* group_sums;
  uint64_t group_count;
  void* out;
  NormOrder order;
  bool as_number;

  template <typename Here>
  GQ_HD void run(Interval<0>, uint32_t, uint32_t, Here local) const {
    if (local.thread != 0) return;
    double total = 0;
    for (uint64_t group = 0; group < group_count; ++group) total += group_sums[group];
    if (as_number) {
      GlobalNorm norm(order, NormOrder::inf);
      norm.merge(norm_words(double_bits(total)));
      *static_cast<float*>(out) = norm.result();
    } else {
      *static_cast<double*>(out) = total;
    }
  }
};

template <NormOrder kOrder, typename Launcher>
StageError norm_sum_on(Launcher& launch, const NormArgs& args) {
  const GroupSums<kOrder> sums(args);
  const StageError error = start<false>(launch, sums, args.rotated, args.random);
  if (failed(error)) return error;
  return launch.run(
      TotalOfGroups{{}, sums.group_sums, sums.iteration_count, args.out, kOrder, args.as_numbers});
}

/** Results that follow each other are cleared at once. */
template <typename Launcher>
StageError clear_results(Launcher& launch, const NormCalls& calls) {
  for (size_t first = 0, next = 0; first < calls.count; first = next) {
    auto* const begin = static_cast<unsigned char*>(calls.args[first].out);
    auto* end = begin + sizeof(uint32_t);
    for (next = first + 1; next < calls.count; ++next) {
      auto* const out = static_cast<unsigned char*>(calls.args[next].out);
      if (out < end || out > end + sizeof(NormWords)) break;
      end = out + sizeof(uint32_t);
    }
    const StageError error = launch.clear(begin, static_cast<size_t>(end - begin));
    if (failed(error)) return error;
  }
  return {};
}

template <typename Launcher>
StageError largest_on(Launcher& launch, const NormCalls& calls) {
  const NormArgs& args = calls.first();
  const bool is_empty = calls.count == 1 && args.range.value_count == 0;
  if (args.running == nullptr || is_empty) {
    const StageError error = clear_results(launch, calls);
    if (failed(error) || is_empty) return error;
  }
  if (args.rotated) return start<false>(launch, calls, LargestRotated(args), true);
  if (args.dtype == GQSGD_FLOAT32) return calls.run(launch, Largest<float>(args));
  if (args.dtype == GQSGD_BFLOAT16) return calls.run(launch, Largest<Bfloat>(args));
  if (args.dtype == GQSGD_FLOAT16) return calls.run(launch, Largest<Half>(args));
  return calls.run(launch, Largest<double>(args));
}

/** Sums of calls follow each other, because they share their workspace. */
template <NormOrder kOrder, typename Launcher>
StageError norm_sums_on(Launcher& launch, const NormCalls& calls) {
  for (size_t k = 0; k < calls.count; ++k) {
    const StageError error = norm_sum_on<kOrder>(launch, calls.args[k]);
    if (failed(error)) return error;
  }
  return {};
}

template <typename Launcher>
StageError norm_on(Launcher launch, const NormArgs* args, size_t count, void* table) {
  const NormCalls calls{args, count, table, piece_of};
  if (args->block > 0) return block_norms_on(launch, calls);
  if (args->q == NormOrder::inf) return largest_on(launch, calls);
  if (args->q == NormOrder::one) return norm_sums_on<NormOrder::one>(launch, calls);
  return norm_sums_on<NormOrder::two>(launch, calls);
}

}  // namespace gq::cuda

#endif
