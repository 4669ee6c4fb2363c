"""A gateway played by an attacker: a real HTTP/2 server in front of the real gateway that may answer anything itself.

nghttpx speaks HTTP/2 to the device; behind it a small HTTP/1.1 server in Python either forwards a request to the real
gateway (curl) or hands it to `hook`. The wire formats (docs/PROTOCOL.md) are read and written here anew, apart from the
product's code, and signatures are made by the command openssl.
"""
import base64
import hashlib
import http.server
import os
import shutil
import socket
import struct
import subprocess
import threading
import time

DOMAIN = b"walle-meta-v1\0"
RELEASE, ROOT, SNAPSHOT, TIMESTAMP, DIRECTOR, STOP, EVIDENCE, ANSWER = range(1, 9)
HASHED = (ROOT, SNAPSHOT, TIMESTAMP, EVIDENCE)
INSTALL, REVERT, REMOVE, _, INSTALL_FLOOR, INSTALL_FLOOR_ARM = range(1, 7)  # kinds of a release; 2 and 3 are no more
WITH_FLOOR = (INSTALL_FLOOR, INSTALL_FLOOR_ARM)
PKCS8 = bytes.fromhex("302e020100300506032b657004220420")  # an Ed25519 key, RFC 8410, but for its 32 bytes


# ---- Wire

def varint(value):
    out = b""
    while True:
        byte, value = value & 127, value >> 7
        if not value:
            return out + bytes([byte])
        out += bytes([byte | 128])


def text8(text):
    text = text.encode() if isinstance(text, str) else text
    return bytes([len(text)]) + text


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        assert self.at + size <= len(self.data)
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, size):
        return int.from_bytes(self.take(size), "little")

    def varint(self):
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value


def envelope(kind, payload, signatures):
    return (b"WLS1" + bytes([kind]) + varint(len(payload)) + payload + bytes([len(signatures)]) +
            b"".join(key_id + signature for key_id, signature in signatures))


def stop(task_id):
    return envelope(STOP, struct.pack("<Q", task_id), [])


def open_envelope(data):
    """(type, payload, [(key id, signature), ...])"""
    reader = Reader(data)
    assert reader.take(4) == b"WLS1"
    kind = reader.number(1)
    payload = reader.take(reader.varint())
    return kind, payload, [(reader.take(32), reader.take(64)) for _ in range(reader.number(1))]


def offers(items, flags=0, next_checkin_s=0):
    return bytes([1, flags]) + varint(next_checkin_s) + varint(len(items)) + b"".join(varint(len(i)) + i for i in items)


def open_offers(data):
    reader = Reader(data)
    reader.take(2)
    reader.varint()
    return [reader.take(reader.varint()) for _ in range(reader.varint())]


METADATA = 64  # flag of offers; 4 in a question


def split_metadata(data):
    """(offers without metadata, what comes next with them or nothing)"""
    if not data[1] & METADATA:
        return data, b""
    reader = Reader(data)
    reader.take(2)
    reader.varint()
    for _ in range(reader.varint()):
        reader.take(reader.varint())
    if data[1] & 32:
        reader.take(17 * reader.varint())
    front = data[:1] + bytes([data[1] & ~METADATA]) + data[2:reader.at]
    brought = reader.take(reader.varint())
    assert reader.at == len(data)
    return front, brought


def with_metadata(data, brought, size=None):
    """Offers without metadata, and some; `size`: what they say it has."""
    return data[:1] + bytes([data[1] | METADATA]) + data[2:] + varint(len(brought) if size is None else size) + brought


def plain_question(text):
    """The same question of a device that takes no metadata with the answer."""
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return base64.urlsafe_b64encode(bytes([data[0] & ~4]) + data[1:41]).decode().rstrip("=")


def open_release(payload):
    reader = Reader(payload)
    out = {"kind": reader.number(1), "task": reader.take(reader.number(1)).decode(), "counter": reader.number(8)}
    out |= {"floor": reader.number(8) if out["kind"] in WITH_FLOOR else 0, "manifest": reader.take(32), "manifest_bytes": reader.varint(), "rollout": reader.number(8),
           "salt": reader.number(8), "max_bucket": reader.number(2), "stage": reader.number(1),
           "issued_s": reader.number(8), "expires_s": reader.number(8)}
    assert reader.at == len(payload)
    return out


def release(fields):
    floor = struct.pack("<Q", fields["floor"]) if fields["kind"] in WITH_FLOOR else b""
    return (bytes([fields["kind"]]) + text8(fields["task"]) + struct.pack("<Q", fields["counter"]) + floor + fields["manifest"] +
            varint(fields["manifest_bytes"]) +
            struct.pack("<QQHBQQ", fields["rollout"], fields["salt"], fields["max_bucket"], fields["stage"],
                        fields["issued_s"], fields["expires_s"]))


