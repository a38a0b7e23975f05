"""Ctrl-C while a group forms whose other ranks do not come."""

import _thread
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import gqsgd
import numpy as np
import pytest
from gqsgd.interrupt import formed
from gqsgd.network import ucx

TIMEOUT_MS, LIMIT_S = 120_000, 20
JOINS = {
    "process": "gqsgd.Communicator.process(gqsgd.unique_id(), 0, 2, timeout_ms=T)",
    "network": "gqsgd.Communicator.network(gqsgd.network_id(address='127.0.0.1'), 0, 2, "
               "timeout_ms=T)",
    "environment": "gqsgd.Communicator.from_env(timeout_ms=T)",
    "newcomer": "gqsgd.Communicator.join(gqsgd.unique_id(), 1, [0, -1], timeout_ms=T)",
    "survivor": "gqsgd.Communicator.local(1)[0].reconfigure(gqsgd.unique_id(), 0, [0, -1], "
                "timeout_ms=T)",
}


@pytest.fixture(autouse=True)
def interrupts():
    """Not ignored, as by programs that a shell runs in the background, and their children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.parametrize("how", JOINS)
def test_ctrl_c_ends_the_wait_for_ranks(how):
    if how in ("network", "environment"):
        try:
            ucx.report()
        except gqsgd.Unsupported as error:
            pytest.skip(str(error))
    program = f"import gqsgd; T = {TIMEOUT_MS}; print('joins', flush=True); {JOINS[how]}"
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                   "GQSGD_PORT": str(free_port())}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout.readline() == "joins\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert errors.rstrip().endswith("KeyboardInterrupt")


class Member:
    def __init__(self):
        self.closed = threading.Event()

    def close(self):
        self.closed.set()


def test_what_forms_after_ctrl_c_is_closed():
    may_form, member = threading.Event(), Member()

    def join():
        may_form.wait()
        return member

    threading.Timer(0.1, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        formed(join)
    assert not member.closed.is_set()
    may_form.set()
    assert member.closed.wait(LIMIT_S)


def test_what_has_formed_is_returned_and_a_failure_is_raised():
    member = Member()
    assert formed(lambda: member) is member and not member.closed.is_set()
    with pytest.raises(gqsgd.Timeout, match="of this test"):
        formed(lambda: (_ for _ in ()).throw(gqsgd.Timeout("of this test")))


@pytest.mark.parametrize("has_log", [True, False])
def test_ctrl_c_in_shrink_leaves_no_member_behind_that_does_not_call(has_log):
    old = gqsgd.Communicator.local(2, timeout_ms=TIMEOUT_MS)
    pressed = threading.Event()

    def press():
        _thread.interrupt_main()
        pressed.set()

    def other():
        pressed.wait()
        with old[1].shrink().comm as comm:
            comm.allreduce(np.zeros(100, np.float32), gqsgd.Quantizer("blocks-8"))

    if has_log:
        gqsgd.set_log(lambda number, line: None)
    try:
        with ThreadPoolExecutor(1) as threads:
            shrinks = threads.submit(other)
            threading.Timer(0.2, press).start()
            with pytest.raises(KeyboardInterrupt):
                old[0].shrink()
            with pytest.raises(gqsgd.PeerLost, match="rank 0"):
                shrinks.result(LIMIT_S)
    finally:
        gqsgd.set_log(None)
        for comm in old:
            comm.close()


def test_ctrl_c_while_revoke_logs_is_not_lost():
    def press(number, line):
        if "broken by REVOKED" in line:
            signal.raise_signal(signal.SIGINT)

    [comm] = gqsgd.Communicator.local(1)
    gqsgd.set_log(press)
    try:
        with pytest.raises(KeyboardInterrupt):
            comm.revoke()
    finally:
        gqsgd.set_log(None)
        comm.close()
