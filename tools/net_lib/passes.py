"""Time of one norm pass and one dequantize pass, which a wire cannot hide. Rice codes have no norms
and no stages to time: their limit is that of their bytes alone."""

import functools
import json
import os
import statistics
import subprocess
import sys

_PROGRAM = """
import json, sys, time
import numpy as np
import gqsgd
spec, count = sys.argv[1], int(sys.argv[2])
q, site = gqsgd.Quantizer(spec), gqsgd.Site(rank=0, size=1, step=0)
if "levels=rice" in q.spec:
    sys.exit(print(0))
x = np.random.default_rng(1).standard_normal(count).astype(np.float32)
norms = gqsgd.norm(x, q, site=site)
words, scales = gqsgd.reduce_many([gqsgd.quantize(x, q, norms, site=site)], q, norms,
                                  count=count, site=site)
out, seconds = np.empty(count, np.float32), []
widths_of = {"norms": norms} if "width=adaptive" in q.spec else {}
for _ in range(7):
    begin = time.perf_counter()
    gqsgd.norm(x, q, site=site)
    gqsgd.dequantize(words, q, scales, count, out=out, site=site, **widths_of)
    seconds.append(time.perf_counter() - begin)
print(json.dumps(sorted(seconds)[3]))
"""


@functools.cache
def seconds_of_passes(spec, value_count, process_count):
    """Median over as many processes at once as there are hosts, since they share this machine."""
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-c", _PROGRAM, spec, str(value_count)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
               for _ in range(process_count)]
    outputs = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError(f"the passes of {spec} could not be timed")
    return statistics.median(json.loads(output) for output in outputs)
