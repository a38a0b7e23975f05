// Golomb-Rice codes of a group (docs/FORMAT.md, section 20): a code is as long as its number is
// large, and a group's step is the least that the format's search finds whose codes fit into a
// message of a fixed size. Whether they fit is decided by what they may become, before any is
// rounded: so the step depends on values alone, and roundings have no bias.
#ifndef GQ_KERNELS_CODEC_RICE_H
#define GQ_KERNELS_CODEC_RICE_H

#include "kernels/codec/block_norm.h"
#include "kernels/codec/formats.h"
#include "kernels/codec/rice_planes.h"
#include "kernels/codec/scale.h"
#include "kernels/codec/strata.h"

namespace gq {

inline constexpr uint32_t kRiceGroupValues = kGroupBlocks * kAdaptiveBlock;
inline constexpr uint32_t kRiceGroupCells = kRiceGroupValues / kRiceCell;

/** The parameter of a cell is the number of low bits of its codes that lie in planes. */
inline constexpr uint32_t kRiceParameterMax = 13;
inline constexpr uint32_t kRicePoisoned = 14;  ///< the cell's values are NaN
inline constexpr uint32_t kRiceZeros = 15;     ///< they are 0, and nothing follows

/** The most that a cell's codes sum up to if they are halved without their low bits. So without
 *  these they sum up to at most twice as much, and unary, with the ones that end them, they are 96
 *  bits at most. */
inline constexpr uint32_t kRiceHalvesMax = 32;
inline constexpr uint32_t kRiceCellUnaryBits = kRiceCell + 2 * kRiceHalvesMax;

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
  uint32_t near;   ///< towards 0
  uint32_t far;    ///< away from 0; the same if the value is a multiple of the step
  float distance;  ///< of the value from the near one, in steps
  uint32_t parts;  ///< the value's magnitude in 1 / 256 of a step, rounded up
};

GQ_HD uint32_t rice_parts(float steps) {
  const float parts = 256 * steps;
  const uint32_t whole = static_cast<uint32_t>(parts);
  return whole + (static_cast<float>(whole) < parts ? 1 : 0);
}

/** inverse: 1 / step. Rounding to nearest leaves one code, which stands for itself. */
template <bool kNearest>
GQ_HD RiceNeighbours rice_neighbours(float value, float inverse) {
  const float steps = at_most(magnitude(value) * inverse, kRiceMagnitudeMax);
  const bool is_negative = float_bits(value) >> 31 != 0;
  const uint32_t whole = static_cast<uint32_t>(steps);
  const float distance = steps - static_cast<float>(whole);
  if constexpr (kNearest) {  // halves go towards +infinity
    const bool is_far = is_negative ? distance > 0.5f : distance >= 0.5f;
    const uint32_t code = rice_code(whole + (is_far ? 1 : 0), is_negative);
    return {code, code, 0, 128 * code};
  }
  return {rice_code(whole, is_negative), rice_code(whole + (distance > 0 ? 1 : 0), is_negative),
          distance, rice_parts(steps)};
}

/** The code of floor(value / step + u), u = r(e) / 2^23; `bits` is R(e). */
GQ_HD uint32_t rice_rounded(float value, const RiceNeighbours& codes, uint32_t bits) {
  const uint32_t chance = static_cast<uint32_t>(nearest_integer(codes.distance * 0x1p23f));
  const uint32_t negative = float_bits(value) >> 31 != 0 ? ~0u : 0;
  return mirrored_uniform_of<false>(bits, ~negative) < chance ? codes.far : codes.near;
}

/** A code that is halved, rounded up, without its low bits. */
GQ_HD constexpr uint32_t rice_halves(uint32_t code, uint32_t parameter) {
  return ((code >> parameter) + 1) >> 1;
}

/** The parameter with the shortest cell: one bit more costs 32 and saves what the codes sum up to
 *  if they are halved, which is `halves(parameter)`. That is less the larger it is. */
