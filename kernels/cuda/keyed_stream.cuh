// Random words as threads draw them.
#ifndef GQ_KERNELS_CUDA_KEYED_STREAM_CUH
#define GQ_KERNELS_CUDA_KEYED_STREAM_CUH

#include "kernels/codec/random.h"
#include "kernels/stages.h"

namespace gq::cuda {

/** A stream with the keys of all rounds, made on the host: as arguments of a kernel they are
 *  operands of instructions, where a thread that made them would need one for each. */
struct KeyedStream : RandomStream {
  uint32_t first_keys[kPhiloxRounds];
  uint32_t second_keys[kPhiloxRounds];

  explicit KeyedStream(const RandomStream& stream) : RandomStream(stream) {
    const ScalarKeys keys{k0, k1};
    for (uint32_t round = 0; round < kPhiloxRounds; ++round) {
      first_keys[round] = static_cast<uint32_t>(keys.first(round));
      second_keys[round] = static_cast<uint32_t>(keys.second(round));
    }
  }

  GQ_HD uint64_t first(uint32_t round) const { return first_keys[round]; }
  GQ_HD uint64_t second(uint32_t round) const { return second_keys[round]; }
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

GQ_HD PhiloxBlock random_group(const KeyedStream& stream, uint64_t group) {
  return gq::random_group(stream, group, stream);
}

/** The same for threads that draw more than one group, and what they begin with. */
GQ_HD StreamStart start_of(const KeyedStream& stream) { return gq::start_of(stream, stream); }
GQ_HD PhiloxBlock random_group(const KeyedStream& stream, const StreamStart& start,
                               uint64_t group) {
  return gq::random_group(stream, start, group, stream);
}

}  // namespace gq::cuda

#endif
