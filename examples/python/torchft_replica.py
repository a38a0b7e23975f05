"""One replica of a training that goes on when replicas die and come back, by torchft.

    pip install torchft
    torchft_lighthouse --min_replicas 2 --join_timeout_ms 1000 &
    for k in 0 1 2; do python torchft_replica.py $k & done

Kill one of them and start it again: the others go on, and it continues at their step. The address
of the lighthouse is TORCHFT_LIGHTHOUSE, by default http://localhost:29510. Between machines set
OWN_ADDRESS on each to its address for the others.
"""

import hashlib
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torchft import DistributedDataParallel, Manager, Optimizer

import gqsgd.torchft

STEPS = int(os.environ.get("STEPS", "600"))


def main(replica: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def state() -> dict:
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    def load(states: dict) -> None:
        model.load_state_dict(states["model"])
        optimizer.load_state_dict(states["optimizer"])

    own_address = os.environ.get("OWN_ADDRESS", "localhost")
    store = dist.TCPStore(own_address, 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=gqsgd.torchft.ProcessGroup("blocks-8", timeout=timedelta(seconds=20)),
        min_replica_size=2,
        load_state_dict=load,
        state_dict=state,
        replica_id=f"replica_{replica}",
        lighthouse_addr=os.environ.get("TORCHFT_LIGHTHOUSE", "http://localhost:29510"),
        hostname=own_address,
        store_addr=own_address,
        store_port=store.port,
        rank=0,
        world_size=1,
        timeout=timedelta(seconds=30),
    )
    train = Optimizer(manager, optimizer)
    replicated = DistributedDataParallel(manager, model)
    target = torch.randn(64, 1)
    torch.manual_seed(replica)  # of the samples: each replica has its own
    while manager.current_step() < STEPS:
        inputs = torch.randn(32, 64)
        train.zero_grad()  # asks the lighthouse who is alive
        loss = ((replicated(inputs) - inputs @ target) ** 2).mean()
        loss.backward()
        before = manager.current_step()
        train.step()  # unless a replica has died in this step
        if manager.current_step() > before:
            values = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
            digest = hashlib.sha256(values).hexdigest()[:16]
            print(f"step {manager.current_step()} of {manager.num_participants()} replicas: "
                  f"loss {loss.item():.3f}, parameters {digest}", flush=True)
        time.sleep(0.1)  # a larger model takes as long: time to kill a replica
    manager.shutdown(wait=False)


if __name__ == "__main__":
    main(int(sys.argv[1]))