template <typename Halves>
GQ_HD uint32_t rice_parameter_of(Halves halves) {
  uint32_t parameter = 0;
  while (parameter < kRiceParameterMax && halves(parameter) > kRiceHalvesMax) ++parameter;
  return parameter;
}
GQ_HD uint32_t rice_parameter(const uint32_t (&codes)[kRiceCell]) {
  return rice_parameter_of([&](uint32_t parameter) {
    uint32_t sum = 0;
    for (uint32_t e = 0; e < kRiceCell; ++e) sum += rice_halves(codes[e], parameter);
    return sum;
  });
}

/** The parameter that a look counts with, from the sum of a cell's parts: about the best of codes
 *  that are not rounded yet. Whichever it is, codes' own parameters make no cell longer. */
GQ_HD uint32_t rice_look_parameter(uint32_t parts) {
  uint32_t parameter = 0;
  while (parts > 8192u << parameter) ++parameter;  // 64 codes of 128 parts
  return parameter;
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
  const uint32_t chance = rice_parts(codes.distance);
  const uint32_t near = codes.near >> parameter;
  const uint32_t more = (codes.far >> parameter) - near;
  look.near_bits += near;
  look.expected_256 += chance * more;
  look.squares += more * more;
}

/** The margin of a group's codes. Thresholds' leading bytes depend on each other only where they
 *  come from strata whose number is a prime. */
GQ_HD uint32_t rice_margin(const Strata& strata) {
  return strata.reciprocal == 0 ? kRiceMarginOfBytes : kRiceMargin;
}

/** Bits that codes need but for a chance of 2^-32, if the look was at one cell of each `stride`. */
GQ_HD uint32_t rice_need(const RiceLook& look, uint32_t stride, uint32_t margin) {
  return stride * look.near_bits + (stride * look.expected_256 + 255) / 256 +
         root_rounded_up(margin * stride * look.squares);
}

// The search for a step. Any step that fits is right; this one is found by all.

/** The least step of a group: its largest magnitude becomes at most 8190 steps. */
GQ_HD uint32_t rice_least_step(float largest) {
  const uint32_t code = norm_code(float_bits(largest / kRiceStepsMax));
  return code > kRiceStepMin ? code : kRiceStepMin;
}

/** Where the search begins: a 32nd of the largest magnitude. */
GQ_HD uint32_t rice_first_step(float largest, uint32_t least) {
  const uint32_t code = norm_code(float_bits(largest));
  const uint32_t first = code > 640 ? code - 640 : 0;
  return first < least ? least : first > kRiceStepMax ? kRiceStepMax : first;
}

/** Groups of so many cells begin with looks at one of kRiceStride cells, until they are within
 *  2^-kRiceCoarseShift bits of each value of what all may need. */
inline constexpr uint32_t kRiceCoarseCells = 64, kRiceStride = 8, kRiceCoarseShift = 4;
/** A step will do if it leaves no more than so many bits of each value: 2^-shift. The search aims
 *  at an eighth of them. */
inline constexpr uint32_t kRiceSlackShift = 6, kRiceAimShift = 3;
/** A search guesses so often; then it halves. */
inline constexpr uint32_t kRiceGuesses = 7;
/** Before two looks have shown it: how many codes of steps are a bit of each value. */
inline constexpr uint32_t kRiceBitCodes = 256;

/** How many bits fewer are needed with a step whose code is larger by so many. */
struct RiceSlope {
  uint32_t bits = 0, codes = 0;
};

/** A search by secants. */
class RiceSearch {
 public:
  GQ_HD RiceSearch(uint32_t least, uint32_t first, uint32_t room, const RiceSlope& slope)
      : room_(room), below_(least - 1), step_(first), slope_(slope) {}

  /** The code of the step to look at next. */
  GQ_HD uint32_t step() const { return step_; }
  /** The code of the least step found that fits; beyond kRiceStepMax if none does. */
  GQ_HD uint32_t fitting() const { return fitting_; }
  GQ_HD const RiceSlope& slope() const { return slope_; }
  /** Whether no step is left to look at. */
  GQ_HD bool is_closed() const { return fitting_ - below_ == 1; }
  GQ_HD bool has_fitting() const { return is_closed() || has_fitting_; }
  GQ_HD bool is_near() const { return is_closed() || is_near_; }

