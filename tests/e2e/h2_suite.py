"""A client and verdicts for cases of HTTP/2 conformance. Standard library only."""
import struct

from raw_h2 import (ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS,
                    Closed, Connection, text)

CANCEL = 8
DUMMY = ("x-dummy0", "x" * 4000)
STATIC = {(":method", "GET"): 2, (":method", "POST"): 3, (":path", "/"): 4, (":scheme", "http"): 6,
          (":scheme", "https"): 7}


def u32(value):
    return struct.pack(">I", value)


def setting(number, value):
    return struct.pack(">HI", number, value)


def depends(stream, weight=255, exclusive=False):
    return u32(stream | (1 << 31 if exclusive else 0)) + bytes([weight])


class Peer(Connection):
    """A client that compresses with a dynamic table, as real ones do, and reads events until the end."""

    def __init__(self, port, tls, preface=True, together=False):
        self.waiting, self.together = b"", False
        super().__init__(port, tls, preface, settings=setting(4, 65535) if preface else b"")
        self.together = together  # what is sent leaves in one piece, when an answer is looked for
        self.scheme, self.authority = "https" if tls else "http", f"127.0.0.1:{port}"
        self.table = []  # newest first
        self.limits = {}

    def raw(self, data):
        if self.together:
            self.waiting += data
        else:
            super().raw(data)

    def read(self):
        if self.waiting:
            super().raw(self.waiting)
            self.waiting = b""
        return super().read()

    def shake_hands(self):
        local = remote = False
        while not (local and remote):
            frame = self.read()
            if frame.kind == SETTINGS and frame.flags & ACK:
                local = True
            elif frame.kind == SETTINGS:
                remote = True
                self.limits = dict(struct.iter_unpack(">HI", frame.payload))
                self.frame(SETTINGS, ACK, 0)

    def fields(self, *fields):
        out = b""
        for field in fields:
            if field in STATIC or field in self.table:
                out += bytes([0x80 | (STATIC.get(field) or 62 + self.table.index(field))])
            else:
                out += b"\x40" + text(field[0]) + text(field[1])
                self.table = [field] if field == DUMMY else [field, *self.table]  # that one fills the table
        return out

    def pseudo(self, method="GET"):
        return [(":method", method), (":scheme", self.scheme), (":path", "/"), (":authority", self.authority)]

    def request(self, method="GET", *more):
        return self.fields(*self.pseudo(method), *more)

    def get(self, *more, stream=1):
        return self.headers(self.request("GET", *more), stream=stream)

    def open(self, method="POST", *more):
        return self.headers(self.request(method, *more), END_HEADERS, 1)

    def ping(self, data=bytes(8), flags=0):
        self.frame(PING, flags, 0, data)

    def window(self, size):
        """Waits until the server has taken a new initial window."""
        self.frame(SETTINGS, 0, 0, setting(4, size))
        self.next(SETTINGS)

    def next(self, kind):
        while True:
            frame = self.read()
            if frame.kind == kind:
                return frame

    def finish(self):
        """Waits until the stream of a request has ended."""
        while True:
            frame = self.read()
            if frame.kind in (DATA, HEADERS) and frame.flags & END_STREAM:
                return

    def body_length(self):
        self.get()
        size = 0
        while True:
            frame = self.read()
            size += len(frame.payload) if frame.kind == DATA else 0
            if frame.kind in (DATA, HEADERS) and frame.flags & END_STREAM:
                return size


# ---- What must come back. Each raises AssertionError with what came instead.
def the_end(c):
    """The connection ends, in order."""
    try:
        while True:
            c.read()
    except Closed:
        if not c.orderly:
            raise AssertionError("the connection was reset or cut off") from None


def connection_error(*errors):
    def check(c):
        frame = c.next(GOAWAY)
        if frame.error not in errors:
            raise AssertionError(f"GOAWAY {frame.error}")
        the_end(c)
    return check


def stream_error(*errors):
    def check(c):
        while True:
            frame = c.read()
            if frame.kind in (RST_STREAM, GOAWAY):
                if frame.error not in errors:
                    raise AssertionError(f"{'GOAWAY' if frame.kind == GOAWAY else 'RST_STREAM'} {frame.error}")
                return
    return check


def reset_only(*errors):
    """RST_STREAM, and no other one before it."""
    def check(c):
        frame = c.next(RST_STREAM)
        if frame.stream != 1 or frame.error not in errors:
            raise AssertionError(f"RST_STREAM {frame.error} of {frame.stream}")
    return check


def reply(c):
    frame = c.next(HEADERS)
    if frame.stream != 1:
        raise AssertionError(f"a reply on stream {frame.stream}")


def data(length=None):
    def check(c):
        frame = c.next(DATA)
        if length is not None and len(frame.payload) != length:
            raise AssertionError(f"{len(frame.payload)} bytes of data")
    return check


def ping_ack(payload=bytes(8)):
    def check(c):
        frame = c.next(PING)
        if not frame.flags & ACK or frame.payload != payload:
            raise AssertionError(f"{frame}")
    return check


def ping_ack_or_end(c):
    try:
        ping_ack()(c)
    except Closed:
        if not c.orderly:
            raise AssertionError("the connection was reset or cut off") from None


def first_settings(c):
    frame = c.read()
    if frame.kind != SETTINGS or frame.flags & ACK:
        raise AssertionError(f"{frame}")


def settings_ack(c):
    frame = c.next(SETTINGS)
    if not frame.flags & ACK or frame.payload:
        raise AssertionError(f"{frame}")
