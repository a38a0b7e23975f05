"""The sites of tools/diloco_table as hosts that are network namespaces."""

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

from net_lib.network import Network
from net_lib.ranks import outputs_of

_FOLDER = Path(__file__).parent
_LIGHTHOUSE_PORT = 29510


def outer_steps(setting, site_count, rate):
    """What rank 0 of site.py prints."""
    with Network(site_count, rate) as network:
        output = outputs_of(network, "a site", _FOLDER / "site.py", json.dumps(setting))[0]
    return json.loads(output)


def torchft_training(setting, site_count, rate):
    """{"loss", "seconds": of each outer step, from when the last site has begun it, "bytes": the
    most of a site}."""
    with Network(site_count, rate) as network, _lighthouse(network.hosts[0], site_count) as address:
        outputs = outputs_of(network, f"torchft with {setting['name']}",
                             _FOLDER / "torchft_site.py",
                             json.dumps({**setting, "lighthouse": address}))
    sites = [json.loads(output.splitlines()[-1]) for output in outputs]
    digests = {site["digest"] for site in sites}
    if len(digests) > 1:
        raise RuntimeError(f"the sites of {setting['name']} end with different parameters: "
                           f"{sorted(digests)}")
    return {"loss": sites[0]["loss"],
            "seconds": [min(step) for step in zip(*(site["seconds"] for site in sites))],
            "bytes": [max(step) for step in zip(*(site["bytes"] for site in sites))]}


@contextlib.contextmanager
def _lighthouse(host, site_count):
    """Its address; it runs on `host`."""
    program = shutil.which("torchft_lighthouse")
    if program is None:
        raise RuntimeError("torchft_lighthouse is not on the PATH: pip install torchft")
    running = subprocess.Popen(
        host.command(program, "--min_replicas", str(site_count), "--join_timeout_ms", "60000",
                     "--heartbeat_timeout_ms", "60000", "--bind",
                     f"{host.address}:{_LIGHTHOUSE_PORT}"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://{host.address}:{_LIGHTHOUSE_PORT}"
    finally:
        running.kill()
        running.wait()
