"""Ranks that are processes: equal bits, program order, and failures as exceptions."""

import pickle
import socket
from pathlib import Path

import gqsgd
import jax_rank
import pytest
from rank_processes import run_processes

PROGRAM = Path(jax_rank.__file__)


def results_of(size, job, environment):
    """What `job` of jax_rank.py returned on each rank; None where the process was killed."""
    ended = run_processes(PROGRAM, size, job, environment, timeout_s=100)
    return [pickle.loads(output) if output else None for _, output in ended]


def test_four_processes_agree_with_each_other_and_with_the_communicator(python_environment):
    ranks = results_of(4, "bits", python_environment)
    expected = gqsgd.run_local(4, jax_rank.expected_bits)
    assert ranks[0][1] == expected[0][1] == [3, 12]
    for number, calls in enumerate(zip(*(results for results, _ in ranks + expected))):
        assert len({tuple(leaves) for leaves in calls}) == 1, f"call {number}"


@pytest.fixture
def program_environment(python_environment):
    """With a port for the coordinator of jax.distributed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    return {**python_environment, "TEST_COORDINATOR": coordinator}


def test_devices_of_several_processes_may_be_one_mesh(program_environment):
    for result, expected in results_of(2, "global_mesh", program_environment):
        assert result == expected


def test_a_program_makes_its_communicators_by_itself(program_environment):
    biases = [jax_rank.gradients(rank)["bias"] for rank in range(2)]
    bits = gqsgd.simulate(biases, jax_rank.Q, step=0).tobytes()
    for rank, results in enumerate(results_of(2, "connected", program_environment)):
        here, between, refusal = results
        assert here == (rank, "processes", bits)
        assert between == (rank, "network", bits)
        assert "no-such-if" in refusal and "rank 1" in refusal


def test_a_rank_that_does_not_connect_is_named(program_environment):
    error, _ = results_of(2, "absent_from_connect", program_environment)
    assert "rank 1 has not come to make a communicator" in error


def test_calls_of_one_function_keep_their_order_on_every_rank(python_environment):
    assert results_of(4, "program_order", python_environment) == [[0, 8]] * 4


def test_without_the_state_threaded_through_they_do_not(python_environment):
    errors = results_of(2, "without_order", python_environment)
    assert all("gqsgd " in error for error in errors), errors
    assert any("MISMATCH" in error or "BUSY" in error for error in errors), errors


def test_refusals_are_exceptions_on_all_ranks_and_they_go_on(python_environment):
    for mismatch, nonfinite, mean in results_of(2, "refusals", python_environment):
        assert "gqsgd MISMATCH: " in mismatch
        assert "count differs: rank 0 has 100, rank 1 has 101" in mismatch
        assert "gqsgd NONFINITE: " in nonfinite
        assert "rank 1" in nonfinite
        assert mean == 1.0


def test_a_dead_rank_is_named(python_environment):
    first, second, third = results_of(3, "death", python_environment)
    assert second is None
    for error in (first, third):
        assert "UNAVAILABLE: gqsgd PEER_LOST: " in error
        assert "rank 1" in error


def test_a_rank_that_does_not_call_is_named(python_environment):
    error, _ = results_of(2, "absence", python_environment)
    assert "DEADLINE_EXCEEDED: gqsgd TIMEOUT: " in error


def test_a_closed_communicator_is_an_exception(comm):
    import jax

    program = jax.jit(lambda x, s: gqsgd.jax.allreduce(x, s, comm, gqsgd.Quantizer()))
    jax.block_until_ready(program(1.0, gqsgd.jax.state()))
    comm.close()
    with pytest.raises(jax.errors.JaxRuntimeError, match="gqsgd BAD_HANDLE: "):
        jax.block_until_ready(program(1.0, gqsgd.jax.state()))
