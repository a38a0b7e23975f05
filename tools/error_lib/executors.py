"""One scheme's mean of given inputs: by the library, and by the reference on the same words."""

from dataclasses import dataclass

import numpy as np

import gqsgd
from gqsgd_reference.allreduce import Request, allreduce
from gqsgd_reference.random import Call

QUANTIZER_SEED = 1  # the step of a call is the number of the table's seed


@dataclass(frozen=True)
class Refusal:
    """A scheme that is not run: status and sentence of the refusal."""

    status: str
    sentence: str


def library_mean(scheme, inputs, seed):
    """The float32 mean that every rank gets, or a Refusal."""
    try:
        quantizer = gqsgd.Quantizer(scheme.spec, seed=QUANTIZER_SEED)
        return gqsgd.simulate(list(inputs), quantizer, schedule=scheme.schedule, step=seed)
    except (gqsgd.Unsupported, gqsgd.InvalidArgument) as error:
        return Refusal(error.name, str(error))


def reference_mean(scheme, inputs, seed):
    """The same in NumPy, written from the format's specification; or a Refusal."""
    try:
        request = Request(scheme.schedule, call=Call(seed=QUANTIZER_SEED, step=seed),
                          **scheme.fields)
        result = allreduce(request, [row.view(np.uint32) for row in inputs])
    except ValueError as error:
        return Refusal("REFERENCE", str(error))
    return result.values.view(np.float32)


def bound(scheme, rank_count, value_count):
    """theta of E |G - mean|^2 <= theta/n sum_i |x_i|^2, or a Refusal where none is promised."""
    try:
        quantizer = gqsgd.Quantizer(scheme.spec)
        theta = gqsgd.variance_bound(quantizer, rank_count, value_count, scheme.schedule)
        return theta if theta > 0 else Refusal("EXACT", "nothing is rounded but float32 sums")
    except (gqsgd.Unsupported, gqsgd.InvalidArgument) as error:
        return Refusal(error.name, str(error))
