"""The state that goes through every call: its random key and its place in the order."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ..arguments import INDEX_MAX, STEP_MAX, integer
from ..errors import InvalidArgument


def state(step: int = 0, index: int = 0) -> jax.Array:
    """The state before call `index` of training step `step`: uint32 of shape (2,).

    Equal on all ranks. It is a plain array: save it with a checkpoint to resume bit for bit. Inside
    a jitted function it is a constant, as a key of jax.random is: every run of the program draws
    the same random numbers, whose errors never average out.
    """
    integer("step", step, ctypes.c_uint32, STEP_MAX)
    integer("index", index, ctypes.c_uint16, INDEX_MAX)
    return jnp.array([step, index], jnp.uint32)


def next_step(state: Any) -> jax.Array:
    """The state before the first call of the next training step; works inside `jit`."""
    checked = checked_state(state)
    return jnp.stack([checked[0] + jnp.uint32(1), jnp.uint32(0)])


def following(state: jax.Array) -> jax.Array:
    """The state after a call: the next one of its step, or the first of the step after it."""
    index = state[1] + jnp.uint32(1)
    last = index > INDEX_MAX
    step = state[0] + last.astype(jnp.uint32)
    return jnp.stack([step, jnp.where(last, jnp.uint32(0), index)])


def checked_state(state: Any) -> jax.Array:
    """`state` as an array; raises InvalidArgument for what no call can have returned."""
    if np.shape(state) != (2,) or getattr(state, "dtype", None) != np.uint32:
        raise InvalidArgument(
            f"state is {getattr(state, 'dtype', type(state).__name__)} of shape {np.shape(state)}, "
            "not uint32 of shape (2,); hint: gqsgd.jax.state(step), then what each call returns"
        )
    return jnp.asarray(state)


def warn_of_constant(state: Any, arrays: Iterable[Any]) -> None:
    """Where a call on `arrays` is traced for a program, and its state is not. What grad and vmap
    alone trace is no program: there new values are no tracers."""
    if isinstance(state, Tracer) or not any(isinstance(array, Tracer) for array in arrays):
        return
    if isinstance(lax.full((), 0), Tracer):
        warnings.warn(
            "the state of gqsgd.jax.allreduce is a constant of a traced function: each of its runs "
            "draws the same random numbers, whose errors never average out; hint: give the state "
            "as an argument, in a loop in the carry, and return the next one",
            RuntimeWarning, stacklevel=4)
