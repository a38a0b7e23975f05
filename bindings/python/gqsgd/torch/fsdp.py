"""What FSDP2 (fully_shard) calls in place of its own collectives: ReduceScatter between the ranks
that share a model, AllReduce between its replicas (hybrid sharding)."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

import gqsgd
from gqsgd.presets import short_spec

from . import devices, groups, ops
from . import summary as _summary
from .policy import EMBEDDINGS, as_quantizer, keeps_zeros, require_saved
from .turns import take_turn


class _Collective:
    """What both are: a quantizer, the random key of its next call, and communicators, which the
    first backward makes, all ranks of a group together."""

    def __init__(
        self, quantizer: gqsgd.Quantizer | str, transport: str, options: dict[str, Any]
    ):
        quantizer = as_quantizer(quantizer)
        groups.check_connection(transport, options)
        self.quantizer = quantizer
        self._call_count = 0  # without those of communicators that count for themselves
        # Their counters when they began to: from the first capture of a CUDA graph on.
        self._counting: dict[gqsgd.Communicator, int] = {}
        self._call_ns: Counter[gqsgd.Communicator] = Counter()  # so far, but for calls on streams
        self._connection = {"transport": transport, **options}
        self._communicators: dict[
            tuple[dist.ProcessGroup, torch.device], gqsgd.Communicator
        ] = {}
        self._streams: dict[dist.ProcessGroup, Any] = {}  # of random numbers

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<{name} {short_spec(self.quantizer.spec)}, call {self.call_count}>"

    @property
    def call_count(self) -> int:
        """Calls so far: the step of the next one's random key. Once a CUDA graph has been captured,
        replays count too, and to read it waits for the device."""
        self._synchronize()
        return self._call_count + self._counted()

    @call_count.setter
    def call_count(self, call_count: int) -> None:
        self._synchronize()
        self._call_count = call_count
        for comm in self._counting:
            comm.counter = self._counting[comm] = call_count

    def _counted(self) -> int:
        return sum(comm.counter - before for comm, before in self._counting.items())

    def _synchronize(self) -> None:
        for (_, device), comm in self._communicators.items():
            if comm in self._counting:
                devices.cuda.synchronize(device)

    def _key(self, comm: gqsgd.Communicator, values: torch.Tensor) -> dict[str, Any]:
        """The random key of the next call: a number, or that of the communicator's counter, which
        replays of a graph advance."""
        is_new = comm not in self._counting
        if is_new and values.device != devices.CPU and devices.cuda.is_capturing():
            comm.counter = self._counting[comm] = self._call_count
        return {} if comm in self._counting else {"step": self._call_count}

    def _communicator(
        self, group: dist.ProcessGroup, device: torch.device
    ) -> gqsgd.Communicator:
        """That of a call, which is about to draw."""
        if (group, device) not in self._communicators:
            self._communicators[group, device] = groups.connect(
                group, device=device, **self._connection)
        if group not in self._streams:
            self._streams[group] = self._connection.get("stream_id", groups.stream_of(group))
        take_turn(self, self._streams[group], self.quantizer)
        return self._communicators[group, device]

    def _count(self, comm: gqsgd.Communicator, begin_ns: int) -> None:
        """A call that began then has ended."""
        if comm not in self._counting:
            self._call_count += 1
        if comm.transport != "nccl":
            self._call_ns[comm] += time.monotonic_ns() - begin_ns

    def summary(self) -> str:
        """What this rank has done so far, in lines to print: quantizer, calls, and of each
        communicator ranks and transport, bytes sent beside those of float32, and waiting time; and
        blocks that held NaN or infinity, if some did. On a GPU these are not counted."""
        lines = [("quantizer", short_spec(self.quantizer.spec)), ("calls", str(self.call_count))]
        for comm in self._communicators.values():
            lines += _summary.counted(comm, comm.stats(), self._call_ns[comm]).items()
        return "\n".join([repr(self)] + [f"  {name:<10}{line}" for name, line in lines])

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs for the same bits after it."""
        return {"quantizer": self.quantizer.spec, "call_count": self.call_count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from where `state_dict` was called. Raises InvalidArgument for another
        quantizer."""
        name = type(self).__name__
        require_saved(state["quantizer"], self.quantizer, f"this {name}", name)
        self.call_count = state["call_count"]

    def close(self) -> None:
        """Frees the communicators; the next backward makes new ones."""
        self._call_count += self._counted()  # without a wait: a device may wait for a lost rank
        self._counting.clear()
        self._streams.clear()
        while self._communicators:
            self._communicators.popitem()[1].close()
        self._call_ns.clear()


class ReduceScatter(_Collective):
    """What FSDP2 calls to add up gradients of which each rank keeps a slice.

        reduce_scatter = gqsgd.torch.ReduceScatter("blocks-8").attach(model)

    quantizer: a gqsgd.Quantizer or its specification. Values are rounded once and added as float32.
    transport, options: as for HookState.

    FSDP2 hands over slices in which parameters follow each other without their names, so that
    there is no policy: wrap apart what should stay as it is, and attach to the other modules. Norms
    and rotations go across the borders of parameters that are wrapped together: wrap layers one by
    one, so that small gradients do not take the error of large ones beside them. The communicator
    is made by the first backward, all ranks of the group together.
    """

    def __init__(
        self, quantizer: gqsgd.Quantizer | str = "", *, transport: str = "auto", **options: Any
    ):
        super().__init__(quantizer, transport, options)

    def attach(self, model: torch.nn.Module) -> ReduceScatter:
        """Makes every module of `model` that fully_shard has wrapped use this object; returns
        it. Warns of an embedding whose unused rows the quantizer gives noise."""
        for module in _wrapped(model):
            module.set_custom_reduce_scatter(self)
        _warn_of_noise(self.quantizer, model)
        return self

    def allocate(
        self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """Memory for FSDP2's input or output."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> None:
        devices.require_reachable(input_tensor, "the gradients of FSDP2")
        name = ops.find(op)
        if name is None or async_op:
            raise gqsgd.Unsupported(
                f"op is {op}, async_op is {async_op}; a reduce-scatter in codes adds or averages, "
                "and returns when it has; hint: no set_gradient_divide_factor"
            )
        comm = self._communicator(group, input_tensor.device)
        begin_ns = time.monotonic_ns()
        comm.reduce_scatter(
            input_tensor,
            self.quantizer,
            [output_tensor.numel()] * comm.size,
            name,
            output_tensor,
            **self._key(comm, input_tensor),
            stream=devices.current_stream(input_tensor),
        )
        self._count(comm, begin_ns)


class AllReduce(_Collective):
    """What FSDP2 calls to average sharded gradients over replicas of the model: hybrid sharding
    (HSDP), in which the replicas are on different machines.

        mesh = init_device_mesh("cuda", (2, 8), mesh_dim_names=("replicate", "shard"))
        fully_shard(model, mesh=mesh["shard"])
        all_reduce = gqsgd.torch.AllReduce("blocks-8", mesh["replicate"]).attach(model)

    quantizer: a gqsgd.Quantizer or its specification.
    replicas: a mesh of one dimension, or a process group: the ranks that have the same shards.
    op: "mean", as in torch's own hybrid sharding; "sum" where set_gradient_divide_factor divides by
        the number of all ranks.
    transport, options: as for HookState.

    fully_shard gets the mesh of the shards alone: given both dimensions, torch averages over the
    replicas itself, uncompressed, before it calls this. What ReduceScatter says of parameters
    without names holds here too. Every backward that reduce-scatters calls this as well:
    set_requires_gradient_sync(False) leaves both out, set_requires_all_reduce has no effect.
    """

    def __init__(
        self,
        quantizer: gqsgd.Quantizer | str,
        replicas: dist.ProcessGroup | dist.DeviceMesh,
        *,
        op: str | dist.ReduceOp = "mean",
        transport: str = "auto",
        **options: Any,
    ):
        super().__init__(quantizer, transport, options)
        self._op = ops.name_of(op)
        self.process_group = _group_of(replicas)

    def attach(self, model: torch.nn.Module) -> AllReduce:
        """Makes every module of `model` that fully_shard has wrapped call this object in backward,
        once it has reduce-scattered; returns it. Raises InvalidArgument where torch has gradients
        of the same ranks averaged or divided already. Warns of an embedding whose unused rows the
        quantizer gives noise."""
        modules = _wrapped(model)
        for name, parameter in model.named_parameters():
            self._require_foreign(name, parameter)
        for module in modules:
            module.set_all_reduce_hook(self)
        _warn_of_noise(self.quantizer, model)
        return self

    def _require_foreign(self, name: str, parameter: torch.Tensor) -> None:
        """Refuses a parameter whose mesh has other ranks of this group."""
        from torch.distributed.tensor import DTensor

        if not isinstance(parameter, DTensor):
            return
        mesh = parameter.device_mesh
        replicas = dist.get_process_group_ranks(self.process_group)
        ours = sorted(set(replicas) & set(mesh.mesh.flatten().tolist()))
        if len(ours) > 1:
            raise gqsgd.InvalidArgument(
                f"ranks {ours} are in the mesh of parameter {name} and among the replicas "
                f"{replicas}: torch reduces its gradients over them already; hint: "
                "fully_shard(..., mesh=mesh[\"shard\"]) and AllReduce(..., mesh[\"replicate\"])"
            )

    def __call__(self, shard: torch.Tensor) -> None:
        """Averages `shard`, in place, with those of the other replicas."""
        devices.require_reachable(shard, "the gradients of FSDP2")
        comm = self._communicator(self.process_group, shard.device)
        stream, begin_ns = devices.current_stream(shard), time.monotonic_ns()
        if stream is not None:  # FSDP2 frees a shard of another type than the parameters' at once
            devices.cuda.keep(shard, stream)
        comm.allreduce(
            shard, self.quantizer, self._op, out=shard, **self._key(comm, shard), stream=stream)
        self._count(comm, begin_ns)


def _wrapped(model: torch.nn.Module) -> list[Any]:
    """The modules of `model` that fully_shard has wrapped."""
    from torch.distributed.fsdp import FSDPModule  # a second and more, which DDP does not need

    wrapped = [module for module in model.modules() if isinstance(module, FSDPModule)]
    if not wrapped:
        raise gqsgd.InvalidArgument("no module of the model is wrapped; hint: fully_shard it")
    return wrapped


def _warn_of_noise(quantizer: gqsgd.Quantizer, model: torch.nn.Module) -> None:
    """An embedding's rows that no rank has used get gradients other than zero from some presets;
    without names of parameters there is no policy that would spare it."""
    if keeps_zeros(quantizer):
        return
    for name, module in model.named_modules():
        if isinstance(module, EMBEDDINGS):
            warnings.warn(
                f"{short_spec(quantizer.spec)} turns zeros into noise, and {name!r} is an "
                "embedding, whose unused rows get some; hint: blocks-8, or another one that "
                "keeps zeros (docs/PRESETS.md)",
                RuntimeWarning, stacklevel=3)
            return


def _group_of(replicas: Any) -> dist.ProcessGroup:
    if isinstance(replicas, dist.ProcessGroup):
        return replicas
    if not isinstance(replicas, dist.DeviceMesh):
        raise TypeError(
            f"replicas is a {type(replicas).__name__}, not a ProcessGroup or a DeviceMesh; hint: "
            'mesh["replicate"]'
        )
    if replicas.ndim != 1:
        raise gqsgd.InvalidArgument(
            f"the mesh of the replicas has {replicas.ndim} dimensions, not 1; hint: "
            'mesh["replicate"]'
        )
    return replicas.get_group()
