// Work on float32 values, sixteen per thread: it gives them, from memory or from codes, and takes
// them, plain or rotated in between (docs/FORMAT.md, section 12).
#ifndef GQ_KERNELS_CUDA_LAUNCH_WORK_CUH
#define GQ_KERNELS_CUDA_LAUNCH_WORK_CUH

#include "kernels/codec/block_norm.h"
#include "kernels/codec/rotate.h"
#include "kernels/cuda/launch/body.cuh"
#include "kernels/cuda/launch/pieces.cuh"
#include "kernels/cuda/values.cuh"
#include "kernels/stages.h"

namespace gq::cuda {

/** A thread's values in an iteration and part. */
struct Place {
  uint32_t iteration;
  uint32_t part;
  uint64_t offset;       ///< of the first one in the buffers
  uint32_t value_count;  ///< of a caller's values, at most kThreadValues
  uint32_t code_count;   ///< with those that a rotation was filled up with
  uint64_t base;         ///< all threads' part of the offset
  uint32_t within;       ///< the thread's own
};

/** A range as its threads divide it; Work overrides what it does otherwise. */
struct WorkDefaults : BodyDefaults {
  uint64_t first_value = 0;
  uint64_t value_count = 0;
  uint64_t code_count = 0;
  bool is_rotated = false;

  WorkDefaults() = default;
  WorkDefaults(const Range& range, bool rotated)
      : first_value(range.first_value),
        value_count(range.value_count),
        code_count(gq::code_count(rotated, range.value_count)),
        is_rotated(rotated) {
    set_parts(1);
  }

  /** part_count parts are an iteration. */
  void set_parts(uint32_t parts) {
    part_count = parts;
    iteration_count = iterations_of(parts);
  }
  uint32_t iterations() const { return iterations_of(part_count); }

  GQ_HD void set_range(const Piece& piece) {
    first_value = piece.first_value;
    value_count = piece.value_count;
    code_count = gq::code_count(is_rotated, piece.value_count);
  }

  GQ_HD Place place_at(uint32_t iteration, uint32_t part, uint64_t base,
                       uint32_t within = 0) const {
    const uint64_t offset = base + within;
    return {
        iteration, part,  offset, count_here(offset, value_count), count_here(offset, code_count),
        base,      within};
  }

  GQ_HD Place place(uint32_t iteration, uint32_t part, uint32_t thread) const {
    const uint64_t parts = uint64_t{iteration} * part_count + part;
    return place_at(iteration, part, parts * (kThreads * kThreadValues), thread * kThreadValues);
  }

 protected:
  uint32_t iterations_of(uint32_t parts) const {
    const uint64_t iteration_values = uint64_t{parts} * kThreads * kThreadValues;
    return static_cast<uint32_t>((code_count + iteration_values - 1) / iteration_values);
  }
};

template <typename Work>
struct Plain : Work {
  explicit Plain(const Work& work) : Work(work) {}

  template <typename Here>
  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t part, Here local) const {
    const Place place = Work::place(iteration, part, local.thread);
    if (place.code_count == 0) return;
    float value[kThreadValues];
    Work::give(place, local, value);
    Work::take(place, local, value);
  }
};

/** Where values of a rotation lie in shared memory: a gap after every 16, so that neither steps of
 *  1 nor of 16 values meet in one bank. */
GQ_HD uint32_t padded(uint32_t value) { return value + value / kThreadValues; }

/** The length of the rotation that has value `position`, where `codes` (a multiple of 128) are left
 *  from position 0 on. */
GQ_HD uint32_t rotation_length_at(uint32_t position, uint32_t codes) {
  uint32_t first = 0, length = rotation_length(codes);
  while (position >= first + length && first + length < codes) {
    first += length;
    length = rotation_length(codes - first);
  }
  return length;
}

/** Distances 1..8 of a rotation are among a thread's own values, 16..128 among values 16 apart and
 *  the last two among values 256 apart: 64 threads exchange 1024 values between them. */
template <typename Work, bool kBack>
struct Rotated : GridDefaults {
  static constexpr uint32_t kThreads = Work::kThreads;
  static constexpr uint32_t kBlocksAtOnce = 512 / kThreads;
  static constexpr uint32_t kIntervals = 4;
  static constexpr uint32_t kCloseIntervals = Work::kCloseIntervals;
  static constexpr uint32_t kEndIntervals = Work::kEndIntervals;
  static constexpr bool kShares = true;
  static constexpr bool kIterationBarriers = true;
  static constexpr uint32_t kRotationThreads = kRotationValues / kThreadValues;
  static constexpr uint32_t kStride = 256;

  struct Shared {
    float value[kThreads / kRotationThreads][kRotationValues + kRotationThreads];
    typename Work::Shared work;
  };
  using Own = typename Work::Own;
  using WorkHere = Local<typename Work::Shared, Own>;
  using Here = Local<Shared, Own>;

