"""One site of a training by torchft's DiLoCo: the sites meet every 20 steps, in 4 bits.

    pip install torchft scikit-learn
    torchft_lighthouse --min_replicas 2 --join_timeout_ms 1000 &
    for k in 0 1; do python torchft_diloco.py $k & done

The address of the lighthouse is TORCHFT_LIGHTHOUSE, by default http://localhost:29510. Between
machines OWN_ADDRESS is where the other sites reach this one.
"""

import os
import sys
from datetime import timedelta

import gqsgd.torchft
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torchft import Manager
from torchft.local_sgd import DiLoCo

OUTER_STEPS = int(os.environ.get("STEPS", "15"))
INNER_STEPS = 20
BATCH_SIZE = 32


def main(site: int) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    inner = torch.optim.AdamW(net.parameters(), lr=1e-3)
    outer = torch.optim.SGD(net.parameters(), lr=0.7, momentum=0.9, nesterov=True)

    def state() -> dict:
        return {"net": net.state_dict(), "inner": inner.state_dict()}

    def load(states: dict) -> None:
        net.load_state_dict(states["net"])
        inner.load_state_dict(states["inner"])

    own_address = os.environ.get("OWN_ADDRESS", "localhost")
    store = dist.TCPStore(own_address, 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=gqsgd.torchft.ProcessGroup("rotated-4", timeout=timedelta(seconds=60)),
        min_replica_size=2,
        load_state_dict=load,
        state_dict=state,
        replica_id=f"site_{site}",
        lighthouse_addr=os.environ.get("TORCHFT_LIGHTHOUSE", "http://localhost:29510"),
        hostname=own_address,
        store_addr=own_address,
        store_port=store.port,
        rank=0,
        world_size=1,
        use_async_quorum=False,  # as DiLoCo wants it
        timeout=timedelta(seconds=60),
    )
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    torch.manual_seed(site + 1)  # of the batches
    with DiLoCo(manager, [net], inner, outer, sync_every=INNER_STEPS, use_bucketization=True):
        while manager.current_step() < OUTER_STEPS:
            before = manager.current_step()
            batch = torch.randint(1400, (BATCH_SIZE,))
            inner.zero_grad()
            torch.nn.functional.cross_entropy(net(images[batch]), labels[batch]).backward()
            inner.step()  # every INNER_STEPS-th time an outer step as well
            if manager.current_step() > before:
                with torch.no_grad():
                    accuracy = (net(images[1400:]).argmax(1) == labels[1400:]).float().mean()
                print(f"outer step {before} of {manager.num_participants()} sites: "
                      f"accuracy {accuracy:.3f}", flush=True)
    manager.shutdown(wait=False)


if __name__ == "__main__":
    main(int(sys.argv[1]))
