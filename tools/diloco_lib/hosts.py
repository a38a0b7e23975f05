"""The sites of tools/diloco_table as hosts that are network namespaces."""

import json
from pathlib import Path

from net_lib.lighthouse import lighthouse
from net_lib.network import Network
from net_lib.ranks import outputs_of

_FOLDER = Path(__file__).parent
_PATIENCE_MS = 60_000  # of the lighthouse: a site does not die here, it is slow


def outer_steps(setting, site_count, rate):
    """What rank 0 of site.py prints."""
    with Network(site_count, rate) as network:
        output = outputs_of(network, "a site", _FOLDER / "site.py", json.dumps(setting))[0]
    return json.loads(output)


def torchft_training(setting, site_count, rate):
    """{"loss", "seconds": of each outer step, from when the last site has begun it, "bytes": the
    most of a site}."""
    with (Network(site_count, rate) as network,
          lighthouse(network.hosts[0], site_count, _PATIENCE_MS, _PATIENCE_MS) as address):
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
