"""The communication hook of DistributedDataParallel, and the state that it works with."""
# Annotations here stay classes: DDP compares those of a hook with the classes that it expects.

import os
import weakref
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, Callable

import torch
import torch.distributed as dist

import gqsgd
from gqsgd._abi import SCHEDULES
from gqsgd.presets import short_spec

from . import ddp, devices, groups
from . import summary as _summary
from .budget import Budget, budget_quantizer, checked_bits, is_saved_budget, spending_of
from .calls import Calls
from .lanes import Lane, StreamLane, lane_of
from .layout import Layout
from .policy import Assignment, DefaultPolicy, Policy, as_quantizer, keeps_zeros, require_saved
from .report import Records, Report
from .steps import Steps
from .turns import take_turn
from .unused import UnusedWarning

_VERSION = 2  # of state_dict; 1 had no budget
_UNUSED = (
    "a gqsgd.torch.HookState ends at step 0: its hook was never called, and gradients went as if "
    "it were not there; hint: model.register_comm_hook(state, gqsgd.torch.allreduce_hook) on the "
    "DistributedDataParallel model itself; frameworks may register hooks on GPUs only"
)


def _check_saved(state: Mapping[str, Any]) -> None:
    """Raises InvalidArgument for what no state_dict() makes."""
    if (version := state.get("version")) not in (1, _VERSION):
        raise gqsgd.InvalidArgument(
            f"the checkpoint has version {version} of this state, not 1 or {_VERSION}; "
            f"its keys: {', '.join(map(str, state)) or 'none'}; hint: HookState.state_dict() "
            "makes one"
        )
    step, budget = state.get("step"), state.get("budget")
    for name, is_right in (("quantizer", isinstance(state.get("quantizer"), str)),
                           ("step", isinstance(step, int) and step >= 0),
                           ("layout", isinstance(state.get("layout"), list)),
                           ("budget", budget is None or is_saved_budget(budget))):
        if not is_right:
            raise gqsgd.InvalidArgument(
                f"the checkpoint's {name} is {state.get(name)!r}, which this state does not "
                "write; hint: HookState.state_dict() makes one"
            )


