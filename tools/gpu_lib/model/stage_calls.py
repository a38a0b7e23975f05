"""Seconds of a call by stages, of any length: over NCCL (docs/COST.md), or by copies in a group of
threads or processes (src/transport/stream)."""

from .fused import FLOAT_BYTES

# Of a group without NCCL, whose hosts compare control messages: norms, codes and sums of all ranks;
# with blocks norms and merged norms, codes and sums; codes and sums.
_EXCHANGES = {"paper": 3, "blocks": 4, "floats": 2}
_FLOAT_KERNELS = 3


class StageCalls:
    """`found`: {(stage, format): (case, prediction)}; launches: those of command.launches()."""

    # Formats whose norm is that of another one.
    _NORMS = {"paper-ge8": "paper-gl8", "paper-gl4": "paper-gl8", "rotated-4": "rotated-8"}

    def __init__(self, device, found, launches):
        self._device, self._found, self._launches = device, found, launches

    def device_s(self, form, place, values):
        """(kernels, links): ranks that share a device take turns on it."""
        moved = moved_bytes(form, place, values)
        links = moved / self._device.link_bandwidth if place.over_links else 0.0
        return self._kernels_s(form, place, values), links

    def host_s(self, form):
        """By a communicator of NCCL that blocks, and by one that does not."""
        launched, exchanged = self._operations(form)
        device = self._device
        blocking_s = launched * device.enqueue_s + exchanged * device.enqueue_nccl_s
        return blocking_s, blocking_s + exchanged * device.nccl_thread_s

    def times(self, form, place, values):
        """Over NCCL, with what kernels and operations take to begin, by both."""
        launched, exchanged = self._operations(form)
        begin = launched * self._device.latency_s + exchanged * self._device.message_s
        busy = sum(self.device_s(form, place, values)) + begin
        return tuple(max(busy, host) for host in self.host_s(form))

    def by_copies_s(self, form, place, values):
        """Hosts wait for each other with the control messages, and in each exchange before and
        behind the copies. Those of threads, on one device here, run ahead of it. Those of
        processes, with a device each, wait for their streams as well, so that nothing overlaps."""
        device, kind = self._device, _kind_of(form)
        exchanges = _EXCHANGES[kind]
        launched = _FLOAT_KERNELS if form == "none" else self._launches[kind][0]
        host_barriers_s = (1 + 2 * exchanges) * device.host_barrier_s
        launches_s = launched * device.enqueue_s
        copies_s = exchanges * (place.ranks - 1) * device.enqueue_s
        kernels_s = (self._float_kernels_s(place, values) if form == "none" else
                     self._kernels_s(form, place, values))
        moved = moved_bytes(form, place, values)
        if place.over_links:
            return (host_barriers_s + max(kernels_s, launches_s) +
                    max(moved / device.link_bandwidth, copies_s))
        moved_s = 2 * place.ranks * moved / device.bandwidth  # read and written
        return max(host_barriers_s + launches_s + copies_s, kernels_s + moved_s)

    def _operations(self, form):
        return self._launches[_kind_of(form)]

    def _kernels_s(self, form, place, values):
        if form == "none":  # NCCL adds floats on their way
            return 0.0

        def seconds(stage, name=form):
            case, prediction = self._found[stage, name]
            return prediction.seconds / case.values * values

        whole = seconds("norm", self._NORMS.get(form, form)) + seconds("quantize") + seconds(
            "dequantize")
        sums = seconds("reduce_many n=8")
        return place.ranks_here * (whole + sums * (place.ranks + 1) / 9 / place.ranks)

    def _float_kernels_s(self, place, values):
        """Floats are copied to the arena, added and copied back."""
        moved = FLOAT_BYTES * values * (2 + 2 + (place.ranks + 1) / place.ranks)
        return place.ranks_here * moved / self._device.bandwidth


def _kind_of(form):
    if form == "none":
        return "floats"
    return "paper" if form.startswith("paper") else "blocks"


def moved_bytes(form, place, values):
    """To a rank, and from it: codes of its shard, and sums of the others'."""
    return 2 * (place.ranks - 1) / place.ranks * bits_of(form) / 8 * values


def bits_of(form):
    return 8 * FLOAT_BYTES if form == "none" else int(form[-1])
