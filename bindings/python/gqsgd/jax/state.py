"""The state that goes through every call: its random key and its place in the order."""

from __future__ import annotations

import ctypes
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..arguments import INDEX_MAX, STEP_MAX, integer
from ..errors import InvalidArgument


def state(step: int = 0, index: int = 0) -> jax.Array:
    """The state before call `index` of training step `step`: uint32 of shape (2,).

    Equal on all ranks. It is a plain array: save it with a checkpoint to resume bit for bit.
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
