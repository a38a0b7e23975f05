"""The library's formats that the table compares: quantizer specs with their schedules and bytes."""

from dataclasses import dataclass

# The fields of a preset's specification; tests/repo/tools compares them with the library's own.
PRESETS = {
    "none": "levels=none",
    "bf16": "levels=bf16",
    "fp16": "levels=fp16",
    "paper-gl8": "levels=linear,bits=8",
    "paper-ge8": "levels=exponential,bits=8",
    "paper-gl4": "levels=linear,bits=4",
    "paper-ge4": "levels=exponential,bits=4",
    "blocks-8": "levels=linear,bits=8,block=128,rounding=correlated,rescale=true",
    "rotated-8": "levels=linear,bits=8,block=128,rounding=correlated,rescale=true,"
                 "rotate=hadamard,rounding_down=subtractive",
    "rotated-4-8": "levels=linear,bits=4,bits_down=8,block=128,rounding=correlated,rescale=true,"
                   "rotate=hadamard,rounding_down=subtractive",
    "rotated-4": "levels=linear,bits=4,block=128,rounding=correlated,rescale=true,"
                 "rotate=hadamard,rounding_down=subtractive",
    "relative-8": "levels=exponential,bits=8,mantissa_bits=2,rounding=correlated",
    **{f"adaptive-{bits}": f"levels=linear,width=adaptive,mean_bits={bits},block=128,"
                           "rounding=correlated,rescale=true" for bits in (3, 4, 5, 6)},
    **{f"rice-{bits}": f"levels=rice,mean_bits={bits},rounding=correlated"
       for bits in (3, 4, 5, 6)},
}

_DEFAULTS = {"levels": "linear", "bits": "8", "block": "0", "rounding": "independent",
             "rounding_down": "random", "rotate": "none", "rescale": "false",
             "mantissa_bits": "0"}
_FLOAT_BITS = {"none": 32, "bf16": 16, "fp16": 16}
_NORM_BYTES = 2  # of a block's norm, and of its scale
_ROTATION_VALUE_COUNT_MIN = 128


@dataclass(frozen=True)
class Scheme:
    """One row of the table: a quantizer by its specification and the messages of a schedule."""

    spec: str
    schedule: str
    unbiased = True

    @property
    def name(self):
        return f"{self.spec} {self.schedule}"

    @property
    def fields(self):
        """Every field that matters for errors and bytes, presets spelt out."""
        first, _, rest = self.spec.partition(",")
        if "=" not in first:
            rest = f"{PRESETS[first]},{rest}".rstrip(",")
        else:
            rest = self.spec
        fields = dict(_DEFAULTS)
        fields.update(item.split("=") for item in rest.split(","))
        bits = _FLOAT_BITS.get(fields["levels"], int(fields["bits"]))
        if "mean_bits" in fields:
            bits = 0
        return {"levels": fields["levels"], "bits": bits,
                "bits_down": int(fields.get("bits_down", bits)),
                "mean_bits": float(fields.get("mean_bits", 0)),
                "block": int(fields["block"]),
                "rounding": fields["rounding"], "rounding_down": fields["rounding_down"],
                "rotate": fields["rotate"], "rescale": fields["rescale"] == "true",
                "mantissa_bits": int(fields["mantissa_bits"]),
                "combine": fields.get("combine", _combine(fields["levels"], bits))}

    @property
    def bits(self):
        """(up, down): of a code on its way to an owner, and of the result; the mean of adaptive
        widths, and of Rice codes with all that they need."""
        mean = self.fields["mean_bits"]
        if self.fields["levels"] == "rice":
            return mean - 27 / 128, mean + 75 / 128
        return mean or self.fields["bits"], mean or self.fields["bits_down"]

    def bytes_per_value(self, rank_count, value_count):
        """What one rank sends for each value, the mean over ranks: codes, norms and scales.

        In every schedule all ranks together send every rank's codes but one's to another rank and
        the result to all but one. The call's headers, 80 bytes each, are left out.
        """
        fields = self.fields
        coded = value_count
        if fields["rotate"] == "hadamard":
            coded = -(-value_count // _ROTATION_VALUE_COUNT_MIN) * _ROTATION_VALUE_COUNT_MIN
        total = coded * sum(self.bits) / 8
        if fields["block"] > 0:
            arrays = 3 if fields["rescale"] else 2  # norms to owners and back, scales
            total += arrays * _NORM_BYTES * -(-coded // fields["block"])
        return (rank_count - 1) / rank_count * total / value_count


def _combine(levels, bits):
    if levels in _FLOAT_BITS:
        return "sum" if levels == "none" else "exact"
    if bits == 4:
        return "average"
    return "sum" if levels == "exponential" else "exact"


SCHEMES = (
    Scheme("none", "direct"),
    Scheme("bf16", "direct"),
    Scheme("fp16", "direct"),
    Scheme("paper-gl8", "ring"),
    Scheme("paper-gl8", "direct"),
    Scheme("paper-ge8", "tree"),
    Scheme("paper-ge8", "direct"),
    Scheme("paper-gl4", "tree"),
    Scheme("paper-ge4", "tree"),
    Scheme("paper-gl8,block=128", "ring"),
    Scheme("levels=linear,bits=8,block=128,rescale=true", "direct"),
    Scheme("blocks-8", "direct"),
    Scheme("blocks-8,rounding_down=subtractive", "direct"),
    Scheme("blocks-8,bits=4", "direct"),
    Scheme("blocks-8,bits=4,bits_down=8", "direct"),
    Scheme("rotated-8,block=1024", "direct"),
    Scheme("rotated-8", "direct"),
    Scheme("rotated-4", "direct"),
    Scheme("rotated-4,block=32", "direct"),
    Scheme("rotated-4-8", "direct"),
    Scheme("relative-8", "direct"),
    *(Scheme(f"adaptive-{bits}", "direct") for bits in (3, 4, 5, 6)),
    *(Scheme(f"rice-{bits}", "direct") for bits in (3, 4, 5, 6)),
)
