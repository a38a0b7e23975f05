"""The page of the table, from what was measured."""

from torch_lib.training import perceptron


def page(found, ranks, seeds, steps, machine, command):
    """Markdown: found is what command.measure returned."""
    value_count = sum(parameter.numel() for parameter in perceptron(0).parameters())
    lines = [
        "# Hooks of DistributedDataParallel", "",
        f"A perceptron of {value_count:,} parameters learns handwritten digits on {ranks} "
        "processes of one machine",
        "over Gloo; buckets of 4 MB, SGD with momentum, 32 images per rank.", "",
        f"- {machine}",
        f"- command: `{command}`",
        f"- ms: medians of {steps} steps of rank 0; MB: what a rank sends in a step, by the "
        "kernel's counters of its", "  TCP sockets, or by the library's in shared memory",
        f"- loss: mean of the last {max(1, steps // 10)} steps, then over {seeds} seeds; +- is the "
        "standard deviation over seeds",
        "- PowerSGD and the quantization hooks have one bucket at a time: on Gloo the callbacks of "
        "two wait for",
        "  each other for ever. Quantization hooks get Gloo's results in another form, or they "
        "fail.", "  torch's hook for bfloat16 is for CUDA alone.", "",
        "| hook | ms per step | MB per step | loss |", "|---|---|---|---|",
    ]
    for name, (time_ms, sent_bytes, loss, spread) in found["hooks"].items():
        shown = f"`{name.partition(',')[0]}`, {name.partition(', ')[2]}" if "," in name else name
        lines.append(f"| {shown} | {time_ms:.1f} | {sent_bytes / 1e6:.2f} "
                     f"| {loss:.4f} +- {spread:.4f} |")
    direct_ms, hook_ms = found["overhead"]
    lines += [
        "", "*process* is shared memory, *group* sends and receives of a Gloo group "
        "([PYTORCH.md](../PYTORCH.md)).", "", "## What the hook adds", "",
        f"One bucket of 25 MiB, `blocks-8`, shared memory: {direct_ms:.2f} ms for "
        "`Communicator.allreduce_many`,",
        f"{hook_ms:.2f} ms from the call of the hook to the end of its future: "
        f"{100 * (hook_ms / direct_ms - 1):+.1f} %.", "", "## Overlap with backward", "",
        "One backward of the same model with 256 images per rank. Compute goes on after a bucket "
        "is ready, while the", "bucket travels:", "",
        "| bucket | values | ready, ms | done, ms |", "|---|---|---|---|",
    ]
    buckets, end_ms = found["overlap"]
    for number, (count, ready_ms, done_ms) in enumerate(buckets):
        lines.append(f"| {number} | {count:,} | {ready_ms:.1f} | {done_ms:.1f} |")
    last_ms = buckets[-1][1]
    own_ms, beside_ms = found["trace"]
    travelling_ms = sum(done - ready for _, ready, done in buckets)
    hidden_ms = sum(max(0.0, min(done, last_ms) - ready) for _, ready, done in buckets)
    lines += [
        "", f"The last gradient was there after {last_ms:.1f} ms, backward returned after "
        f"{end_ms:.1f} ms; {100 * hidden_ms / travelling_ms:.0f} % of the buckets'",
        "time from ready to done lay beside compute.", "",
        f"In a trace of PyTorch's profiler (`--trace FILE`) `gqsgd.allreduce_many` ran for "
        f"{own_ms:.1f} ms on its",
        f"own thread, {100 * beside_ms / own_ms:.0f} % of it beside operators of backward.", "",
    ]
    return "\n".join(lines)
