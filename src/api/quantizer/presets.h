// The presets: names of specifications.
#ifndef GQ_API_QUANTIZER_PRESETS_H
#define GQ_API_QUANTIZER_PRESETS_H

namespace gq {

struct Preset {
  const char* name;
  const char* text;
};

// A preset's specification never changes once released.
inline constexpr Preset kPresets[] = {
    {"none", "levels=none"},
    {"bf16", "levels=bf16"},
    {"fp16", "levels=fp16"},
    {"paper-gl8", "levels=linear,bits=8"},
    {"paper-ge8", "levels=exponential,bits=8"},
    {"paper-gl4", "levels=linear,bits=4"},
    {"paper-ge4", "levels=exponential,bits=4"},
    {"blocks-8", "levels=linear,bits=8,block=128,rounding=correlated,rescale=true"},
    {"rotated-8",
     "levels=linear,bits=8,block=128,rounding=correlated,rescale=true,"
     "rotate=hadamard,rounding_down=subtractive"},
    {"rotated-4-8",
     "levels=linear,bits=4,bits_down=8,block=128,rounding=correlated,rescale=true,"
     "rotate=hadamard,rounding_down=subtractive"},
    {"rotated-4",
     "levels=linear,bits=4,block=128,rounding=correlated,rescale=true,"
     "rotate=hadamard,rounding_down=subtractive"},
    {"relative-8", "levels=exponential,bits=8,mantissa_bits=2,rounding=correlated"},
    {"adaptive-3",
     "levels=linear,width=adaptive,mean_bits=3,block=128,rounding=correlated,rescale=true"},
    {"adaptive-4",
     "levels=linear,width=adaptive,mean_bits=4,block=128,rounding=correlated,rescale=true"},
    {"adaptive-5",
     "levels=linear,width=adaptive,mean_bits=5,block=128,rounding=correlated,rescale=true"},
    {"adaptive-6",
     "levels=linear,width=adaptive,mean_bits=6,block=128,rounding=correlated,rescale=true"},
    {"rice-3", "levels=rice,mean_bits=3,rounding=correlated"},
    {"rice-4", "levels=rice,mean_bits=4,rounding=correlated"},
    {"rice-5", "levels=rice,mean_bits=5,rounding=correlated"},
    {"rice-6", "levels=rice,mean_bits=6,rounding=correlated"},
};

/** The preset that a specification without one changes, unless it names `levels`. */
inline constexpr const char* kDefaultPreset = "blocks-8";

}  // namespace gq

#endif
