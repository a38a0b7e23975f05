// Golomb-Rice codes of a group (docs/FORMAT.md, section 20): a code is as long as its number is
// large, and a group's step is the least that the format's search finds whose codes fit into a
// message of a fixed size. Whether they fit is decided by what they may become, before any is
// rounded: so the step depends on values alone, and roundings have no bias.
#ifndef GQ_KERNELS_CODEC_RICE_H
#define GQ_KERNELS_CODEC_RICE_H

#include "kernels/codec/block_norm.h"
#include "kernels/codec/formats.h"
#include "kernels/codec/random.h"
#include "kernels/codec/rice_planes.h"
#include "kernels/codec/scale.h"

namespace gq {

inline constexpr uint32_t kRiceGroupValues = kGroupBlocks * kAdaptiveBlock;
inline constexpr uint32_t kRiceGroupCells = kRiceGroupValues / kRiceCell;

/** The parameter of a cell is the number of low bits of its codes that lie in planes. */
inline constexpr uint32_t kRiceParameterMax = 13;
inline constexpr uint32_t kRicePoisoned = 14;  ///< the cell's values are NaN
inline constexpr uint32_t kRiceZeros = 15;     ///< they are 0, and nothing follows

/** The most that a cell's codes sum up to without their low bits: unary, they and the ones that end
 *  them are 64 bits at most. */
inline constexpr uint32_t kRiceHighMax = 32;

/** Codes of steps: 2^-126, whose reciprocal is finite, to 2^126, whose reciprocal is normal. */
inline constexpr uint32_t kRiceStepMin = 0x0080, kRiceStepMax = 0x7e80;

/** The largest magnitude in steps, before and after the reciprocal of the step is rounded. */
inline constexpr float kRiceStepsMax = 8190, kRiceMagnitudeMax = 8191;

// The layout of a group's words: the step, parameters, planes, zeros, unary codes.

/** Bits that codes may have: unary ones begin a word of 64 bits, of which they may leave 63. */
GQ_HD constexpr uint32_t rice_room(uint32_t plane_count, uint32_t cells) {
  return 32 * (kPlaneWords * plane_count - rice_head_words(cells)) - (kRiceUnaryBits - 1);
}

GQ_HD constexpr uint32_t rice_parameter_at(uint32_t word, uint32_t cell) {
  return word >> (kRiceParameterBits * (cell % kRiceWordParameters)) & 15;
}

// Codes: an integer k of steps as z = 2 k - 1 if k > 0, else -2 k. The p low bits of z, p the
// cell's parameter, lie in planes; z >> p zeros and a one are its unary code.

GQ_HD constexpr uint32_t rice_code(uint32_t magnitude, bool is_negative) {
  return 2 * magnitude - (magnitude > 0 && !is_negative ? 1 : 0);
}

GQ_HD constexpr int32_t rice_number(uint32_t code) {
  const int32_t magnitude = static_cast<int32_t>((code + 1) / 2);
  return code % 2 == 1 ? magnitude : -magnitude;
}

GQ_HD float rice_value(uint32_t code, float step) {
  return static_cast<float>(rice_number(code)) * step;
}

/** What a value's code may become. */
struct RiceNeighbours {
  uint32_t near;  ///< towards 0
  uint32_t far;   ///< away from 0
  float distance;  ///< of the value from the near one, in steps; if it is 0, far is near
};

/** inverse: 1 / step. Rounding to nearest leaves one code. */
template <bool kNearest>
GQ_HD RiceNeighbours rice_neighbours(float value, float inverse) {
  const float steps = at_most(magnitude(value) * inverse, kRiceMagnitudeMax);
  const bool is_negative = float_bits(value) >> 31 != 0;
  const uint32_t whole = static_cast<uint32_t>(steps);
  const float distance = steps - static_cast<float>(whole);
  if constexpr (kNearest) {  // halves go towards +infinity
    const bool is_far = is_negative ? distance > 0.5f : distance >= 0.5f;
    const uint32_t code = rice_code(whole + (is_far ? 1 : 0), is_negative);
    return {code, code, 0};
  }
  return {rice_code(whole, is_negative), rice_code(whole + (distance > 0 ? 1 : 0), is_negative),
          distance};
}

/** The code of floor(value / step + u), u = r(e) / 2^23; `bits` is R(e). */
GQ_HD uint32_t rice_rounded(float value, const RiceNeighbours& codes, uint32_t bits) {
  const uint32_t chance = static_cast<uint32_t>(nearest_integer(codes.distance * 0x1p23f));
  const uint32_t negative = float_bits(value) >> 31 != 0 ? ~0u : 0;
  return mirrored_uniform_of<false>(bits, ~negative) < chance ? codes.far : codes.near;
}

/** The least parameter with which the codes, without their low bits, sum up to at most 32. It also
 *  makes the shortest cell of all with which they do: each bit more costs 32 and saves at most
 *  what the sum is. */
GQ_HD uint32_t rice_parameter(const uint32_t (&codes)[kRiceCell]) {
  for (uint32_t parameter = 0; parameter < kRiceParameterMax; ++parameter) {
    uint32_t sum = 0;
    for (uint32_t e = 0; e < kRiceCell; ++e) sum += codes[e] >> parameter;
    if (sum <= kRiceHighMax) return parameter;
  }
  return kRiceParameterMax;
}

/** What codes of one step may need. Cells whose codes can only be 0 need nothing. */
struct RiceLook {
  uint32_t near_bits = 0;     ///< if all values went towards 0
  uint32_t expected_256 = 0;  ///< what is expected beyond it, in bits / 256
  uint32_t squares = 0;       ///< D of the margin
  uint32_t values = 0;        ///< of the cells that need bits
};

/** Adds what one value may need beyond a bit and the p low ones. The chance of the far code is
 *  rounded up to a multiple of 1 / 256. */
GQ_HD void rice_look_at(const RiceNeighbours& codes, uint32_t parameter, RiceLook& look) {
  const float parts = 256 * codes.distance;
  const uint32_t whole = static_cast<uint32_t>(parts);
  const uint32_t chance = whole + (static_cast<float>(whole) < parts ? 1 : 0);
  const uint32_t near = codes.near >> parameter;
  const uint32_t more = (codes.far >> parameter) - near;
  look.near_bits += near;
  look.expected_256 += chance * more;
  look.squares += more * more;
}

/** Bits that codes need but for a chance of 2^-32, if the look was at one cell of each `stride`. */
GQ_HD uint32_t rice_need(const RiceLook& look, uint32_t stride) {
  return stride * look.near_bits + (stride * look.expected_256 + 255) / 256 +
         root_rounded_up(kRiceMargin * stride * look.squares);
}

// The search for a step. Any step that fits is right; this one is found by all.

/** The least step of a group: its largest magnitude becomes at most 8190 steps. */
GQ_HD uint32_t rice_least_step(float largest) {
  const uint32_t code = norm_code(float_bits(largest / kRiceStepsMax));
  return code > kRiceStepMin ? code : kRiceStepMin;
}

/** Where the search begins: a sixteenth of the largest magnitude. */
GQ_HD uint32_t rice_first_step(float largest, uint32_t least) {
  const uint32_t code = norm_code(float_bits(largest));
  const uint32_t first = code > 512 ? code - 512 : 0;
  return first < least ? least : first > kRiceStepMax ? kRiceStepMax : first;
}

/** The search ends where no more than so many bits of each value are left: 2^-shift. */
inline constexpr uint32_t kRiceCoarseSlack = 3, kRiceFineSlack = 6;
/** Groups of so many cells begin with looks at one of kRiceStride cells. */
inline constexpr uint32_t kRiceCoarseCells = 64, kRiceStride = 8;
inline constexpr uint32_t kRiceGuesses = 6;

class RiceSearch {
 public:
  GQ_HD RiceSearch(uint32_t least, uint32_t first, uint32_t room, uint32_t slack_shift)
      : room_(static_cast<int32_t>(room)), slack_shift_(slack_shift), below_(least - 1),
        step_(first) {}

