"""One site of tools/diloco_table between namespaces, by torchft.local_sgd.DiLoCo. Prints JSON: the
loss at the end, a digest of the parameters, seconds and bytes of each outer step.

    torchft_site.py SETTING (JSON: name, width, layers, seed, inner_steps, outer_steps, lighthouse)

RANK is the number of the site. An outer step has all that torchft does for it: the quorum, the
allreduces and the vote.
"""

import hashlib
import json
import os
import sys
import time
from datetime import timedelta

import gqsgd.torchft
import torch
import torch.distributed as dist
from adaptive_study import networks
from diloco_lib import fp8
from diloco_lib.contenders import FLOAT32, FP8
from diloco_lib.training import Site
from diloco_lib.wire import sent_bytes
from torch.distributed.distributed_c10d import AllgatherOptions, AllToAllOptions
from torch.nn.utils import parameters_to_vector
from torchft import Manager
from torchft.local_sgd import DiLoCo
from torchft.process_group import ProcessGroupGloo, ProcessGroupWrapper
from torchft.work import _DummyWork

_TIMEOUT = timedelta(seconds=120)


class Fp8Group(ProcessGroupWrapper):
    """Stands in for DiLoCo(should_quantize=True), tensor by tensor as there."""

    def allreduce(self, tensors, opts):
        def all_to_all(recv, send):
            self.alltoall_base(recv, send, [], [], AllToAllOptions()).wait()

        def all_gather(recv, send):
            self.allgather_into_tensor_coalesced([recv], [send], AllgatherOptions()).wait()

        fp8.exchanged(tensors, self._rank, self.size(), all_to_all, all_gather)
        return _DummyWork(tensors)


def group_of(name, seed):
    if name == FLOAT32:
        return ProcessGroupGloo(timeout=_TIMEOUT)
    if name == FP8:
        return Fp8Group(timeout=_TIMEOUT, pg=ProcessGroupGloo(timeout=_TIMEOUT))
    return gqsgd.torchft.ProcessGroup(f"{name},seed={seed}", timeout=_TIMEOUT,
                                      address=os.environ["OWN_ADDRESS"])


def manager_of(setting, number, site):
    address, count = os.environ["OWN_ADDRESS"], int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(address, 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=group_of(setting["name"], setting["seed"]), min_replica_size=count,
        load_state_dict=site.network.load_state_dict, state_dict=site.network.state_dict,
        replica_id=f"site_{number}", lighthouse_addr=setting["lighthouse"], store_addr=address,
        store_port=store.port, rank=0, world_size=1, timeout=_TIMEOUT, quorum_timeout=_TIMEOUT,
        hostname=address, use_async_quorum=False, init_sync=False)
    return manager, store


def train(setting, site, manager):
    """(seconds, bytes) of the outer steps."""
    outer = torch.optim.SGD(site.parameters, 0.7, momentum=0.9, nesterov=True)
    seconds, sent = [], []
    # Buckets: one allreduce for all tensors. fp8 goes tensor by tensor: in a bucket, which is a
    # vector, each value would have a scale of its own.
    with DiLoCo(manager, [site.network], site.optimizer, outer, sync_every=setting["inner_steps"],
                use_bucketization=setting["name"] != FP8):
        for _ in range(setting["outer_steps"]):
            site.inner_steps(setting["inner_steps"] - 1)
            site.gradient_step()
            before, begin_s = sent_bytes(), time.perf_counter()
            site.optimizer.step()  # whose hook makes the outer step
            seconds.append(time.perf_counter() - begin_s)
            sent.append(sent_bytes() - before)
    assert manager.current_step() == setting["outer_steps"], "torchft has discarded an outer step"
    return seconds, sent


def main():
    setting, number = json.loads(sys.argv[1]), int(os.environ["RANK"])
    torch.set_num_threads(1)
    site = Site(networks.language_task(), number, setting["seed"], setting["width"],
                setting["layers"])
    manager, store = manager_of(setting, number, site)
    try:
        seconds, sent = train(setting, site, manager)
        values = parameters_to_vector(site.parameters).detach().numpy().tobytes()
        print(json.dumps({"loss": site.loss(), "seconds": seconds, "bytes": sent,
                          "digest": hashlib.sha256(values).hexdigest()[:16]}))
    finally:
        manager.shutdown(wait=False)
    assert store


if __name__ == "__main__":
    main()
