"""HTTP/2 frames by hand, for tests that send what no client library would. Standard library only."""
import socket
import ssl
import struct
import time

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED, PRIORITY_FLAG, ACK = 0x1, 0x4, 0x8, 0x20, 0x1
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED = range(6)
FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CONNECT_ERROR, ENHANCE_YOUR_CALM = range(6, 12)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STATUS = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}


def integer(value, prefix_bits, first):
    """HPACK integer (RFC 7541, 5.1)."""
    limit = (1 << prefix_bits) - 1
    if value < limit:
        return bytes([first | value])
    out = [first | limit]
    value -= limit
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes(out + [value])


def text(value):
    value = value.encode("latin-1") if isinstance(value, str) else value
    return integer(len(value), 7, 0) + value


def block(*fields):
    """Header block of literal fields without indexing."""
    return b"".join(b"\x00" + text(name) + text(value) for name, value in fields)


def request(path="/v1/checkin", method="GET", *more):
    return block((":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path), *more)


def digits(data):
    """Decimal digits from their Huffman code (RFC 7541, appendix B): five bits for 0 to 2, six for the others."""
    bits, out = "".join(f"{byte:08b}" for byte in data), ""
    while len(out) < 3:
        size = 5 if bits[:5] in ("00000", "00001", "00010") else 6
        out += str(int(bits[:size], 2) - (0 if size == 5 else 0x19 - 3))
        bits = bits[size:]
    return out


def status_of(payload):
    """Status of a response's header block: indexed, or a literal with indexed name."""
    at = 0
    while payload[at] & 0xe0 == 0x20:  # a new size of the table: five bits, or more bytes behind them
        more = payload[at] & 0x1f == 0x1f
        at += 1
        while more:
            more = payload[at] & 0x80 != 0
            at += 1
    first = payload[at]
    if first & 0x80:
        return STATUS.get(first & 0x7f)
    if first & 0x3f == 8 or first & 0x0f == 8:
        size = payload[at + 1] & 0x7f
        value = payload[at + 2:at + 2 + size]
        return int(digits(value) if payload[at + 1] & 0x80 else value)
    return None


class Frame:
    def __init__(self, kind, flags, stream, payload):
        self.kind, self.flags, self.stream, self.payload = kind, flags, stream, payload

    @property
    def error(self):
        return struct.unpack(">I", self.payload[-4:] if self.kind == RST_STREAM else self.payload[4:8])[0]

    def __repr__(self):
        return f"Frame({self.kind}, {self.flags:#x}, {self.stream}, {self.payload[:40]!r})"


class Closed(Exception):
    pass


class Connection:
    def __init__(self, port, tls=False, preface=True, settings=b"", timeout_s=60, source=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s, **({"source_address": (source, 0)} if source else {}))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # each frame comes by itself
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
            context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
            self.socket = context.wrap_socket(self.socket, suppress_ragged_eofs=False)
        self.orderly = True  # false once a reset came, or the end over TLS without its goodbye
        self.input = b""
        self.next_stream = 1
        if preface:
            self.raw(PREFACE)
            self.frame(SETTINGS, 0, 0, settings)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def raw(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.orderly = False  # and the test looks at what the server said

    def frame(self, kind, flags, stream, payload=b""):
        self.raw(struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload)

    def headers(self, payload, flags=END_STREAM | END_HEADERS, stream=None):
        if stream is None:
            stream = self.next_stream
        self.next_stream = max(self.next_stream, stream + 2)
        self.frame(HEADERS, flags, stream, payload)
        return stream

    def _receive(self, size):
        """Until so many bytes are here: they stay, for whoever was told that it took too long."""
        while len(self.input) < size:
            try:
                data = self.socket.recv(65536)
            except (ConnectionResetError, ssl.SSLError):
                self.orderly = False
                data = b""
            if not data:
                raise Closed
            self.input += data

    def read(self):
        self._receive(9)
        size = 9 + int.from_bytes(self.input[:3], "big")
        self._receive(size)
        frame, self.input = self.input[:size], self.input[size:]
        return Frame(frame[3], frame[4], int.from_bytes(frame[5:9], "big") & 0x7fffffff, frame[9:])

    def wait(self, wanted, stream=None):
        """Next frame of that kind; SETTINGS are acknowledged on the way."""
        while True:
            frame = self.read()
            if frame.kind == SETTINGS and not frame.flags & ACK and wanted != SETTINGS:
                self.frame(SETTINGS, ACK, 0)
            if frame.kind == wanted and (stream is None or frame.stream == stream):
                return frame
            if frame.kind == GOAWAY and wanted != GOAWAY:
                raise AssertionError(f"GOAWAY {frame.error}")

    def wait_any(self):
        """Next frame of any stream. SETTINGS are acknowledged, and what DATA takes of the windows is given back, on the way."""
        while True:
            frame = self.read()
            if frame.kind == SETTINGS and not frame.flags & ACK:
                self.frame(SETTINGS, ACK, 0)
            elif frame.kind == GOAWAY:
                raise AssertionError(f"GOAWAY {frame.error}")
            elif frame.stream != 0:
                if frame.kind == DATA and frame.payload:
                    self.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(frame.payload)))
                return frame

    def reply(self, stream):
        """(status, body) of a whole reply."""
        frame = self.wait(HEADERS, stream)
        status, body = status_of(frame.payload), b""
        while not frame.flags & END_STREAM:
            frame = self.read()
            if frame.stream == stream and frame.kind == DATA:
                body += frame.payload
                if frame.payload:
                    for where in (0, stream):
                        self.frame(WINDOW_UPDATE, 0, where, struct.pack(">I", len(frame.payload)))
            elif frame.stream == stream and frame.kind == RST_STREAM:
                raise AssertionError(f"RST_STREAM {frame.error}")
            elif frame.kind == GOAWAY:
                raise AssertionError(f"GOAWAY {frame.error}")
        return status, body

    def get(self, path="/v1/checkin"):
        return self.reply(self.headers(request(path)))

    def outcome(self, stream=None, replies=True):
        """What the server says to an offence: ('goaway', error), ('rst', error), ('closed', None), ('silence', None) or,
        with `replies`, ('reply', status)."""
        try:
            while True:
                frame = self.read()
                if frame.kind == GOAWAY:
                    return "goaway", frame.error
                if frame.kind == RST_STREAM and stream in (None, frame.stream):
                    return "rst", frame.error
                if frame.kind == HEADERS and frame.stream == stream and replies and frame.flags & END_STREAM:
                    return "reply", status_of(frame.payload)
        except Closed:
            return "closed", None
        except TimeoutError:
            return "silence", None

    def is_closed(self, timeout_s=60):
        self.socket.settimeout(timeout_s)
        deadline = time.monotonic() + timeout_s
        try:
            while time.monotonic() < deadline:
                self.read()
        except Closed:
            return True
        return False