class HookState:
    """The state of `allreduce_hook` for one model: quantizers, communicator and random key.

        state = gqsgd.torch.HookState("blocks-8")
        model.register_comm_hook(state, gqsgd.torch.allreduce_hook)

    quantizer: a gqsgd.Quantizer or its specification; "" is the default preset.
    budget: bits, 2.5 to 8, that the codes of a value have on average over the whole model, more in
        calls whose gradients are larger: the mean_bits of each call of adaptive widths or Rice
        codes, instead of the quantizer's own; without a quantizer "adaptive-4", "rice-4" for less
        error on slow links. It follows from averages of earlier steps, which all ranks have; before
        the second step calls are equal, to a half. Parameters that go in another format (biases, as
        float32) are outside of it; norms and scales, 24 bits for each 128 values, come on top.
        `print(state.report())` shows what it became.
    process_group: None is that of the DistributedDataParallel model that has the state, or, where
        there is none, the default group.
    model: where the default policy looks for embeddings. Needed for quantizers that make noise of
        zeros (rotated ones), and for a policy that wants names and modules.
    policy: policy(name, parameter, module) -> quantizer, or its specification; by default
        DefaultPolicy. Must be the same on every rank.
    transport: "auto", "process", "network", "group" or "nccl" (gqsgd.torch.connect).
    schedule: as for gqsgd.Communicator.allreduce, but not "sparse".
    gather_floats: parameters that go as float32 in each bucket (biases, norm layers) are gathered,
        those of all buckets for one call; for DistributedDataParallel(gradient_as_bucket_view=True)
        and other models of many buckets. The futures of buckets are then set with that of the last
        one, so a hook of your own must not wait for them.
    communicator: a gqsgd.Communicator of the model's ranks to use in place of one of its own; the
        caller closes it, after the state. Calls of the caller's on it draw the state's random
        numbers, unless they have another seed.
    options: those of gqsgd.Communicator, timeout_ms=60000 for example.

    Arguments are checked here, and with `model` what the policy returns for each of its parameters.
    The first bucket of the first backward makes the communicator, all ranks together, or `connect`
    before. Quantizer, budget, gather_floats and schedule are equal on all ranks: they are compared
    when the communicator is made, and Mismatch on all ranks names what differs. With
    `communicator=` they are not compared, and a difference shows only in calls that it alters.
    Gradients are averaged in the order of the buckets while backward continues: those on the CPU by
    a thread of the state, those on a GPU on a stream of the state.

    On a GPU a training step may be captured in a CUDA graph, after some outside of it; each replay
    is the next step (docs/PYTORCH_GPU.md).

    `print(state.summary())` shows bytes sent beside those of float32, waiting time and schedule.

    Pickles without communicator and group: afterwards it works for the default group, or the one
    given to `bind`. `state_dict` is the form for checkpoints. `close` ends it; so does being
    dropped. A state that ends before its hook was ever called warns (RuntimeWarning).
    """

    def __init__(
        self,
        quantizer: gqsgd.Quantizer | str = "",
        process_group: dist.ProcessGroup | None = None,
        *,
        budget: float | None = None,
        model: torch.nn.Module | None = None,
        policy: Policy | None = None,
        transport: str = "auto",
        schedule: str = "auto",
        gather_floats: bool = False,
        communicator: gqsgd.Communicator | None = None,
        **options: Any,
    ):
        if budget is not None:
            quantizer = budget_quantizer(quantizer, checked_bits(budget))
        else:
            quantizer = as_quantizer(quantizer)
        _check_arguments(process_group, policy, schedule, communicator)
        groups.check_connection(transport, options)
        self.quantizer = quantizer
        self._policy = policy
        self._connection = {"transport": transport, **options}
        self._schedule, self._gathers = schedule, gather_floats
        self._budget = (None if budget is None
                        else Budget(budget, spending_of(self.quantizer)))
        self._start(process_group)
        self._borrowed = communicator
        if model is not None:
            self.bind(model)
        elif policy is None and not keeps_zeros(quantizer):
            spec = short_spec(quantizer.spec)
            raise gqsgd.InvalidArgument(
                f"{spec} turns zeros into noise, which embeddings must be kept from; hint: "
                f'HookState("{spec}", model=net), so that they are found, or a policy of your own'
            )
        self._unused = UnusedWarning(self, _UNUSED)  # not for copies: they may be for other ends

    def __repr__(self) -> str:
        budget = "" if self._budget is None else f", budget {self._budget.bits:g}"
        return f"<HookState {short_spec(self.quantizer.spec)}{budget}, step {self.step}>"

    def _start(self, process_group: dist.ProcessGroup | None) -> None:
        """What is not pickled, as it is at first."""
        self.process_group = process_group
        self._assignment = Assignment(self._policy or DefaultPolicy(self.quantizer))
        self._model_missing = not keeps_zeros(self.quantizer) and self._policy is None
        self._layout = Layout()
        self._sample = _summary.Sample()
        self._records = Records(self._budget)
        self._calls = Calls(
            self._assignment, self._records, self._budget, self._schedule, self._gathers)
        self._steps, self._passes = Steps(), ddp.Passes()
        self._model_seen = False  # since there is a lane
        self._connected_group: dist.ProcessGroup | None = None  # None: the default group
        self._skips = False  # whether buckets may be left out
        self._waiting: list[Any] = []  # outcomes of buckets that are not on their way yet
        self._device: torch.device | None = None  # of the gradients
        self._borrowed: gqsgd.Communicator | None = None
        self._lane: Lane | None = None
        self._stream: Hashable = None  # of random numbers, once there is a lane
        self._end: Callable[[], None] | None = None
        self._unused: UnusedWarning | None = None

    @property
    def step(self) -> int:
        """Backward passes so far: the step of the next one's random key. Once a CUDA graph has been
        captured, replays count it on the device, and to read it waits for the current stream."""
        return self._steps.number

    @step.setter
    def step(self, step: int) -> None:
        self._steps.number = step

    def bind(
        self, model: torch.nn.Module, process_group: dist.ProcessGroup | None = None
    ) -> None:
        """Sets the model of a state that was unpickled, or made without one; also which
        group, unless it stays. Raises InvalidArgument where the policy returns no quantizer for a
        parameter that gets gradients."""
        self._disconnect()
        self.process_group = process_group or self.process_group
        self._device = next((each.device for each in model.parameters()), None)
        self._assignment.bind(model)
        for parameter in model.parameters():
            if parameter.requires_grad:
                self._assignment.quantizer_of(parameter)
        self._layout = Layout(self._layout.numbers)
        self._calls.forget()
        self._model_missing = False

    @property
    def communicator(self) -> gqsgd.Communicator | None:
        """The communicator, for its `stats` for example, which any thread may call.
        None before the first backward or `connect` has made it, and after `close`."""
        lane = self._lane
        return self._borrowed if lane is None else lane.comm

    def connect(self) -> gqsgd.Communicator:
        """Makes the communicator now instead of in the first backward, for the device of the model
        (the CPU without `model`), and returns it. Every rank of the group calls this; it waits for
        them up to timeout_ms. Raises what gqsgd.torch.connect does, and Mismatch where settings of
        the states differ."""
        return self._way(self._device or devices.CPU).comm

    def _way(self, device: torch.device) -> Lane:
        """The lane of gradients on `device`, made at the first call."""
        if self._lane is None:
            if device != devices.CPU:
                devices.require_no_capture()
            comm = self._connected(device)
            lane = lane_of(comm, self._borrowed is not None, device)
            self._device, self._lane, self._stats_before = device, lane, comm.stats()
            self._model_seen = False
            self._records.forget_measuring()
            if isinstance(lane, StreamLane):
                self._steps.attach(device, lane.stream)
            self._end = weakref.finalize(self, _end, lane)
        elif device != self._device:
            raise gqsgd.Unsupported(
                f"gradients are on {device}, this state is for {self._device}; hint: one device "
                "for a model, and HookState(model=...) if it is moved before the first backward"
            )
        return self._lane

    def _connected(self, device: torch.device) -> gqsgd.Communicator:
        if self._borrowed is not None:
            self._stream = weakref.ref(self._borrowed)  # who else has it draws the same
            return self._borrowed
        group = self._group()
        comm = groups.connect_equal(group, self._settings(), device=device, **self._connection)
        self._stream = self._connection.get("stream_id", groups.stream_of(group))
        self._connected_group = group
        return comm

    def _group(self) -> dist.ProcessGroup | None:
        group = ddp.group_of_models(self)
        if group is not None and self.process_group is not None:
            ddp.require_same(self.process_group, group)
        return self.process_group or group

    def _see_model(self) -> None:
        """Once for a lane, when a bucket has come: before, `connect` may have known no model."""
        group = None if self._borrowed is not None else ddp.group_of_models(self)
        if group is not None:
            ddp.require_connected(self._connected_group, group)
        self._skips, self._model_seen = ddp.skips_buckets(self), True

    def _settings(self) -> dict[str, Any]:
        """What is equal on all ranks. The quantizer follows from the budget and comes after it."""
        return {
            "budget": None if self._budget is None else self._budget.bits,
            "gather_floats": bool(self._gathers),
            "schedule": self._schedule,
            "quantizer": short_spec(self.quantizer.spec),
        }

    def summary(self, measure: bool = False) -> str:
        """What this rank has done so far, in lines to print: ranks and transport, quantizer, steps,
        bytes sent beside those of float32, waiting time, schedule and error; and blocks of codes
        that held NaN or infinity, if some did. On a GPU these are not counted.

        measure: measures the error too: ||G - mean||^2 / ||mean||^2 of an allreduce of a sample,
            at most 65,536 values from all tensors of the longest call that goes in codes, as each
            rank had them in the last step that is a multiple of 16; `measure_errors` measures each
            parameter. A collective, of two allreduces of the sample, which no summary counts: every
            rank calls it, between two backward passes. Gradients on the CPU only, otherwise
            Unsupported.
        """
        error = "summary(measure=True) measures it, on all ranks together"
        if measure:
            error = self._measured_error()
        lines = {"quantizer": short_spec(self.quantizer.spec), "steps": str(self.step)}
        if self._lane is not None:
            comm = self._lane.comm
            schedule = _summary.schedule_line(self._schedule, self._lane, self._has_costs())
            stats = comm.stats().since(self._stats_before).since(self._records.measuring())
            lines |= _summary.counted(comm, stats, self._lane.call_ns)
            lines |= {"schedule": schedule, "error": error}
        return "\n".join([repr(self)] + [f"  {name:<10}{line}" for name, line in lines.items()])

    def _measured_error(self) -> str:
        """A line of the summary, which leaves its counters as they were."""
        if self._lane is None:
            return _summary.measured(self._sample, None, self._schedule)
        comm = self._lane.comm
        counted = comm.stats().since(self._stats_before)
        error = _summary.measured(self._sample, self._lane, self._schedule)
        self._stats_before = comm.stats().since(counted)
        return error

    def report(self) -> Report:
        """What each parameter got in the last backward pass, as rows (`rows`) and as a table to
        print: name, values, format, call, bits for each value, bytes and error, and the sum of the
        model. Of this rank, and no collective; call it between two backward passes.

        Measured: bytes, by the communicator's counters around each call, control messages left out,
        and bits from them, where float32 has 32: codes with their norms and scales. In a call of
        several parameters both are those of the call, bytes in proportion to values: which of its
        blocks got more is not in them. Errors, if the pass was one for `measure_errors`. Computed:
        the mean_bits of adaptive calls. Not known (None) on a GPU: bits, bytes and errors.
        """
        report = self._records.report()
        return replace(report, step=self.step - 1) if self._steps.on_device else report

    def measure_errors(self) -> None:
        """Has the next backward pass measure the error of each parameter for `report`: ||G -
        mean||^2 / ||mean||^2, G the average as it is used, mean that of a second allreduce, in
        float32, of what goes in codes. That pass needs a copy of each bucket, and bytes that the
        communicator's counters have, and neither report nor summary. Every rank calls it, between
        two backward passes. Gradients on the CPU only, otherwise Unsupported.
        """
        if self._device not in (None, devices.CPU):
            raise gqsgd.Unsupported(
                f"errors are measured on values in host memory, and these gradients are on "
                f"{self._device}; hint: gqsgd.expected_error(q, arrays) with gradients of all ranks"
            )
        self._records.errors_wanted = True

    def _has_costs(self) -> bool:
        """Whether schedule="auto" may be another than direct."""
        named = self._borrowed is not None or "costs" in self._connection
        return named or bool(os.environ.get("GQSGD_COSTS"))

    def close(self) -> None:
        """Frees the communicator and what it works with, without waiting for other ranks; the next
        backward makes new ones. Also where the process group is gone already. Warns if the hook was
        never called."""
        self._disconnect()
        if self._unused is not None:
            self._unused.end()

    def _disconnect(self) -> None:
        self._waiting, self._passes = [], ddp.Passes()
        if self._end is not None:
            self._end()
        self._lane = self._end = None

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs for the same bits after it: plain numbers and strings."""
        return {
            "version": _VERSION,
            "quantizer": self.quantizer.spec,
            "step": self.step,
            "layout": self._layout.numbers,
            "budget": None if self._budget is None else self._budget.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from where `state_dict` was called, with any number of ranks; every rank calls
        it, between two backward passes. Raises InvalidArgument for another quantizer or budget.
        Versions 1 and 2 are read; 1 is that of states without a budget."""
        _check_saved(state)
        saved = state.get("budget")
        bits = None if saved is None else saved["bits"]
        own_bits = None if self._budget is None else self._budget.bits
        if bits != own_bits:
            raise gqsgd.InvalidArgument(
                f"the checkpoint was written with budget={bits}, this state has budget={own_bits}; "
                f"hint: HookState(budget={bits}, ...)"
            )
        require_saved(state["quantizer"], self.quantizer, "this state", "HookState")
        self.step, self._layout = state["step"], self._layout.resumed(state["layout"])
        if self._budget is not None:
            self._budget.load_state_dict(saved)
        if self.step > 0 and self._unused is not None:
            self._unused.used()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "policy": self._policy,
            "connection": self._connection,
            "schedule": self._schedule,
            "gather_floats": self._gathers,
            **self.state_dict(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.quantizer = gqsgd.Quantizer(state["quantizer"])
        self._policy, self._connection = state["policy"], state["connection"]
        self._schedule, self._gathers = state["schedule"], state.get("gather_floats", False)
        budget = state.get("budget")
        self._budget = (None if budget is None
                        else Budget(budget["bits"], spending_of(self.quantizer)))
        self._start(None)
        self.load_state_dict(state)

    def reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Starts to average a bucket; the future holds its buffer. For hooks of your own, which do
        not wait for it where floats are gathered, nor in the first two passes after
        load_state_dict: it is set after the last bucket was given."""
        if self._unused is not None:
            self._unused.used()
        buffer = bucket.buffer()
        devices.require_reachable(buffer, f"bucket {bucket.index()}")
        if self._model_missing:
            raise gqsgd.InvalidArgument("an unpickled state: call bind(model) before backward")
        lane = self._way(buffer.device)
        lane.comm.check()
        if not self._model_seen:
            self._see_model()
        outcome, place = lane.outcome(buffer), self._passes.place(bucket)
        if place.is_first:
            lane.begin()
            self._begin()
        self._waiting.append(outcome)
        recorded = self._calls.of(self._layout.parts(bucket, place), place.is_last)
        if recorded:
            calls = [call for call, _ in recorded]
            if lane.on_host:
                self._sample.take(self._steps.current, calls)
            complete = []
            if not self._calls.is_gathering:
                complete, self._waiting = self._waiting, []
            lane.run(calls, complete, [record for _, record in recorded])
        self._steps.count()
        return outcome.future()

    def _begin(self) -> None:
        if self._skips and (self._gathers or self._layout.is_gathering):
            raise gqsgd.Unsupported(
                "DistributedDataParallel(skip_all_reduce_unused_params=True) leaves out buckets, "
                "perhaps the last one, for which a state waits with gather_floats and after "
                "load_state_dict; hint: leave that argument out"
            )
        take_turn(self, self._stream, self.quantizer)
        self._waiting = []
        self._steps.begin()
        step = None if self._steps.on_device else self._steps.current
        self._calls.begin(self._steps.key)
        self._records.begin(-1 if step is None else step)
        if self._budget is not None:
            self._budget.begin(step)


def allreduce_hook(
    state: HookState, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """The hook itself: `model.register_comm_hook(state, gqsgd.torch.allreduce_hook)`."""
    if not isinstance(state, HookState):
        raise TypeError(
            f"state is a {type(state).__name__}; hint: model.register_comm_hook("
            "gqsgd.torch.HookState(), gqsgd.torch.allreduce_hook)"
        )
    if isinstance(bucket, tuple):  # a gradient and its parameter
        raise gqsgd.Unsupported(
            "torch._dynamo.config.optimize_ddp is a Python reducer's, which has no buckets; hint: "
            "optimize_ddp = True before DistributedDataParallel(...)"
        )
    return state.reduce(bucket)


def _check_arguments(
    process_group: Any, policy: Any, schedule: Any, communicator: Any
) -> None:
    """Those of HookState that would otherwise fail in the first backward."""
    for name, value, kind, source in (
        ("process_group", process_group, dist.ProcessGroup, "torch.distributed.new_group"),
        ("communicator", communicator, gqsgd.Communicator, "gqsgd.torch.connect"),
    ):
        if value is not None and not isinstance(value, kind):
            raise TypeError(
                f"{name} is a {type(value).__name__}, not a {kind.__name__}; hint: {source}() "
                "makes one"
            )
    if policy is not None and not callable(policy):
        raise TypeError(
            f"policy is a {type(policy).__name__}, not a function (name, parameter, module) that "
            "returns a quantizer"
        )
    accepted = [name for name in SCHEDULES if name != "sparse"]
    if schedule not in accepted:
        raise gqsgd.InvalidArgument(
            f"schedule is {schedule!r}; accepted are {', '.join(accepted)}")


def _end(lane: Lane) -> None:
    try:
        lane.close()
    except gqsgd.Forked:  # a loader's process that ends: the parent keeps it
        return