  GQ_HD bool is_done() const { return is_done_; }
  /** The code of the step to look at next. */
  GQ_HD uint32_t step() const { return step_; }
  /** The code of the least step found that fits; beyond kRiceStepMax if none does. */
  GQ_HD uint32_t fitting() const { return fitting_; }

  /** need: bits with this step, of so many values. A bit more or less of each of them is an octave
   *  of steps, which has 128 codes. */
  GQ_HD void take(uint32_t need, uint32_t values) {
    const int32_t left = room_ - static_cast<int32_t>(need);
    const int32_t slack = static_cast<int32_t>(values >> slack_shift_);
    (left >= 0 ? fitting_ : below_) = step_;
    is_done_ = fitting_ - below_ == 1 || (left >= 0 && left <= slack);
    ++looks_;
    if (looks_ >= kRiceGuesses || values == 0) {
      step_ = (below_ + fitting_) / 2;
    } else {
      guess(128 * (slack / 2 - left), static_cast<int32_t>(values));
    }
  }

 private:
  GQ_HD void guess(int32_t bits, int32_t values) {
    const int32_t further = bits / values + (bits % values > 0 ? 1 : 0);  // rounded up
    const int32_t step = static_cast<int32_t>(step_) + further;
    const int32_t least = static_cast<int32_t>(below_ + 1);
    const int32_t most = static_cast<int32_t>(fitting_ - 1);
    step_ = static_cast<uint32_t>(step < least ? least : step > most ? most : step);
  }

  int32_t room_;
  uint32_t slack_shift_;
  uint32_t below_;  ///< does not fit
  uint32_t fitting_ = kRiceStepMax + 1;
  uint32_t step_;
  uint32_t looks_ = 0;
  bool is_done_ = false;
};

/** `look_at(inverse, stride)` returns a RiceLook at cells 0, stride, 2 stride, .. */
template <typename LookAt>
GQ_HD uint32_t rice_search(RiceSearch search, uint32_t stride, LookAt look_at) {
  while (!search.is_done()) {
    const float step = norm_from_code(static_cast<uint16_t>(search.step()));
    const RiceLook look = look_at(1 / step, stride);
    search.take(rice_need(look, stride), stride * look.values);
  }
  return search.fitting();
}

/** The code of the step of a group whose largest magnitude is not 0; beyond kRiceStepMax if none
 *  fits. */
template <typename LookAt>
GQ_HD uint32_t rice_find_step(float largest, uint32_t room, uint32_t cells, LookAt look_at) {
  const uint32_t least = rice_least_step(largest);
  uint32_t first = rice_first_step(largest, least);
  if (cells >= kRiceCoarseCells) {
    const RiceSearch coarse(least, first, room, kRiceCoarseSlack);
    first = rice_search(coarse, kRiceStride, look_at);
    first = first < kRiceStepMax ? first : kRiceStepMax;
  }
  return rice_search(RiceSearch(least, first, room, kRiceFineSlack), 1, look_at);
}

}  // namespace gq

#endif
