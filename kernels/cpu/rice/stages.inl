// The stages of Rice codes: by vectors where there are some, but for what is rare.

#if GQ_VECTOR_BYTES > 0

/** The largest magnitude's pattern. */
uint32_t largest_pattern(const float* __restrict value, uint32_t count) {
  uint32_t largest = 0;
  for (uint32_t e = 0; e < count; ++e) largest = larger(largest, magnitude_bits(value[e]));
  return largest;
}

/** Encodes a group of finite values, not all 0, with random roundings. False if codes did not fit,
 *  or no step does. */
bool encode_rice_tiles(const EncodeRiceArgs& args, const RiceLayout& layout, float largest) {
  const uint32_t step = rice_find_step(
      largest, bounds_of(args, layout), [&](float inverse, uint32_t stride) {
        return look_at_values(RiceValues{layout, args.values, stride}, inverse);
      });
  if (step > kRiceStepMax) return false;
  const float inverse = 1 / norm_from_code(static_cast<uint16_t>(step));
  const bool few_steps = largest * inverse < kFewSteps && inverse < kFewStepsInverse;
  const Thresholds thresholds = thresholds_of(args);
  bool fits = false;
  with_uniforms(Rounding::independent, thresholds, [&](auto uniforms) {
    using Uniforms = typename decltype(uniforms)::type;
    fits = few_steps ? write_rice_tiles<true, Uniforms>(args, layout, step, thresholds)
                     : write_rice_tiles<false, Uniforms>(args, layout, step, thresholds);
  });
  return fits;
}

bool is_encoded_by_vectors(const EncodeRiceArgs& args, const RiceLayout& layout) {
  const uint32_t largest = largest_pattern(args.values, args.value_count);
  if (largest == 0 || largest >= kFloatInfinityBits) return false;
  if (args.coding.rounding == Rounding::nearest) return false;
  if (!encode_rice_tiles(args, layout, float_from_bits(largest))) return false;
  if (args.poisoned_cells != nullptr) *args.poisoned_cells = 0;
  return true;
}

/** Whether a step may be divided in place of its multiples: a power of two changes exponents alone,
 *  and here none leaves its range. */
bool may_divide_step(float step, float divisor) {
  const bool is_power_of_two = (float_bits(divisor) & 0x007fffff) == 0;
  return is_power_of_two && step >= 0x1p-80f && step <= 0x1p80f;
}

bool is_decoded_by_vectors(const DecodeRiceArgs& args, const RiceLayout& layout) {
  const float step = norm_from_code(static_cast<uint16_t>(args.words[0]));
  if (args.add) {
    RiceTileDecoder<AddedTo>(layout, args, step, {}).run();
  } else if (may_divide_step(step, args.divisor)) {
    RiceTileDecoder<AsDecoded>(layout, args, step / args.divisor, {}).run();
  } else {
    RiceTileDecoder<DividedBy>(layout, args, step, {args.divisor}).run();
  }
  return true;
}

#else

bool is_encoded_by_vectors(const EncodeRiceArgs&, const RiceLayout&) { return false; }

bool is_decoded_by_vectors(const DecodeRiceArgs&, const RiceLayout&) { return false; }

#endif
