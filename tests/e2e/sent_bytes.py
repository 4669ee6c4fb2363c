"""All that a device sends, as somebody on its wire reads it: a proxy on a connection without TLS that keeps the device's side, and
what can be made of it: header fields out of HPACK, bodies, what is compressed or base64 in them. Standard library, libnghttp2
and libzstd."""
import base64
import binascii
import ctypes
import re
import socket
import threading

from raw_h2 import CONTINUATION, DATA, END_HEADERS, HEADERS, PADDED, PREFACE, PRIORITY_FLAG

NGHTTP2 = ctypes.CDLL("libnghttp2.so.14")
ZSTD = ctypes.CDLL("libzstd.so.1")
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
PLAIN_MAX = 1 << 20
INFLATE_EMIT, INFLATE_FINAL = 2, 1


class Field(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("value", ctypes.c_void_p), ("namelen", ctypes.c_size_t), ("valuelen", ctypes.c_size_t),
                ("flags", ctypes.c_uint8)]


NGHTTP2.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
NGHTTP2.nghttp2_hd_inflate_hd2.argtypes = [ctypes.c_void_p, ctypes.POINTER(Field), ctypes.POINTER(ctypes.c_int), ctypes.c_char_p,
                                           ctypes.c_size_t, ctypes.c_int]
NGHTTP2.nghttp2_hd_inflate_end_headers.argtypes = [ctypes.c_void_p]
for call in ("ZSTD_decompress", "ZSTD_findFrameCompressedSize"):
    getattr(ZSTD, call).restype = ctypes.c_size_t
ZSTD.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
ZSTD.ZSTD_findFrameCompressedSize.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
ZSTD.ZSTD_isError.argtypes = [ctypes.c_size_t]


class Proxy:
    """Listens on a port of its own and carries bytes to `port` and back. What clients sent is kept, by connection."""

    def __init__(self, port):
        self.target = port
        self.sent = []
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            kept = bytearray()
            self.sent.append(kept)
            self.sockets += [client, server]
            for source, sink, keep in ((client, server, kept), (server, client, None)):
                threading.Thread(target=self._carry, args=(source, sink, keep), daemon=True).start()

    @staticmethod
    def _carry(source, sink, keep):
        try:
            while data := source.recv(65536):
                if keep is not None:
                    keep += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        for one in (self.listener, *self.sockets):
            one.close()


class Inflater:
    def __init__(self):
        self.handle = ctypes.c_void_p()
        assert NGHTTP2.nghttp2_hd_inflate_new(ctypes.byref(self.handle)) == 0

    def fields(self, block):
        at, out = 0, []
        while True:
            field, flags = Field(), ctypes.c_int(0)
            rest = block[at:]
            used = NGHTTP2.nghttp2_hd_inflate_hd2(self.handle, ctypes.byref(field), ctypes.byref(flags), rest, len(rest), 1)
            assert used >= 0, used
            at += used
            if flags.value & INFLATE_EMIT:
                out.append((ctypes.string_at(field.name, field.namelen), ctypes.string_at(field.value, field.valuelen)))
            if flags.value & INFLATE_FINAL:
                NGHTTP2.nghttp2_hd_inflate_end_headers(self.handle)
                return out
            assert used or flags.value & INFLATE_EMIT, "a header block that ends early"


def frames(data):
    assert data[:len(PREFACE)] == PREFACE, data[:40]
    at = len(PREFACE)
    while len(data) - at >= 9:
        size, kind, flags = int.from_bytes(data[at:at + 3], "big"), data[at + 3], data[at + 4]
        stream = int.from_bytes(data[at + 5:at + 9], "big") & 0x7fffffff
        if len(data) - at - 9 < size:
            return
        payload = data[at + 9:at + 9 + size]
        at += 9 + size
        if kind in (DATA, HEADERS) and flags & PADDED:
            payload = payload[1:len(payload) - payload[0]]
        if kind == HEADERS and flags & PRIORITY_FLAG:
            payload = payload[5:]
        yield kind, flags, stream, payload


def requests(data):
    """(fields, body) of each stream of a connection."""
    inflater, streams, block = Inflater(), {}, b""
    for kind, flags, stream, payload in frames(data):
        fields, body = streams.setdefault(stream, ([], bytearray()))
        if kind in (HEADERS, CONTINUATION):
            block += payload
            if flags & END_HEADERS:
                fields += inflater.fields(block)
                block = b""
        elif kind == DATA:
            body += payload
    return [(fields, bytes(body)) for fields, body in streams.values() if fields]


def unpacked(data):
    """What the zstd frames in it hold. One that cannot be opened is a fault: nobody could say what it held."""
    out, at = [], data.find(ZSTD_MAGIC)
    while at >= 0:
        rest = data[at:]
        size = ZSTD.ZSTD_findFrameCompressedSize(rest, len(rest))
        if ZSTD.ZSTD_isError(size):  # four bytes that look like one
            at = data.find(ZSTD_MAGIC, at + 1)
            continue
        room = ctypes.create_string_buffer(PLAIN_MAX)
        plain = ZSTD.ZSTD_decompress(room, PLAIN_MAX, rest, size)
        assert not ZSTD.ZSTD_isError(plain), "a compressed batch that cannot be read"
        out.append(room.raw[:plain])
        at = data.find(ZSTD_MAGIC, at + size)
    return out


def from_base64(value):
    text = re.sub(rb"[^A-Za-z0-9+/_-]", b"", value).replace(b"-", b"+").replace(b"_", b"/")
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4))
    except binascii.Error:
        return b""


def everything(proxy):
    """All that clients sent through the proxy, as (where, bytes): raw, header by header, body by body, and what these hold."""
    out = []
    for number, data in enumerate(proxy.sent):
        data = bytes(data)
        out.append((f"connection {number}", data))
        for fields, body in requests(data):
            path = dict(fields).get(b":path", b"?").decode()
            for name, value in fields:
                out.append((f"{path} {name.decode()}", name + b": " + value))
                out.append((f"{path} {name.decode()} as base64", from_base64(value)))
            out.append((path + " body", body))
            out += [(path + " body, unpacked", plain) for plain in unpacked(body)]
    return out


def disguises(secret):
    """How somebody could write it: {name: bytes}."""
    found = {"plain": secret, "backwards": secret[::-1], "hex": secret.hex().encode(), "HEX": secret.hex().upper().encode()}
    for shift in range(3):  # wherever in a longer text it begins
        text = base64.b64encode(b"\0" * shift + secret)
        inner = text[(shift * 8 + 5) // 6:(shift + len(secret)) * 8 // 6]
        found[f"base64 +{shift}"] = inner
        found[f"base64url +{shift}"] = inner.replace(b"+", b"-").replace(b"/", b"_")
    for order in ("big", "little"):
        found["a number, " + order] = str(int.from_bytes(secret, order)).encode()
    return found


def leaks(proxy, secrets):
    """Where which of the secrets ({name: bytes}) were sent, and how."""
    sent = everything(proxy)
    return [f"{name} ({how}) in {where}" for name, secret in secrets.items() for how, pattern in disguises(secret).items()
            for where, data in sent if pattern in data]
