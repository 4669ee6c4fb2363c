"""An upstream for tests of the reverse proxy: remembers what it was sent and how many connections it held.

    GET  /echo            the request's head as text
    POST /echo            the same, and how many bytes of body came
    GET  /big/BYTES       so many bytes
    GET  /endless         bytes for ever
    GET  /drip            an answer's head, then a byte whenever `drip` is set
    GET  /held            as /echo, when `held` is set
"""
import socket
import threading


class Upstream:
    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.open = 0        # connections now
        self.open_most = 0
        self.opened = 0      # so far
        self.requests = []   # (request line, [(name, value)], body bytes)
        self.stopping = threading.Event()
        self.drip = threading.Semaphore(0)
        self.held = threading.Semaphore(0)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def close(self):
        self.stopping.set()
        self.listener.close()

    def _accept(self):
        while not self.stopping.is_set():
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        with self.lock:
            self.open += 1
            self.opened += 1
            self.open_most = max(self.open_most, self.open)
        try:
            peer.settimeout(60)
            with peer, peer.makefile("rb") as lines:
                while self._one(peer, lines):
                    pass
        except OSError:
            pass
        finally:
            with self.lock:
                self.open -= 1

    def _one(self, peer, lines):
        first = lines.readline()
        if not first:
            return False
        fields = []
        while True:
            line = lines.readline()
            if line in (b"\r\n", b""):
                break
            name, _, value = line.decode("latin-1").rstrip("\r\n").partition(": ")
            fields.append((name, value))
        given = dict(fields)
        body = len(lines.read(int(given.get("content-length", "0"))))
        line = first.decode("latin-1").rstrip("\r\n")
        with self.lock:
            self.requests.append((line, fields, body))
        self._answer(peer, line, fields, body)
        return True

    def _answer(self, peer, line, fields, body):
        path = line.split(" ")[1]
        if path == "/endless" or path == "/drip":
            peer.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            while not self.stopping.is_set():
                if path == "/drip":
                    self.drip.acquire()
                peer.sendall(b"1\r\nx\r\n" if path == "/drip" else b"1000\r\n" + b"x" * 4096 + b"\r\n")
            return
        if path.startswith("/big/"):
            size = int(path.rsplit("/", 1)[1])
            peer.sendall(f"HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n".encode())
            while size > 0:
                peer.sendall(b"x" * min(size, 65536))
                size -= min(size, 65536)
            return
        if path == "/held":
            self.held.acquire()
        text = "".join(f"{name}={value}\n" for name, value in [("line", line), *fields, ("body", str(body))]).encode()
        peer.sendall(f"HTTP/1.1 200 OK\r\ncontent-length: {len(text)}\r\n\r\n".encode() + text)
