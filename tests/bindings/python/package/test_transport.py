"""Custom transports in Python: ranks that are threads, with queues between them."""

import ctypes
import os
import queue
import re
import signal

import declarations
import gqsgd
import numpy as np
import pytest
from gqsgd import _transport

CODE = declarations.code_of("gqsgd_transport.h")

Q = gqsgd.Quantizer(seed=3)


class Queues(gqsgd.Transport):
    """A queue of messages for each pair of ranks; receives are filled by progress."""

    def __init__(self, rank, queues):
        self.rank, self.size, self.queues = rank, len(queues), queues
        self.receives, self.done, self.newest, self.closed = [], {}, 0, False

    def send(self, peer, data):
        self.queues[self.rank][peer].put(bytes(data))
        self.newest += 1
        self.done[self.newest] = len(data)
        return self.newest

    def receive(self, peer, buffer):
        self.newest += 1
        self.receives.append((self.newest, peer, buffer))
        return self.newest

    def test(self, request):
        return self.done.pop(request, None)

    def progress(self, timeout_s):
        waited_for = {}
        for request, peer, buffer in self.receives:
            waited_for.setdefault(peer, (request, buffer))
        for peer, (request, buffer) in waited_for.items():
            try:
                message = self.queues[peer][self.rank].get(timeout=max(timeout_s, 1e-6))
            except queue.Empty:
                continue
            buffer[:] = message
            self.done[request] = len(message)
            self.receives.remove((request, peer, buffer))
            return

    def close(self):
        self.closed = True


def run_custom(n, work, make=Queues, **options):
    """`work(comm)` on `n` threads, each with a communicator over a Python transport."""
    queues = [[queue.Queue() for _ in range(n)] for _ in range(n)]
    transports = [make(rank, queues) for rank in range(n)]

    def rank_work(local):
        with gqsgd.Communicator.custom(transports[local.rank], **options) as comm:
            return work(comm)

    return gqsgd.run_local(n, rank_work), transports


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_python_transport_gives_the_bits_of_threads(n):
    inputs = np.random.default_rng(0).standard_normal((n, 3000), np.float32)

    def work(comm):
        assert (comm.rank, comm.size) in [(rank, n) for rank in range(n)]
        return comm.allreduce(inputs[comm.rank], Q).tobytes()

    results, transports = run_custom(n, work, chunk_value_count=1024)
    assert results == gqsgd.run_local(n, work)
    assert all(transport.closed for transport in transports)


def test_an_exception_of_a_transport_is_in_the_sentence():
    class Broken(Queues):
        def progress(self, timeout_s):
            raise OSError("the cable is out")

    with pytest.raises(gqsgd.Backend, match="OSError: the cable is out") as caught:
        run_custom(2, lambda comm: comm.allreduce(np.ones(5, np.float32), Q), Broken)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("64", "TypeError: test returned '64'; it returns the size in bytes"),
        (1.5, "TypeError: test returned 1.5"),
        (True, "TypeError: test returned True"),
        (-1, "ValueError: test returned -1, which is no size"),
        (2**64 + 64, "ValueError: test returned 18446744073709551680, which is no size"),
    ],
)
def test_what_is_no_size_is_no_message_that_has_arrived(returned, words):
    class Wrong(Queues):
        def test(self, request):
            return None if super().test(request) is None else returned

    with pytest.raises(gqsgd.Backend, match=words):
        run_custom(2, lambda comm: comm.allreduce(np.ones(5, np.float32), Q), Wrong)


def blocking(comm):
    comm.allreduce(np.ones(5, np.float32), Q)


def waiting(comm):
    comm.allreduce_start(np.ones(5, np.float32), Q).wait()


def dropping(comm):
    comm.allreduce_start(np.ones(5, np.float32), Q)
    comm.allreduce_start(np.ones(5, np.float32), Q)  # looks whether the first has ended


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("call", [blocking, waiting])
def test_what_is_no_exception_is_no_error_of_the_library(kind, call):
    class Interrupted(Queues):
        def progress(self, timeout_s):
            raise kind("now")

    transport = Interrupted(0, [[queue.Queue() for _ in range(2)] for _ in range(2)])
    with gqsgd.Communicator.custom(transport, timeout_ms=10_000) as comm:
        with pytest.raises(kind) as caught:
            call(comm)
        assert isinstance(caught.value.__cause__, gqsgd.Backend)
        with pytest.raises(gqsgd.Backend):
            comm.check()


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("call", [blocking, waiting, dropping])
def test_ctrl_c_ends_a_call_and_is_heard(call):
    class Signalled(Queues):
        def send(self, peer, data):
            request = super().send(peer, data)
            os.kill(os.getpid(), signal.SIGINT)
            return request  # not here: what was begun is not half done

    transport = Signalled(0, [[queue.Queue() for _ in range(2)] for _ in range(2)])
    with gqsgd.Communicator.custom(transport, timeout_ms=10_000) as comm:
        with pytest.raises(KeyboardInterrupt):
            call(comm)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert transport.newest >= 1, "send came to its end"


