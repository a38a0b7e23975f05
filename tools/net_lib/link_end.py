"""One end of a TCP connection: a server that answers, or a client that measures and prints JSON.

    link_end.py server|client ADDRESS PORT
"""

import json
import socket
import statistics
import sys
import time

ROUND_TRIPS = 200
MESSAGE_BYTES = 57344
STREAM_MESSAGES = 400


def receive(connection, size_bytes):
    data = bytearray(size_bytes)
    view = memoryview(data)
    while view:
        view = view[connection.recv_into(view):]


def serve(address, port):
    with socket.create_server((address, port)) as listener:
        print("ready", flush=True)
        connection, _ = listener.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(ROUND_TRIPS):
            receive(connection, 1)
            connection.sendall(b"x")
        for _ in range(STREAM_MESSAGES):
            receive(connection, MESSAGE_BYTES)
        connection.sendall(b"x")


def measure(address, port):
    with socket.create_connection((address, port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        trips = []
        for _ in range(ROUND_TRIPS):
            begin = time.perf_counter()
            connection.sendall(b"x")
            receive(connection, 1)
            trips.append(time.perf_counter() - begin)
        message = bytes(MESSAGE_BYTES)
        begin, busy = time.perf_counter(), time.process_time()
        for _ in range(STREAM_MESSAGES):
            connection.sendall(message)
        busy = time.process_time() - busy
        receive(connection, 1)  # everything has arrived
        seconds = time.perf_counter() - begin - statistics.median(trips) / 2
    return {"latency_ns": statistics.median(trips) / 2 * 1e9,
            "byte_ns": seconds / (STREAM_MESSAGES * MESSAGE_BYTES) * 1e9,
            "message_ns": busy / STREAM_MESSAGES * 1e9}


if __name__ == "__main__":
    end, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if end == "server":
        serve(address, port)
    else:
        print(json.dumps(measure(address, port)))