def open_director(payload):
    reader = Reader(payload)
    out = {"device": reader.number(8), "nonce": reader.take(32), "order": reader.number(8), "issued_s": reader.number(8),
           "timestamp": reader.number(8), "lease_s": reader.number(4)}
    out["entries"] = [(reader.number(8), reader.varint(), reader.varint(), reader.take(32))
                      for _ in range(reader.varint())]
    return out


def director(fields):
    return (struct.pack("<Q", fields["device"]) + fields["nonce"] +
            struct.pack("<QQQI", fields["order"], fields["issued_s"], fields["timestamp"], fields["lease_s"]) +
            varint(len(fields["entries"])) +
            b"".join(struct.pack("<Q", task) + varint(counter) + varint(size) + manifest
                     for task, counter, size, manifest in sorted(fields["entries"])))


# ---- Trees of answers (RFC 9162, section 2.1, as it is written there)

def tree_root(leaves):
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + tree_root(leaves[:split]) + tree_root(leaves[split:])).digest()


def tree_path(leaves, index):
    if len(leaves) == 1:
        return []
    split = 1 << (len(leaves) - 1).bit_length() - 1
    if index < split:
        return tree_path(leaves[:split], index) + [tree_root(leaves[split:])]
    return tree_path(leaves[split:], index - split) + [tree_root(leaves[:split])]


def tree_head(leaves):
    return struct.pack("<Q", len(leaves)) + tree_root(leaves)


def answer(size, index, path, leaf):
    return varint(size) + varint(index) + b"".join(path) + leaf


def open_answer(payload):
    """(leaves, index, path, director)"""
    reader = Reader(payload)
    size, index = reader.varint(), reader.varint()
    path = [reader.take(32) for _ in tree_path([b""] * size, index)]
    return size, index, path, payload[reader.at:]


def director_of(item):
    """The payload of a director's answer, alone or one of many."""
    kind, payload, _ = open_envelope(item)
    return open_answer(payload)[3] if kind == ANSWER else payload


def open_timestamp(payload):
    reader = Reader(payload)
    out = {"version": reader.number(8), "issued_s": reader.number(8), "expires_s": reader.number(8)}
    out["scenarios"] = [(reader.take(reader.number(1)), reader.number(8), reader.varint(), reader.take(32))
                        for _ in range(reader.varint())]
    out["kills"] = [reader.take(32) for _ in range(reader.varint())]
    return out


def timestamp(fields):
    return (struct.pack("<QQQ", fields["version"], fields["issued_s"], fields["expires_s"]) +
            varint(len(fields["scenarios"])) +
            b"".join(text8(name) + struct.pack("<Q", version) + varint(size) + digest
                     for name, version, size, digest in fields["scenarios"]) +
            varint(len(fields["kills"])) + b"".join(fields["kills"]))


NEXT = "/v1/meta/next/"  # and the number of a root, perhaps / and a scenario


def open_next(data):
    """(timestamp, snapshot), envelopes both; the second may be empty."""
    reader = Reader(data)
    assert reader.number(1) == 2
    return reader.take(reader.number(2)), data[reader.at:]


def next_answer(timestamp_envelope, snapshot_envelope):
    return bytes([2]) + struct.pack("<H", len(timestamp_envelope)) + timestamp_envelope + snapshot_envelope


def open_report(data):
    """[{device, kind, task, rollout, code, detail}, ...]"""
    reader = Reader(data)
    reader.take(1)
    device = reader.number(8)
    reader.take(4 + 8)
    out = []
    for _ in range(reader.varint()):
        kind, task, _version, rollout = reader.number(1), reader.number(8), reader.number(8), reader.number(8)
        reader.varint()
        out.append({"device": device, "kind": kind, "task": task, "rollout": rollout, "code": reader.number(8),
                    "detail": reader.take(reader.number(1)).decode("utf-8", "replace")})
    return out


class Key:
    """A private key: a PEM file of the command, or the 32 bytes of one of the gateway's own."""

    def __init__(self, path, folder):
        with open(path, "rb") as file:
            content = file.read()
        self.path, self.folder = path, folder
        if len(content) == 32:
            self.path = os.path.join(folder, os.path.basename(path) + ".pem")
            encoded = base64.b64encode(PKCS8 + content).decode()
            with open(self.path, "w", encoding="ascii") as file:
                file.write(f"-----BEGIN PRIVATE KEY-----\n{encoded}\n-----END PRIVATE KEY-----\n")
        der = subprocess.run(["openssl", "pkey", "-in", self.path, "-pubout", "-outform", "DER"], capture_output=True,
                             check=True, stdin=subprocess.DEVNULL).stdout
        self.public = der[-32:]
        self.id = hashlib.sha256(self.public).digest()

    def sign(self, kind, payload):
        message = DOMAIN + bytes([kind]) + (hashlib.sha256(payload).digest() if kind in HASHED else payload)
        path = os.path.join(self.folder, f"message-{threading.get_ident()}")
        with open(path, "wb") as file:
            file.write(message)
        run = subprocess.run(["openssl", "pkeyutl", "-sign", "-inkey", self.path, "-rawin", "-in", path],
                             capture_output=True, check=True, stdin=subprocess.DEVNULL)
        return self.id, run.stdout

    def tree(self, leaves, index):
        """The envelope of one of the answers that are signed together."""
        payload = answer(len(leaves), index, tree_path(leaves, index), leaves[index])
        return envelope(ANSWER, payload, [self.sign(ANSWER, tree_head(leaves))])

    def envelope(self, kind, payload, *others):
        return envelope(kind, payload, [key.sign(kind, payload) for key in (self, *others)])