  Work work;
  KeyedStream signs;
  uint32_t iteration_count = work.iteration_count;
  uint32_t part_count = work.part_count;

  Rotated(const Work& work, const KeyedStream& signs) : work(work), signs(signs) {}

  GQ_HD void set(const Piece& piece) { work.set(piece); }
  uint32_t iterations() const { return work.iterations(); }

  GQ_HD void begin(Here local) const { work.begin(of_work(local)); }
  GQ_HD void open(uint32_t iteration, Here local) const { work.open(iteration, of_work(local)); }
  template <uint32_t kInterval>
  GQ_HD void close(Interval<kInterval> interval, uint32_t iteration, Here local) const {
    work.close(interval, iteration, of_work(local));
  }
  template <uint32_t kInterval>
  GQ_HD void end(Interval<kInterval> interval, Here local) const {
    work.end(interval, of_work(local));
  }

  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t part, Here local) const {
    const Place place = work.place(iteration, part, local.thread);
    float value[kThreadValues];
    work.give(place, of_work(local), value);
    if constexpr (!kBack) {
      const uint32_t length = length_at(place, local.thread, own_first(local));
      const uint32_t word = sign_word(place.offset);
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        value[e] = rotation_in(value[e], rotation_sign(word, sign_bit(place.offset) + e), length);
      }
    }
    hadamard(value, kThreadValues);
    put<1>(local, own_first(local), value);
  }

  GQ_HD void run(Interval<1>, uint32_t iteration, uint32_t part, Here local) const {
    const Place place = work.place(iteration, part, local.thread);
    const uint32_t thread = local.thread % kRotationThreads;
    const uint32_t first = thread / kThreadValues * kStride + thread % kThreadValues;
    float value[kThreadValues];
    get<kThreadValues>(local, first, value);
    if (length_at(place, local.thread, first) >= kStride) {
      hadamard(value, kThreadValues);
    } else {
      hadamard(value, kThreadValues / 2);
      hadamard(value + kThreadValues / 2, kThreadValues / 2);
    }
    put<kThreadValues>(local, first, value);
  }

  GQ_HD void run(Interval<2>, uint32_t iteration, uint32_t part, Here local) const {
    const Place place = work.place(iteration, part, local.thread);
    const uint32_t length = length_at(place, local.thread, 0);
    if (length < 2 * kStride) return;
    float* const shared = values_of(local);
    GQ_UNROLL for (uint32_t m = 0; m < 4; ++m) {
      const uint32_t first = local.thread % kRotationThreads + m * kRotationThreads;
      float value[4];
      GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) value[k] = shared[padded(first + k * kStride)];
      if (length == kRotationValues) {
        hadamard(value, 4);
      } else {
        hadamard(value, 2);
      }
      GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) shared[padded(first + k * kStride)] = value[k];
    }
  }

  GQ_HD void run(Interval<3>, uint32_t iteration, uint32_t part, Here local) const {
    const Place place = work.place(iteration, part, local.thread);
    if (place.code_count == 0) return;
    float value[kThreadValues];
    get<1>(local, own_first(local), value);
    if constexpr (kBack) {
      const uint32_t length = length_at(place, local.thread, own_first(local));
      const uint32_t word = sign_word(place.offset);
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        value[e] = rotation_out(value[e], rotation_sign(word, sign_bit(place.offset) + e), length);
      }
    }
    work.take(place, of_work(local), value);
  }

 private:
  GQ_HD static WorkHere of_work(Here local) { return {local.thread, local.shared.work, local.own}; }
  GQ_HD static float* values_of(Here local) {
    return local.shared.value[local.thread / kRotationThreads];
  }
  GQ_HD static uint32_t own_first(Here local) {
    return local.thread % kRotationThreads * kThreadValues;
  }

  template <uint32_t kStep>
  GQ_HD static void put(Here local, uint32_t first, const float (&value)[kThreadValues]) {
    float* const shared = values_of(local);
    GQ_UNROLL for (uint32_t k = 0; k < kThreadValues; ++k) {
      shared[padded(first + k * kStep)] = value[k];
    }
  }
  template <uint32_t kStep>
  GQ_HD static void get(Here local, uint32_t first, float (&value)[kThreadValues]) {
    const float* const shared = values_of(local);
    GQ_UNROLL for (uint32_t k = 0; k < kThreadValues; ++k) {
      value[k] = shared[padded(first + k * kStep)];
    }
  }

  /** Of value `position` of the 1024 that this thread works on. */
  GQ_HD uint32_t length_at(const Place& place, uint32_t thread, uint32_t position) const {
    const uint64_t first = place.offset - thread % kRotationThreads * kThreadValues;
    const uint64_t left = first < work.code_count ? work.code_count - first : 0;
    if (left >= kRotationValues) return kRotationValues;
    return rotation_length_at(position, static_cast<uint32_t>(left));
  }

  /** The word with the signs of a thread's values, and the first one's bit in it. */
  GQ_HD uint32_t sign_word(uint64_t offset) const {
    const uint64_t value = work.first_value + offset;
    const PhiloxBlock block = random_group(signs, value / kSignGroupValues);
    const uint32_t number = static_cast<uint32_t>(value / kSignsPerWord) % 4;
    const uint32_t low = number & 1 ? block.word[1] : block.word[0];
    const uint32_t high = number & 1 ? block.word[3] : block.word[2];
    return number & 2 ? high : low;
  }
  GQ_HD uint32_t sign_bit(uint64_t offset) const {
    return static_cast<uint32_t>((work.first_value + offset) % kSignsPerWord);
  }
};

