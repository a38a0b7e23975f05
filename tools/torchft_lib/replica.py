"""One replica of tools/torchft_hosts: a process that trains until it is killed.

    replica.py SETTING (JSON: lighthouse, least_replicas, format, seed, width, layers, rows,
                        held_out_every)

RANK is the number of the replica, the environment otherwise that of net_lib.ranks. Prints a line of
JSON for each step that it has tried: "at_s" by the machine's monotonic clock, "step" after it,
"quorum", "replicas" that took part, "committed" or discarded. A committed one has a "digest" of all
parameters too, and some have the "loss" on text that no replica trains on.
"""

import hashlib
import json
import os
import socket
import sys
import time
from datetime import timedelta

import gqsgd.torchft
import numpy as np
import torch
import torch.distributed as dist
from adaptive_study import networks
from torchft import DistributedDataParallel, Manager, Optimizer
from torchft.checkpointing import HTTPTransport

_CALL_TIMEOUT, _TIMEOUT = timedelta(seconds=20), timedelta(seconds=60)
_HELD_OUT_ROWS = 128


class ProcessGroup(gqsgd.torchft.ProcessGroup):
    """Knows the number of its quorum, which torchft's manager keeps to itself."""

    quorum = -1

    def configure(self, store_addr, replica_id, rank, world_size, quorum_id, *others):
        super().configure(store_addr, replica_id, rank, world_size, quorum_id, *others)
        self.quorum = quorum_id


class AddressTransport(HTTPTransport):
    """Hands out this host's address: torchft's own hands out its name, which others resolve where
    there is a name service."""

    def address(self):
        return super().address().replace(socket.gethostname(), os.environ["OWN_ADDRESS"])


class Replica:
    """The model, its optimizer and all of torchft around them."""

    def __init__(self, setting, number):
        self.setting, self.number = setting, number
        self.task = networks.language_task()
        torch.manual_seed(setting["seed"])
        self.model = networks.LanguageModel(width=setting["width"], layer_count=setting["layers"])
        optimizer = torch.optim.AdamW(self.model.parameters(), 2e-3, weight_decay=0.01)
        address = os.environ["OWN_ADDRESS"]
        self.store = dist.TCPStore(address, 0, is_master=True, wait_for_workers=False)
        self.group = ProcessGroup(setting["format"], timeout=_CALL_TIMEOUT)
        self.manager = Manager(
            pg=self.group, min_replica_size=setting["least_replicas"],
            load_state_dict=lambda states: self._load(optimizer, states),
            state_dict=lambda: {"model": self.model.state_dict(),
                                "optimizer": optimizer.state_dict()},
            replica_id=f"replica_{number}", lighthouse_addr=setting["lighthouse"],
            store_addr=address, store_port=self.store.port, rank=0, world_size=1,
            timeout=_TIMEOUT, quorum_timeout=_TIMEOUT, hostname=address,
            checkpoint_transport=AddressTransport(_TIMEOUT, num_chunks=0), init_sync=False)
        self.optimizer = Optimizer(self.manager, optimizer)
        self.replicated = DistributedDataParallel(self.manager, self.model)

    def _load(self, optimizer, states):
        self.model.load_state_dict(states["model"])
        optimizer.load_state_dict(states["optimizer"])

    def step(self):
        """Tries one; what is printed about it."""
        self.optimizer.zero_grad()  # asks the lighthouse who is alive
        place = [self.setting["seed"], self.manager.current_step(), self.number]
        batch = self.task.batch_of(np.random.default_rng(place), self.setting["rows"])
        self.task.loss_of(self.replicated, *batch).backward()
        before = self.manager.current_step()  # a restarted replica has that of the others by now
        self.optimizer.step()
        step = self.manager.current_step()
        found = {"at_s": time.monotonic(), "step": step, "quorum": self.group.quorum,
                 "replicas": self.manager.num_participants(), "committed": step > before}
        if step > before:
            found["digest"] = self._digest()
            is_first = self.manager.participating_rank() == 0
            if is_first and step % self.setting["held_out_every"] == 0:
                found["loss"] = self._held_out_loss()
        return found

    def _digest(self):
        values = b"".join(p.detach().numpy().tobytes() for p in self.model.parameters())
        return hashlib.sha256(values).hexdigest()[:16]

    def _held_out_loss(self):
        batch = self.task.batch_of(np.random.default_rng(6), _HELD_OUT_ROWS)
        with torch.no_grad():
            return float(self.task.loss_of(self.model, *batch))


def main():
    torch.set_num_threads(1)
    replica = Replica(json.loads(sys.argv[1]), int(os.environ["RANK"]))
    while True:
        print(json.dumps(replica.step()), flush=True)


if __name__ == "__main__":
    main()