  /** need: bits with this step, of so many values. */
  GQ_HD void take(uint32_t need, uint32_t values) {
    const uint32_t slack = values >> kRiceSlackShift;
    const bool fits = need <= room_;
    (fits ? fitting_ : below_) = step_;
    has_fitting_ = fits && room_ - need <= slack;
    const int64_t excess = int64_t{need} + (slack >> kRiceAimShift) - room_;
    const uint32_t near = values >> kRiceCoarseShift;
    is_near_ = (excess < 0 ? -excess : excess) <= near;
    take_slope(need, values);
    last_need_ = need;
    last_step_ = step_;
    ++looks_;
    step_ = looks_ < kRiceGuesses && values > 0 ? guessed(excess) : (below_ + fitting_) / 2;
  }

 private:
  /** That of the last two looks, if more is needed with the lesser step. */
  GQ_HD void take_slope(uint32_t need, uint32_t values) {
    if (looks_ > 0 && need < last_need_ && step_ > last_step_) {
      slope_ = {last_need_ - need, step_ - last_step_};
    } else if (looks_ > 0 && need > last_need_ && step_ < last_step_) {
      slope_ = {need - last_need_, last_step_ - step_};
    } else if (slope_.bits == 0) {
      slope_ = {values, kRiceBitCodes};
    }
  }

  /** Further by excess / slope, rounded up, between what is known. */
  GQ_HD uint32_t guessed(int64_t excess) const {
    const int64_t codes = excess * slope_.codes;
    const int64_t further = codes / slope_.bits + (codes % slope_.bits > 0 ? 1 : 0);
    const int64_t step = step_ + further, least = below_ + 1, most = fitting_ - 1;
    return static_cast<uint32_t>(step < least ? least : step > most ? most : step);
  }

  uint32_t room_;
  uint32_t below_;  ///< does not fit
  uint32_t fitting_ = kRiceStepMax + 1;
  uint32_t step_;
  RiceSlope slope_;
  uint32_t last_need_ = 0, last_step_ = 0, looks_ = 0;
  bool has_fitting_ = false, is_near_ = false;
};

/** What codes of a group have to fit in. */
struct RiceBounds {
  uint32_t cells, room, margin;
};

/** Takes a look: `look_at(inverse, stride)` returns a RiceLook at cells 0, stride, 2 stride, .. */
template <typename LookAt>
GQ_HD void rice_take_look(RiceSearch& search, uint32_t stride, uint32_t margin, LookAt look_at) {
  const float step = norm_from_code(static_cast<uint16_t>(search.step()));
  const RiceLook look = look_at(1 / step, stride);
  search.take(rice_need(look, stride, margin), stride * look.values);
}

/** The code of the step of a group whose largest magnitude is not 0; beyond kRiceStepMax if none
 *  fits. */
template <typename LookAt>
GQ_HD uint32_t rice_find_step(float largest, const RiceBounds& bounds, LookAt look_at) {
  const uint32_t least = rice_least_step(largest);
  uint32_t first = rice_first_step(largest, least);
  RiceSlope slope;
  if (bounds.cells >= kRiceCoarseCells) {
    RiceSearch coarse(least, first, bounds.room, slope);
    while (!coarse.is_near()) rice_take_look(coarse, kRiceStride, bounds.margin, look_at);
    first = coarse.is_closed() ? coarse.fitting() : coarse.step();
    first = first < kRiceStepMax ? first : kRiceStepMax;
    slope = coarse.slope();
  }
  RiceSearch fine(least, first, bounds.room, slope);
  while (!fine.has_fitting()) rice_take_look(fine, 1, bounds.margin, look_at);
  return fine.fitting();
}

}  // namespace gq

#endif