/** The code of a block's number: the grid's own numbers are what they were. */
GQ_HD uint16_t code_of_number(float number) {
  return norm_code(float_bits(number) & kMagnitudeMask);
}

/** Norms or scales: one, or those of blocks. */
struct NormSource {
  const float* one;
  const uint16_t* blocks;
  const float* numbers;
  uint32_t shift;  ///< log2 of a block

  NormSource(const NormView& view, uint32_t block)
      : one(view.one), blocks(view.blocks), numbers(view.numbers), shift(block_log2(block)) {}

  /** The same kind, of a piece. */
  GQ_HD void set(const void* norms) {
    if (one != nullptr) one = static_cast<const float*>(norms);
    if (blocks != nullptr) blocks = static_cast<const uint16_t*>(norms);
    if (numbers != nullptr) numbers = static_cast<const float*>(norms);
  }

  GQ_HD bool is_one() const { return one != nullptr; }
  GQ_HD float at(uint64_t offset) const {
    if (is_one()) return *one;
    const uint64_t block = offset >> shift;
    return norm_from_code(blocks != nullptr ? blocks[block] : code_of_number(numbers[block]));
  }
};

/** Blocks of norms in an iteration: many of them, or parts of one. */
struct BlockIterations {
  static constexpr uint32_t kPartValues = BodyDefaults::kThreads * kThreadValues;
  static constexpr uint32_t kBlocksMax = kPartValues / kValueAlignment;
  uint32_t shift;
  uint32_t part_count;  ///< of a block
  uint64_t norm_count;

  BlockIterations(uint32_t block, uint64_t code_count)
      : shift(block_log2(block)),
        part_count(block > kPartValues ? block / kPartValues : 1) {
    set(code_count);
  }

  GQ_HD void set(uint64_t code_count) {
    norm_count = (code_count + (uint64_t{1} << shift) - 1) >> shift;
  }

  /** The first norm of an iteration, and a place's among them. */
  GQ_HD uint64_t first_of(uint32_t iteration) const {
    return (uint64_t{iteration} * part_count * kPartValues) >> shift;
  }
  GQ_HD uint32_t number_of(const Place& place) const {
    return static_cast<uint32_t>((place.offset >> shift) - first_of(place.iteration));
  }
};

/** The streams of a stage: a rank's own words, and those that some ranks share, or all. */
inline KeyedStream stream_at(const RandomSite& site, Draw draw, uint32_t rank, uint32_t hop) {
  const uint32_t index = site.step_at == nullptr ? site.index : 0;
  RandomStream stream = random_stream(site.key, site.step, index, draw, rank, hop);
  stream.step_at = site.step_at;
  return KeyedStream(stream);
}
inline KeyedStream own_stream(const RandomSite& site, Draw draw) {
  return stream_at(site, draw, site.rank, site.hop);
}
inline KeyedStream shared_stream(const RandomSite& site, Draw draw) {
  return stream_at(site, draw, 0, 0);
}

/** Starts work, rotated if the format has rotations; the device code has both. */
template <bool kBack, typename Launcher, typename Work>
StageError start(Launcher& launch, const Work& work, bool rotated, const RandomSite& site) {
  if (!rotated) return launch.run(Plain<Work>(work));
  return launch.run(Rotated<Work, kBack>(work, shared_stream(site, Draw::signs)));
}

/** The same for several calls. */
template <bool kBack, typename Launcher, typename Work, typename Args>
StageError start(Launcher& launch, const StageCalls<Args>& calls, const Work& work, bool rotated) {
  if (!rotated) return calls.run(launch, Plain<Work>(work));
  const KeyedStream signs = shared_stream(calls.first().random, Draw::signs);
  return calls.run(launch, Rotated<Work, kBack>(work, signs));
}

}  // namespace gq::cuda

#endif
