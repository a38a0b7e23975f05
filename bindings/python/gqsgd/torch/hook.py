"""The communication hook of DistributedDataParallel, and the state that it works with."""
# Annotations here stay classes: DDP compares those of a hook with the classes that it expects.

import weakref
from typing import Any, Callable

import torch
import torch.distributed as dist

import gqsgd

from . import devices, groups
from .lanes import Lane, lane_of
from .layout import Layout, Segment
from .policy import Assignment, DefaultPolicy, Policy, keeps_zeros

_VERSION = 1  # of state_dict


class HookState:
    """What `allreduce_hook` knows of one model: formats, communicator, place in the random numbers.

        state = gqsgd.torch.HookState("blocks-8")
        model.register_comm_hook(state, gqsgd.torch.allreduce_hook)

    quantizer: a gqsgd.Quantizer or its text; "" is the default preset.
    process_group: that of the model; None is the default group.
    model: where the default policy looks for embeddings. Needed for quantizers that make noise of
        zeros (rotated ones), and for a policy that wants names and modules.
    policy: policy(name, parameter, module) -> quantizer, or text of one; by default DefaultPolicy.
        Must be the same on every rank.
    transport: "auto", "group", "process" or "nccl" (gqsgd.torch.connect).
    schedule: as for gqsgd.Communicator.allreduce, but not "sparse".
    communicator: a gqsgd.Communicator of the model's ranks to use in place of one of its own; the
        caller closes it, after the state.
    options: those of gqsgd.Communicator, timeout_ms=60000 for example.

    The first bucket of the first backward makes the communicator, all ranks together. Gradients are
    averaged in the order of the buckets while backward goes on: those on the CPU by a thread of the
    state, those on a GPU on a stream of the state.

    Pickles without communicator and group: afterwards it works for the default group, or what
    `bind` says. `state_dict` is the form for checkpoints. `close` ends it; so does being dropped.
    """

    def __init__(
        self,
        quantizer: gqsgd.Quantizer | str = "",
        process_group: dist.ProcessGroup | None = None,
        *,
        model: torch.nn.Module | None = None,
        policy: Policy | None = None,
        transport: str = "auto",
        schedule: str = "auto",
        communicator: gqsgd.Communicator | None = None,
        **options: Any,
    ):
        if isinstance(quantizer, str):
            quantizer = gqsgd.Quantizer(quantizer)
        self.quantizer = quantizer
        self.step = 0  #: backward passes so far: the step of the next one's random numbers
        self._policy = policy
        self._connection = {"transport": transport, **options}
        self._schedule = schedule
        self._start(process_group)
        self._borrowed = communicator
        if model is not None:
            self.bind(model)
        elif policy is None and not keeps_zeros(quantizer):
            raise gqsgd.InvalidArgument(
                "this quantizer turns zeros into noise, which embeddings must be kept from: give "
                "model=..., so that they are found, or a policy of your own; quantizer: "
                f"{quantizer.text}"
            )

    def __repr__(self) -> str:
        return f"<gqsgd.torch.HookState {self.quantizer.text!r}, step {self.step}>"

    def _start(self, process_group: dist.ProcessGroup | None) -> None:
        """What is not pickled, as it is at first."""
        self.process_group = process_group
        self._assignment = Assignment(self._policy or DefaultPolicy(self.quantizer))
        self._model_missing = not keeps_zeros(self.quantizer) and self._policy is None
        self._layout = Layout()
        self._waiting: list[Any] = []  # outcomes of buckets that are not on their way yet
        self._call_count = 0  # in this step
        self._device: torch.device | None = None  # of the gradients
        self._borrowed: gqsgd.Communicator | None = None
        self._lane: Lane | None = None
        self._end: Callable[[], None] | None = None

    def bind(
        self, model: torch.nn.Module, process_group: dist.ProcessGroup | None = None
    ) -> None:
        """Says which model a state is for that was unpickled, or made without one; also which
        group, unless it stays."""
        self.close()
        self.process_group = process_group or self.process_group
        self._device = next((each.device for each in model.parameters()), None)
        self._assignment.bind(model)
        self._layout = Layout(self._layout.numbers)
        self._model_missing = False

    @property
    def communicator(self) -> gqsgd.Communicator:
        """The communicator, for its `stats` for example; made by the first backward, or here, and
        then by all ranks together, for the device of the model. Backward uses it."""
        return self._way(self._device or devices.CPU).comm

    def _way(self, device: torch.device) -> Lane:
        """The lane of gradients on `device`, made at the first call."""
        if self._lane is None:
            comm = self._borrowed or groups.connect(
                self.process_group, device=device, **self._connection)
            lane = lane_of(comm, self._borrowed is not None, device)
            self._device, self._lane = device, lane
            self._end = weakref.finalize(self, _end, lane)
        elif device != self._device:
            raise gqsgd.Unsupported(
                f"gradients are on {device}, this state is for {self._device}; hint: one device "
                "for a model, and HookState(model=...) if it is moved before the first backward"
            )
        return self._lane

    def close(self) -> None:
        """Frees the communicator and what it works with, without waiting for other ranks; the next
        backward makes new ones. Also where the process group is gone already."""
        if self._end is not None:
            self._end()
        self._lane = self._end = None

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs for the same bits after it: plain numbers and texts."""
        return {
            "version": _VERSION,
            "quantizer": self.quantizer.text,
            "step": self.step,
            "layout": self._layout.numbers,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where `state_dict` was called, with any number of ranks; every rank calls it,
        between two backward passes. Raises InvalidArgument for another quantizer."""
        if (version := state.get("version")) != _VERSION:
            raise gqsgd.InvalidArgument(
                f"the checkpoint has version {version} of this state, not {_VERSION}; its keys: "
                f"{', '.join(map(str, state)) or 'none'}; hint: HookState.state_dict() makes one"
            )
        if state["quantizer"] != self.quantizer.text:
            raise gqsgd.InvalidArgument(
                f"the checkpoint was written with the quantizer {state['quantizer']!r}, this state "
                f"has {self.quantizer.text!r}; hint: HookState(checkpoint['quantizer'], ...)"
            )
        self.step, self._layout = state["step"], self._layout.resumed(state["layout"])

    def __getstate__(self) -> dict[str, Any]:
        return {
            "policy": self._policy,
            "connection": self._connection,
            "schedule": self._schedule,
            **self.state_dict(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.quantizer = gqsgd.Quantizer(state["quantizer"])
        self._policy, self._connection = state["policy"], state["connection"]
        self._schedule = state["schedule"]
        self._start(None)
        self.load_state_dict(state)

    def reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Starts to average a bucket; the future holds its buffer. For hooks of your own."""
        buffer = bucket.buffer()
        devices.require_reachable(buffer, f"bucket {bucket.index()}")
        if self._model_missing:
            raise gqsgd.InvalidArgument("an unpickled state: call bind(model) before backward")
        lane = self._way(buffer.device)
        lane.comm.check()
        if bucket.index() == 0:
            self._waiting, self._call_count = [], 0
            lane.begin()
        outcome = lane.outcome(buffer)
        self._waiting.append(outcome)
        parts = self._layout.parts(bucket)
        if parts:
            waiting, self._waiting = self._waiting, []
            lane.run([call for part in parts for call in self._calls(part)], waiting)
        if bucket.is_last():
            self.step += 1
        return outcome.future()

    def _calls(self, part: list[Segment]) -> list[dict[str, Any]]:
        """The arguments of one allreduce for each quantizer of a part."""
        by_quantizer: dict[gqsgd.Quantizer, list[torch.Tensor]] = {}
        for segment in part:
            quantizer = self._assignment.quantizer_of(segment.parameter)
            by_quantizer.setdefault(quantizer, []).append(segment.gradient)
        calls = []
        for quantizer, gradients in by_quantizer.items():
            place = {"step": self.step, "index": self._call_count}
            calls.append({"arrays": gradients, "out": gradients, "q": quantizer,
                          "schedule": self._schedule, **place})
            self._call_count += 1
        return calls


def allreduce_hook(
    state: HookState, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """The hook itself: `model.register_comm_hook(state, gqsgd.torch.allreduce_hook)`."""
    if not isinstance(state, HookState):
        raise TypeError(
            f"state is a {type(state).__name__}; hint: model.register_comm_hook("
            "gqsgd.torch.HookState(), gqsgd.torch.allreduce_hook)"
        )
    return state.reduce(bucket)


def _end(lane: Lane) -> None:
    try:
        lane.close()
    except gqsgd.Forked:  # a loader's process that ends: the parent keeps it
        return
