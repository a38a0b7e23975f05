"""Ranks that die, over a Gloo group and over UCX: every survivor names them, soon, at whatever
point."""

import contextlib
import os
import time

import gqsgd.torch
import pytest
import torch
import torch_group
import torch_models as models
from gqsgd.torch import groups

FOR_EVER_MS = 3_600_000  # what comes before a job's own timeout was not this one
DEAD = 1


def die():
    os._exit(7)


def dies_before_the_first_backward(transport):
    """All have a process group and a model; the communicator is still to be made."""
    model, state = models.hooked(
        models.perceptron(), transport=transport, timeout_ms=FOR_EVER_MS)
    if torch.distributed.get_rank() == DEAD:
        die()
    with pytest.raises(Exception, match=f"rank {DEAD} is gone") as caught:
        models.train(model, [0])
    state.close()
    return caught.typename, str(caught.value)


def dies_while_ranks_connect(transport):
    """After the ranks have agreed, before their connections stand."""
    if torch.distributed.get_rank() == DEAD:
        groups._gloo_group = lambda *_: die()
        network = gqsgd.Communicator.network
        gqsgd.Communicator.network = lambda unique_id, rank, size, **options: (
            network(unique_id, rank, size, **options) if size == 1 else die())
    # Over UCX ranks that never came are missing: only the process group sees that one died.
    kind = gqsgd.PeerLost if transport == "group" else (gqsgd.PeerLost, gqsgd.Timeout)
    timeout_ms = FOR_EVER_MS if transport == "group" else 3000
    with pytest.raises(kind, match=f"rank {DEAD} is gone|ranks?:? {DEAD}") as caught:
        gqsgd.torch.connect(None, transport, timeout_ms=timeout_ms)
    return caught.typename, str(caught.value)


def dies_between_two_backward_passes(transport):
    model, state = models.hooked(
        models.perceptron(), transport=transport, timeout_ms=FOR_EVER_MS)
    models.train(model, range(2))
    if torch.distributed.get_rank() == DEAD:
        die()
    with pytest.raises(RuntimeError, match=rf"PeerLost: .*\brank {DEAD}\b") as caught:
        models.train(model, [2])
    state.close()
    return caught.typename, str(caught.value)


def told(name, transport):
    """The survivors stay: as long as one runs, it is not taken for dead by another."""
    answer = globals()[name](transport)
    with contextlib.suppress(Exception):
        folder = os.environ["GQSGD_TEST_FOLDER"]
        open(f"{folder}/{torch.distributed.get_rank()}", "w").close()
        while len([each for each in os.listdir(folder) if each.isdigit()]) < 2:
            time.sleep(0.01)
    return answer


@pytest.mark.parametrize("transport", ["group", "network"])
@pytest.mark.parametrize("job", [
    dies_before_the_first_backward, dies_while_ranks_connect, dies_between_two_backward_passes])
def test_a_rank_that_dies_is_named_by_all_others(job, transport):
    group = torch_group.TorchGroup(3)
    for pipe in group._pipes:
        pipe.send((told, (job.__name__, transport)))
    answers = []
    for rank, pipe in enumerate(group._pipes):
        if rank != DEAD:
            assert pipe.poll(torch_group.TIMEOUT_S)
            answers.append(pipe.recv())
    group.close()
    assert [good for good, _ in answers] == [True, True], answers
