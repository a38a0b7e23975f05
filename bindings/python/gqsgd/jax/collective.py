"""allreduce as an operation of JAX: under jit, grad, vmap and shard_map, on trees of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from .. import _abi
from ..arguments import number_of
from ..communicator import Communicator
from ..errors import InvalidArgument
from ..quantizer import Quantizer
from . import _handler
from .state import checked_state, following, warn_of_constant

_Arrays = tuple[jax.Array, ...]
_P = ParamSpec("_P")
_T = TypeVar("_T")
_Operation = Callable[[jax.Array, _Arrays], tuple[jax.Array, _Arrays]]


class _Site(NamedTuple):
    """What a program holds of a call: numbers that mean the same in every process."""

    comms: tuple[int, ...]
    quantizer: int
    op: int
    schedule: int
    rank_count: int


def _names_forgotten_state(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Without its state a call has every later argument one place too early, of which Python says
    only that q is missing."""

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        second = args[1] if len(args) > 1 else kwargs.get("state")
        first = second[0] if isinstance(second, (list, tuple)) and second else second
        if isinstance(first, Communicator):
            raise TypeError(
                "the state is missing, a Communicator is in its place: the call is allreduce(x, "
                "state, comm, q); hint: gqsgd.jax.state() before the first call, then the state "
                "that each call returns"
            )
        return function(*args, **kwargs)

    return checked


@_names_forgotten_state
def allreduce(
    x: Any,
    state: jax.Array,
    comm: Communicator | Sequence[Communicator],
    q: Quantizer,
    op: str = "mean",
    schedule: str = "auto",
) -> tuple[Any, jax.Array]:
    """Averages or adds `x` over all ranks; returns the result and the state of the next call.

    x: an array, or a tree of arrays, of float32, float16, bfloat16 or float64. Arrays of a tree
        that have one dtype are one operation, each with norms of its own.
    state: what `gqsgd.jax.state` or the call before returned, equal on all ranks. It orders calls
        and is their random key, (step, index); threading it through is what keeps ranks together.
    comm: this process's rank; or inside shard_map, a list of one for each device of this process,
        in the order of `jax.local_devices()`. op, schedule: as for gqsgd.Communicator.allreduce.

    Give a tree as it is, not as one flat array, in which norms, blocks and rotations go across the
    borders of its arrays (docs/PRESETS.md has numbers).

    The same bits as `comm.allreduce(x, q, op, schedule, step=state[0], index=state[1])`, or with
    more than one array of a dtype as `comm.allreduce_many`. Every rank runs the same calls in the
    same order; the communicator may not be used elsewhere until they have ended.

    Derivatives are those of a result that all ranks go on with alike: the cotangent, divided by
    the number of ranks where op is "mean". No rank communicates for them.

    Raises InvalidArgument or TypeError while a program is traced. What fails when it runs is a
    jax.errors.JaxRuntimeError with the library's status and sentence.
    """
    leaves, tree = jax.tree.flatten_with_path(x)
    arrays, given = [_checked(path, leaf) for path, leaf in leaves], state
    state = checked_state(given)
    warn_of_constant(given, arrays)
    site = _site(comm, q, op, schedule)
    results: list[Any] = [None] * len(arrays)
    for dtype in dict.fromkeys(array.dtype for array in arrays):
        places = [k for k, array in enumerate(arrays) if array.dtype == dtype]
        state, group = _operation(site)(state, tuple(arrays[k] for k in places))
        for k, result in zip(places, group):
            results[k] = result
    return jax.tree.unflatten(tree, results), state


def _checked(path: tuple[Any, ...], leaf: Any) -> jax.Array:
    """A leaf of x as an array; the error names the leaf by its path, as in x['layer'][0]."""
    name, accepted = f"x{jax.tree_util.keystr(path)}", ", ".join(_abi.DTYPES)
    try:
        array = jnp.asarray(leaf)
    except TypeError as error:
        raise TypeError(f"{name} is a {type(leaf).__name__}, not an array of {accepted}") from error
    if array.dtype.name not in _abi.DTYPES:
        raise InvalidArgument(
            f"{name} has dtype {array.dtype}; accepted are {accepted}; hint: leave leaves that are "
            "no gradients out of the tree"
        )
    return array


def _site(comm: Any, q: Quantizer, op: str, schedule: str) -> _Site:
    numbers = _handler.comm_numbers(comm)
    if len(numbers) > 1 and not _is_on_each_device():
        raise InvalidArgument(
            f"comm is a list of {len(numbers)} communicators outside of shard_map: one device "
            "would call and wait for all others; hint: jax.shard_map, or one communicator"
        )
    return _Site(
        numbers,
        _handler.quantizer_number(q),
        number_of("op", op, _abi.OPS),
        number_of("schedule", schedule, _abi.SCHEDULES),
        (comm if isinstance(comm, Communicator) else comm[0]).size,
    )


def _is_on_each_device() -> bool:
    """Whether what is traced now is run by each device of a mesh, as in shard_map and pmap."""
    return bool(jax.sharding.get_abstract_mesh().manual_axes)


@functools.lru_cache(maxsize=256)
def _operation(site: _Site) -> _Operation:
    """The allreduce of one site, made once, so that calls outside jit compile once too."""
    divisor = site.rank_count if site.op == _abi.OPS["mean"] else 1

    @jax.custom_vjp
    def operation(state: jax.Array, arrays: _Arrays) -> tuple[jax.Array, _Arrays]:
        return _batched(site)(state, arrays)

    def forward(state: jax.Array, arrays: _Arrays) -> Any:
        return operation(state, arrays), arrays

    def backward(arrays: _Arrays, cotangents: tuple[Any, _Arrays]) -> Any:
        shares = (cotangent / divisor for cotangent in cotangents[1])
        return None, tuple(map(_typed_like, shares, arrays))

    operation.defvjp(forward, backward)
    return jax.jit(operation)


def _typed_like(cotangent: jax.Array, array: jax.Array) -> jax.Array:
    """In shard_map a result counts as equal on all devices, while the cotangent of an array that is
    not must have its type, which a choice between the two has. XLA drops the choice."""
    return jnp.where(True, cotangent, array)


def _batched(site: _Site) -> _Operation:
    """Under vmap: one allreduce of the whole batch, as there is one state."""

    @jax.custom_batching.custom_vmap
    def call(state: jax.Array, arrays: _Arrays) -> tuple[jax.Array, _Arrays]:
        return _call(site, state, arrays)

    @call.def_vmap
    def batch(axis_size: int, batched: Any, state: jax.Array, arrays: _Arrays) -> Any:
        if batched[0]:
            raise NotImplementedError(
                "vmap over the state of gqsgd.jax.allreduce; hint: in_axes=None for the state, "
                "out_axes=None for the one that is returned"
            )
        return call(state, arrays), tuple(batched)

    return call


def _call(site: _Site, state: jax.Array, arrays: _Arrays) -> tuple[jax.Array, _Arrays]:
    operands = (*arrays, state)
    call = jax.ffi.ffi_call(
        _handler.TARGET,
        [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands],
        # An allreduce whose result is unused still has to run: other ranks wait for this one.
        has_side_effect=True,
        input_output_aliases={k: k for k in range(len(operands))},
    )
    *results, passed_on = call(
        *operands,
        comms=np.array(site.comms, np.int32),
        quantizer=np.int32(site.quantizer),
        op=np.int32(site.op),
        schedule=np.int32(site.schedule),
    )
    return following(passed_on), tuple(results)
