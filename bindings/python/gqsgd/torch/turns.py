"""A warning where objects of a program draw the same random numbers in turns, as the states of two
models in one group do."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Hashable

from gqsgd import Quantizer
from gqsgd.presets import short_spec

from .policy import fields_of, is_quantized

#: By stream and seed, who has drawn, in the order of their last turns.
_drawn: dict[tuple[Hashable, str], list[weakref.ref[object]]] = {}
_warned: set[tuple[Hashable, str]] = set()


def take_turn(owner: object, stream: Hashable, quantizer: Quantizer) -> None:
    """`owner` is about to draw. Warns once of a stream and a seed from which, since `owner` drew
    last, another one has drawn that still lives. Trainings that follow each other take no turns."""
    key = stream, fields_of(quantizer)["seed"]
    drawn = _drawn.get(key, [])
    if drawn and drawn[-1]() is owner or not is_quantized(quantizer):
        return
    living = [each for each in drawn if each() is not None]
    former = [each for each in living if each() is not owner]
    if len(former) < len(living) and living[-1]() is not owner and key not in _warned:
        _warned.add(key)
        _warn(living[-1](), owner, quantizer)
    _drawn[key] = [*former, weakref.ref(owner)]


def _warn(other: object, owner: object, quantizer: Quantizer) -> None:
    """Names no steps, for which a device might be waited for."""
    spec, kinds = short_spec(quantizer.spec), [type(each).__name__ for each in (other, owner)]
    warnings.warn(
        f"a {kinds[0]} and a {kinds[1]} of this program draw the same random numbers, step by "
        "step: their errors are alike, and where the gradients of one follow from those of the "
        "other, as with the two models of a GAN, their mean is biased; hint: another seed for one "
        f'of them, "{spec},seed=1" for example',
        RuntimeWarning, stacklevel=2)