# ---- The server

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Request:
    def __init__(self, handler, body):
        self.method, self.path, self.body = handler.command, handler.path, body
        self.headers = {name.lower(): value for name, value in handler.headers.items()}

    @property
    def nonce(self):
        text = self.headers.get("walle-nonce", "")
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))[1:33] if text else b""

    @property
    def order(self):
        """The one that would be followed."""
        text = self.headers.get("walle-nonce", "")
        return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))[33:41], "little") + 1 if text else 0


class Evil:
    """`hook(request, forward)` answers (status, body) or None to forward; body may be an iterator of chunks. With `only`, requests
    of these paths alone get here and all others go to the real gateway at full speed: for whole fleets. Unless it `brings`, the
    real gateway is asked for no metadata with its answers, so that devices fetch it and all that can be done to a fetch can be done."""
    FORWARDED = ("walle-device", "walle-profile", "walle-nonce", "range", "content-type")
    RETURNED = ("content-type", "content-range", "retry-after", "etag")

    def __init__(self, stack, only=("/",)):
        self.stack, self.hook, self.reports, self.requests, self.brings = stack, None, [], [], False
        evil = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                size = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(size)
                if self.headers.get("transfer-encoding", "") == "chunked":
                    body = evil.chunked(self.rfile)
                evil.serve(self, Request(self, body))

            do_GET = do_POST = answer

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 4096  # a fleet connects at once

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.port = free_port()
        backends = [f"-b127.0.0.1,{self.server.server_address[1]};{path}" for path in only]
        if "/" not in only:
            backends.append(f"-b127.0.0.1,{stack.gateway.ports['h2c']};/;proto=h2")
        self.front = stack.spawn_path(
            shutil.which("nghttpx") or "/usr/sbin/nghttpx", f"-f127.0.0.1,{self.port};no-tls", *backends, "-L", "ERROR",
            "--workers=1", "--frontend-http2-max-concurrent-streams=1000", "--conf=/dev/null", "--accesslog-file=/dev/null", "--errorlog-file=/dev/null")
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "nghttpx does not listen"
                time.sleep(0.02)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @staticmethod
    def chunked(file):
        body = b""
        while True:
            size = int(file.readline().split(b";")[0], 16)
            body += file.read(size)
            file.readline()
            if size == 0:
                return body

    def forward(self, request):
        """(status, headers, body) of the real gateway."""
        command = ["curl", "-sS", "--http2-prior-knowledge", "-X", request.method, "-D", "-", "--max-time", "20",
                   "--data-binary", "@-", self.stack.gateway.url + request.path]
        if request.method == "GET":
            command = [part for part in command if part not in ("--data-binary", "@-")]
        for name in self.FORWARDED:
            value = request.headers.get(name)
            if name == "walle-nonce" and value and not self.brings:
                value = plain_question(value)
            if value is not None:
                command += ["-H", f"{name}: {value}"]
        run = subprocess.run(command, input=request.body, capture_output=True, timeout=60, check=False)
        head, _, body = run.stdout.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        return int(lines[0].split()[1]), headers, body

    def serve(self, handler, request):
        self.requests.append(request)
        if request.method == "POST" and request.path == "/v1/report":
            self.reports += open_report(request.body)
        answer = self.hook(request, lambda: self.forward(request)) if self.hook else None
        headers = {}
        if answer is None:
            status, headers, body = self.forward(request)
        else:
            status, body = answer
        try:
            self.send(handler, status, headers, body)
        except OSError:
            handler.close_connection = True  # the device had enough

    def send(self, handler, status, headers, body):
        handler.send_response(status)
        for name in self.RETURNED:
            if name in headers:
                handler.send_header(name, headers[name])
        if isinstance(body, bytes):
            if status != 204:
                handler.send_header("content-length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
            return
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for chunk in body:
            handler.wfile.write(b"%x\r\n" % len(chunk) + chunk + b"\r\n")
            handler.wfile.flush()
        handler.wfile.write(b"0\r\n\r\n")