def test_a_handler_of_the_program_is_left_alone():
    class Signalled(Queues):
        def send(self, peer, data):
            os.kill(os.getpid(), signal.SIGINT)
            return super().send(peer, data)

    class Own(Exception):
        pass

    def handler(number, frame):
        raise Own

    before = signal.signal(signal.SIGINT, handler)
    try:
        transport = Signalled(0, [[queue.Queue() for _ in range(2)] for _ in range(2)])
        with gqsgd.Communicator.custom(transport) as comm:
            with pytest.raises(gqsgd.Backend, match="Own") as caught:
                blocking(comm)
        assert isinstance(caught.value.__cause__, Own)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_close_raises_is_a_warning():
    class Stuck(Queues):
        def close(self):
            raise ValueError("still in use")

    comm = gqsgd.Communicator.custom(Stuck(0, [[queue.Queue()]]))
    with pytest.warns(RuntimeWarning, match="close raised ValueError: still in use; buffers"):
        comm.close()
    comm.close()


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("error", "words"),
    [(OSError("no letter: \udcff"), r"OSError: no letter: \?"), (Unprintable(), "Unprintable")],
)
def test_an_exception_that_no_text_can_hold_is_a_failure_all_the_same(error, words):
    class Broken(Queues):
        def send(self, peer, data):
            raise error

    with pytest.raises(gqsgd.Backend, match=words):
        run_custom(2, lambda comm: comm.allreduce(np.ones(5, np.float32), Q), Broken)


def test_a_peer_that_sends_nothing_is_a_timeout():
    class Mute(Queues):
        def send(self, peer, data):
            self.newest += 1
            self.done[self.newest] = len(data)
            return self.newest

    with pytest.raises(gqsgd.Timeout, match="rank"):
        run_custom(2, lambda comm: comm.allreduce(np.ones(5, np.float32), Q), Mute, timeout_ms=100)


@pytest.mark.parametrize("method", ["send", "receive"])
@pytest.mark.parametrize("number", [-1, 1 << 64])
def test_a_number_of_a_request_is_not_changed_on_its_way(method, number):
    Numbered = type("Numbered", (Queues,), {method: lambda *_: number})
    with pytest.raises(gqsgd.Backend, match=f"what {method} returned is {number}, which does not"):
        run_custom(2, lambda comm: comm.allreduce(np.ones(5, np.float32), Q), Numbered,
                   timeout_ms=2000)


@pytest.mark.parametrize("rank", [2, 1 << 32])
def test_a_wrong_rank_is_refused(rank):
    with pytest.raises(gqsgd.InvalidArgument, match=f"rank is {rank}"):
        gqsgd.Communicator.custom(Queues(rank, [[None]] * 2))


def test_the_table_equals_the_header():
    (body,) = re.findall(r"typedef struct \{(.*?)\} gqsgd_transport;", CODE, flags=re.DOTALL)
    fields = []
    for statement in body.split(";")[:-1]:
        function = re.search(r"\(\*(\w+)\)\((.*)\)", statement, flags=re.DOTALL)
        if function:
            fields.append((function.group(1), function.group(2).count(",") + 1))
        else:
            fields += [(name, 0) for name in re.findall(r"(\w+)(?:,|$)", statement.strip())]
    ours = [
        (name, len(getattr(kind, "_argtypes_", ())))
        for name, kind in _transport.TransportStruct._fields_
    ]
    assert ours == fields
    assert ctypes.sizeof(_transport.TransportStruct) == 8 * (len(fields) - 1)  # two int32_t


def test_the_prototypes_equal_the_header():
    assert declarations.functions(CODE) == _transport.PROTOTYPES


@pytest.mark.parametrize(("name", "shown"), [("smoke signals", "smoke signals"), (None, "custom")])
def test_a_transport_has_the_name_that_it_gives(name, shown):
    Named = type("Named", (Queues,), {} if name is None else {"name": name})
    results, _ = run_custom(2, lambda comm: (comm.transport, repr(comm)), Named)
    assert results == [(shown, f"<Communicator rank {rank} of 2, {shown}>") for rank in range(2)]
