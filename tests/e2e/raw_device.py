"""What a device sends, by hand: ids, profiles, reports, and many requests on one connection. Standard library only."""
import base64
import struct
import time

import raw_h2

MASK = (1 << 64) - 1


def mix(x):
    """PROTOCOL.md, section 4."""
    x = (x + 0x9e3779b97f4a7c15) & MASK
    x = ((x ^ x >> 30) * 0xbf58476d1ce4e5b9) & MASK
    x = ((x ^ x >> 27) * 0x94d049bb133111eb) & MASK
    return x ^ x >> 31


def unmix(x):
    """The x that mix takes there: it is a bijection."""
    def undo(value, shift):
        out = value
        for _ in range(64 // shift):
            out = value ^ out >> shift
        return out
    x = (undo(x, 31) * 0x319642b2d24d8ec3) & MASK
    x = (undo(x, 27) * 0x96de1b173f119089) & MASK
    return (undo(x, 30) - 0x9e3779b97f4a7c15) & MASK


def bucket(device, salt):
    """0 to 9999: the device's place in a rollout's shares."""
    return mix(device ^ mix(salt)) * 10000 >> 64


def hexa(device):
    return f"{device:016x}"


CODES = {"os": 6}  # of attributes' names (PROTOCOL.md, section 3)


def profile(digest=0, **attrs):
    """A profile without tasks; attributes are texts, of names in CODES or that have no code."""
    block = bytes([len(attrs)])
    for name, value in sorted(attrs.items()):
        block += bytes([CODES[name]] if name in CODES else [0, len(name)]) + (b"" if name in CODES else name.encode())
        block += bytes([0, len(value)]) + value.encode()
    size = raw_h2.integer(len(block), 7, 0) if len(block) < 127 else bytes([len(block) % 128 + 128, len(block) // 128])
    data = b"\x01\x00\x00" + struct.pack("<Q", digest) + size + block
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def report(device, rollout=1, kind=1, seq=1, epoch=1):
    """One outcome of a rollout."""
    return struct.pack("<BQIQB", 1, device, epoch, seq, 1) + struct.pack("<BQQQBQB", kind, 1, 1, rollout, 0, 0, 0)


def metrics(port):
    """What /metrics says, by name (with its labels)."""
    with raw_h2.Connection(port) as connection:
        status, body = connection.get("/metrics")
    assert status == 200, status
    lines = body.decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line and line[0] != "#")}


class Requests:
    """Requests of one connection, sent in groups; counts of the answers by status."""

    def __init__(self, port, tls=False, source="127.0.0.1"):
        self.connection = raw_h2.Connection(port, tls=tls, source=source)
        self.status = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.socket.close()

    def send(self, path, method, headers, body=b""):
        connection = self.connection
        block = raw_h2.request(path, method, *headers)
        if not body:
            return connection.headers(block)
        stream = connection.headers(block, flags=raw_h2.END_HEADERS)
        connection.frame(raw_h2.DATA, raw_h2.END_STREAM, stream, body)
        return stream

    def checkin(self, device, text, *more):
        return self.send("/v1/checkin", "POST", (("walle-device", hexa(device)), ("walle-profile", text), *more))

    def report(self, device, *more, **outcome):
        return self.send("/v1/report", "POST", (("walle-device", hexa(device)), *more), report(device, **outcome))

    def settle(self, streams):
        """Waits for the answers of all of them; {stream: status}. Raises raw_h2.Closed."""
        left, out = set(streams), {}
        while left:
            frame = self.connection.read()
            if frame.kind == raw_h2.SETTINGS and not frame.flags & raw_h2.ACK:
                self.connection.frame(raw_h2.SETTINGS, raw_h2.ACK, 0)
            elif frame.kind == raw_h2.HEADERS and frame.stream in left:
                out[frame.stream] = raw_h2.status_of(frame.payload)
                self.status[out[frame.stream]] = self.status.get(out[frame.stream], 0) + 1
            elif frame.kind == raw_h2.GOAWAY:
                raise raw_h2.Closed
            if frame.kind == raw_h2.DATA and frame.payload:
                self.connection.frame(raw_h2.WINDOW_UPDATE, 0, 0, struct.pack(">I", len(frame.payload)))
            ends = frame.kind in (raw_h2.HEADERS, raw_h2.DATA) and frame.flags & raw_h2.END_STREAM
            if ends or frame.kind == raw_h2.RST_STREAM:
                left.discard(frame.stream)
        return out


class Pace:
    """At most `rate` a second: wait(n) before the next n."""

    def __init__(self, rate, stop):
        self.rate, self.stop, self.next = rate, stop, time.monotonic()

    def wait(self, count):
        now = time.monotonic()
        self.next = max(self.next, now - 1) + count / self.rate
        if self.next > now:
            self.stop.wait(self.next - now)
