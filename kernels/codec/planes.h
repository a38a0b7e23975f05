// Bit planes (docs/FORMAT.md, section 16): plane p of a block has bit p of each of its lanes, value
// e at bit e. Eight lanes of a byte are the rows of a matrix of bits, their planes its columns.
#ifndef GQ_KERNELS_CODEC_PLANES_H
#define GQ_KERNELS_CODEC_PLANES_H

#include "kernels/codec/portable.h"

namespace gq {

/** Eight bytes, those of values 0 to 3 in the lower word. */
struct EightBytes {
  uint32_t low, high;
};

/** Byte p becomes bit p of all eight: lanes to planes, and planes to lanes. Squares of 2 x 2 bits
 *  are transposed, then squares of 2 x 2 of those, then all. */
GQ_HD EightBytes transposed_bits(EightBytes bytes) {
  GQ_UNROLL for (uint32_t k = 0; k < 2; ++k) {
    uint32_t& word = k == 0 ? bytes.low : bytes.high;
    const uint32_t ones = (word ^ (word >> 7)) & 0x00aa00aau;
    word ^= ones ^ (ones << 7);
    const uint32_t twos = (word ^ (word >> 14)) & 0x0000ccccu;
    word ^= twos ^ (twos << 14);
  }
  const uint32_t fours = (bytes.low ^ (bytes.high << 4)) & 0xf0f0f0f0u;
  return {bytes.low ^ fours, bytes.high ^ (fours >> 4)};
}

/** Sixteen lanes of a byte as eight planes of 16 bits, planes 2 k and 2 k + 1 in word k. */
GQ_HD void planes_of_lanes(const uint32_t (&lanes)[4], uint32_t (&planes)[4]) {
  const EightBytes first = transposed_bits({lanes[0], lanes[1]});
  const EightBytes second = transposed_bits({lanes[2], lanes[3]});
  planes[0] = byte_permute(first.low, second.low, 0x5140);
  planes[1] = byte_permute(first.low, second.low, 0x7362);
  planes[2] = byte_permute(first.high, second.high, 0x5140);
  planes[3] = byte_permute(first.high, second.high, 0x7362);
}

GQ_HD void lanes_of_planes(const uint32_t (&planes)[4], uint32_t (&lanes)[4]) {
  const EightBytes first = transposed_bits({byte_permute(planes[0], planes[1], 0x6420),
                                            byte_permute(planes[2], planes[3], 0x6420)});
  const EightBytes second = transposed_bits({byte_permute(planes[0], planes[1], 0x7531),
                                             byte_permute(planes[2], planes[3], 0x7531)});
  lanes[0] = first.low;
  lanes[1] = first.high;
  lanes[2] = second.low;
  lanes[3] = second.high;
}

}  // namespace gq

#endif
