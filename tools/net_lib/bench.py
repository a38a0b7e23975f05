"""One rate of tools/netbench: who takes how long for the same allreduce."""

import json
import statistics
import tempfile
from pathlib import Path

from . import gloo
from .mpi import Mpirun
from .network import Network
from .passes import seconds_of_passes
from .ranks import outputs_of
from .report import NETWORK

FLOAT_BYTES = 4
GLOO, MPI = "Gloo float32", "MPI_Allreduce float32"
GLOO_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}  # of a value on its way


def measure(arguments, rate):
    """{"rate", "hosts", "count", "rows"}; a row has name, bytes, seconds and, for quantizers,
    limit_seconds: its bytes at the goodput of the baseline, one norm and one dequantize pass."""
    with Network(arguments.hosts, rate) as network:
        before = _gloo_runs(arguments, network)
        rows = _mpi_rows(arguments, network) if "mpi" in arguments.transport else []
        rows += _network_rows(arguments, network) if "network" in arguments.transport else []
        after = _gloo_runs(arguments, network)  # the other half: drifts hit both sides
    if before:
        rows = gloo_rows(arguments, before, after) + rows
    else:
        rows.sort(key=lambda row: row["name"] != MPI)
    base = rows[0]
    for row in rows:
        row["speedup"] = base["seconds"] / row["seconds"]
        if "passes_seconds" in row:
            at_goodput = row["bytes"] / base["bytes"] * base["seconds"]
            row["limit_seconds"] = at_goodput + row["passes_seconds"]
    return {"rate": rate, "hosts": arguments.hosts, "count": arguments.count, "rows": rows}


def float_bytes(arguments):
    """What each rank sends in a float32 allreduce of the least bytes."""
    hosts = arguments.hosts
    return 2 * (hosts - 1) / hosts * FLOAT_BYTES * arguments.count


def _gloo_runs(arguments, network):
    """{dtype: what gloo.measured has} of half of the calls."""
    if arguments.no_gloo:
        return {}
    half = (arguments.iterations + 1) // 2
    return {dtype: gloo.measured(network, dtype, arguments.count, half) for dtype in GLOO_BYTES}


def gloo_rows(arguments, before, after):
    """A row for each dtype that values travelled as, float32 first."""
    rows = []
    for dtype, size_bytes in GLOO_BYTES.items():
        calls = before[dtype]["seconds"] + after[dtype]["seconds"]
        rows.append({"name": f"Gloo {dtype}", "calls": calls, "nmse": before[dtype]["nmse"],
                     "bytes": float_bytes(arguments) * size_bytes / FLOAT_BYTES,
                     "seconds": statistics.median(calls)})
    return rows


def _network_rows(arguments, network):
    """The library over UCX."""
    program = Path(__file__).with_name("library_rank.py")
    output = outputs_of(network, "the library over UCX", program, arguments.count,
                        arguments.iterations, arguments.schedule, arguments.comm_options, "none",
                        *_formats(arguments))[0]
    return [_network_row(arguments, row) for row in json.loads(output)]


def _network_row(arguments, row):
    found = {"name": row["format"] + NETWORK, "bytes": row["bytes"], "calls": row["seconds"],
             "seconds": statistics.median(row["seconds"]), "nmse": row["nmse"]}
    if row["format"] != "none":
        found["passes_seconds"] = seconds_of_passes(row["format"], arguments.count,
                                                    arguments.hosts)
    return found


def _formats(arguments):
    return arguments.preset.split(",") + arguments.format


def _mpi_rows(arguments, network):
    with tempfile.TemporaryDirectory(prefix="gqsgd-netbench-") as folder:
        results = Path(folder) / "perf.json"
        size = str(FLOAT_BYTES * arguments.count)
        command = [str((arguments.build / "bench/gqsgd-perf-mpi").resolve()), "-b", size, "-e",
                   size, "-n", str(arguments.iterations), "--schedule", arguments.schedule,
                   "--json", str(results)]
        for spec in _formats(arguments):
            command += ["--format", spec]
        if arguments.comm_options:
            command += ["--comm-options", arguments.comm_options]
        mpirun = Mpirun(network, arguments.mpirun)
        try:
            mpirun.run(*command)
        finally:
            mpirun.close()
        perf = json.loads(results.read_text())
    return [_row(arguments, row) for row in perf["rows"]]


def _row(arguments, row):
    quantized = row["format"] not in ("none", "MPI_Allreduce")
    found = {"name": MPI if row["format"] == "MPI_Allreduce" else row["format"],
             "bytes": row["wire"] or float_bytes(arguments),
             "seconds": row["out_of_place"]["time_us"] * 1e-6, "nmse": row["nmse"]}
    if quantized:
        found["passes_seconds"] = seconds_of_passes(row["format"], arguments.count,
                                                    arguments.hosts)
    return found
