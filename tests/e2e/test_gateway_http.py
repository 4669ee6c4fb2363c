"""The gateway's transport with real clients: curl, h2load, raw frames; limits, deadlines, drain, reload, reverse proxy."""
import http.server
import os
import re
import resource
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import raw_h2
from raw_h2 import (CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, NO_ERROR, PING,
                    RST_STREAM, SETTINGS, Closed, Connection, block, request)

BIN = os.environ.get("WALLE_BIN", "build/dev/bin")
SOURCE = os.environ.get("WALLE_SOURCE", os.getcwd())
STUB = os.path.join(BIN, "walle-gateway-stub")  # the same program and transport on a core of canned answers
REAL = os.path.join(BIN, "walle-gateway")


class Gateway:
    def __init__(self, *arguments, program=STUB, folder=None, workers=1):
        self.own_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="walle-http-")
        self.log = open(os.path.join(self.folder, "stderr.log"), "ab+")
        self.process = subprocess.Popen(
            [program, "--dir", os.path.join(self.folder, "data"), "--tls", "127.0.0.1:0", "--h2c", "127.0.0.1:0",
             "--workers", str(workers), *arguments], stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.ports = {}
        while len(self.ports) < 2:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError("the gateway did not start: " + self.log_text())
            found = re.match(r"listening (\w+) 127\.0\.0\.1:(\d+)\n", line)
            if found:  # the first start says where its tokens are, too
                self.ports[found.group(1)] = int(found.group(2))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def log_text(self):
        self.log.seek(0)
        return self.log.read().decode()

    def wait_log(self, text, count=1):
        deadline = time.monotonic() + 60
        while self.log_text().count(text) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"no '{text}' in: {self.log_text()}")
            time.sleep(0.02)

    def url(self, path, tls=False):
        return f"http{'s' if tls else ''}://127.0.0.1:{self.ports['tls' if tls else 'h2c']}{path}"

    def connect(self, **more):
        return Connection(self.ports["h2c"], **more)

    def bearer(self):
        """The header field that shows the administrator's token."""
        with open(os.path.join(self.folder, "data", "admin.token"), encoding="ascii") as file:
            return "authorization", "Bearer " + file.read().strip()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def curl(*arguments, check=True):
    done = subprocess.run(["curl", "-sS", "--max-time", "90", *arguments], capture_output=True, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"curl {arguments}: {done.returncode} {done.stderr.decode()}")
    return done.stdout.decode("latin-1")


CLEAR = ("--http2-prior-knowledge",)
TLS = ("--http2", "-k")


class Clients(unittest.TestCase):
    def test_curl_clear_and_tls(self):
        with Gateway() as gateway:
            for flags, tls in ((CLEAR, False), (TLS, True)):
                out = curl(*flags, "-i", gateway.url("/some", tls))
                self.assertTrue(out.startswith("HTTP/2 200"), out)
                self.assertIn("content-length: 100", out)
                self.assertRegex(out, r"date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT")
                out = curl(*flags, "-i", "-X", "POST", gateway.url("/v1/checkin", tls))
                self.assertTrue(out.startswith("HTTP/2 204"), out)
                self.assertNotIn("date:", out)
                self.assertEqual(curl(*flags, "-d", "a" * 70000, gateway.url("/x", tls)), "70000 bytes")
                self.assertEqual(len(curl(*flags, gateway.url("/v1/blob/3000000", tls))), 3000000)
                self.assertIn("HTTP/2 200", curl(*flags, "-I", gateway.url("/v1/blob/3000000", tls)))
                self.assertIn("204", curl(*flags, "-w", "%{http_code}", gateway.url("/v1/later", tls)))
            self.assertEqual(gateway.stop(), 0)

    def test_tls_demands_version_and_alpn(self):
        with Gateway() as gateway:
            self.assertIn("HTTP/2 200", curl("--http2", "-I", "--cacert", gateway.folder + "/data/cert.pem",
                                             f"https://localhost:{gateway.ports['tls']}/x"))
            for protocol, version in (("spdy/3", ssl.TLSVersion.TLSv1_3), ("h2", ssl.TLSVersion.TLSv1_2)):
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                context.maximum_version = version
                context.set_alpn_protocols([protocol])
                with socket.create_connection(("127.0.0.1", gateway.ports["tls"])) as plain:
                    with self.assertRaises((ssl.SSLError, ConnectionError)):
                        with context.wrap_socket(plain) as wrapped:
                            wrapped.sendall(raw_h2.PREFACE)
                            if not wrapped.recv(1):
                                raise ConnectionError
            for name in ("cert.pem", "key.pem", "ticket.key"):
                self.assertEqual(os.stat(os.path.join(gateway.folder, "data", name)).st_mode & 0o777, 0o600)

    def test_tickets_survive_a_restart(self):
        folder = tempfile.mkdtemp(prefix="walle-http-")
        self.addCleanup(shutil.rmtree, folder, True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])

        def shake(port, session):
            with socket.create_connection(("127.0.0.1", port), 20) as plain:
                with context.wrap_socket(plain, session=session) as wrapped:
                    wrapped.sendall(raw_h2.PREFACE + b"\0\0\0\4\0\0\0\0\0")
                    wrapped.recv(1000)
                    return wrapped.session_reused, wrapped.session
        with Gateway(folder=folder) as gateway:
            reused, session = shake(gateway.ports["tls"], None)
            self.assertFalse(reused)
            self.assertEqual(gateway.stop(), 0)
        with Gateway(folder=folder) as gateway:
            self.assertTrue(shake(gateway.ports["tls"], session)[0])

    def test_h2load_clear_and_tls(self):
        with Gateway(workers=2) as gateway:
            for tls in (False, True):
                out = subprocess.run(["h2load", "-c", "20", "-m", "10", "-n", "20000",
                                      gateway.url("/v1/checkin", tls)], capture_output=True, text=True, check=True).stdout
                self.assertIn("20000 succeeded, 0 failed", out)
                out = subprocess.run(["h2load", "-c", "4", "-m", "10", "-n", "200",
                                      gateway.url("/v1/blob/200000", tls)], capture_output=True, text=True,
                                     check=True).stdout
                self.assertIn("200 succeeded, 0 failed", out)
            self.assertEqual(gateway.stop(), 0)

    def test_hints(self):
        with Gateway() as gateway, gateway.connect() as conn:
            streams = [conn.headers(request("/v1/push")) for _ in range(50)]
            for stream in streams:
                self.assertIn(b"event: hello", conn.wait(DATA, stream).payload)
            self.assertEqual(curl(*CLEAR, "-w", "%{http_code}", gateway.url("/test/hint")), "204")
            heard = {}
            while len(heard) < 50:
                frame = conn.wait(DATA)
                heard[frame.stream] = frame.payload
            self.assertEqual(set(heard), set(streams))
            self.assertEqual(set(heard.values()), {b'event: hint\ndata: {"spread_ms":0}\n\n'})
            for stream in streams[:25]:
                conn.frame(RST_STREAM, 0, stream, struct.pack(">I", 8))
            self.assertEqual(conn.get()[0], 204)

    def test_the_real_gateway_answers(self):
        with Gateway(program=REAL, workers=2) as gateway:
            for flags, tls in ((CLEAR, False), (TLS, True)):
                self.assertEqual(curl(*flags, "-o", "/dev/null", "-w", "%{http_code}", gateway.url("/healthz", tls)), "200")
                self.assertEqual(curl(*flags, "-o", "/dev/null", "-w", "%{http_code}", gateway.url("/readyz", tls)), "200")
                self.assertEqual(curl(*flags, "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST",
                                      gateway.url("/v1/checkin", tls)), "400")
                self.assertIn("problem+json", curl(*flags, "-I", gateway.url("/v1/blob/zz", tls)))
            self.assertEqual(gateway.stop(), 0)


class Limits(unittest.TestCase):
    def assert_calm(self, conn):
        """The connection ends with ENHANCE_YOUR_CALM."""
        while True:
            frame = conn.read()
            if frame.kind == GOAWAY:
                self.assertEqual(frame.error, ENHANCE_YOUR_CALM)
                break
        self.assertTrue(conn.is_closed())

    def test_rapid_reset(self):
        with Gateway("--set", "limits.resets_burst=100") as gateway:
            with gateway.connect() as conn:
                for _ in range(400):
                    stream = conn.headers(request("/v1/push"))
                    conn.frame(RST_STREAM, 0, stream, struct.pack(">I", 8))
                self.assert_calm(conn)
            with gateway.connect() as conn:
                self.assertEqual(conn.get()[0], 204)

    def test_continuation_flood(self):
        with Gateway() as gateway:
            with gateway.connect() as conn:
                stream = conn.headers(request(), END_STREAM)
                for _ in range(2000):
                    conn.frame(CONTINUATION, 0, stream, b"")
                self.assertEqual(conn.outcome()[0], "goaway")
                self.assertTrue(conn.is_closed())
            with gateway.connect() as conn:
                stream = conn.headers(request(), END_STREAM)
                for _ in range(7):
                    conn.frame(CONTINUATION, 0, stream, block(("a", "b" * 15000)))
                self.assert_calm(conn)

    def test_control_frame_floods(self):
        floods = {"ping": lambda c: c.frame(PING, 0, 0, b"x" * 8), "settings": lambda c: c.frame(SETTINGS, 0, 0),
                  "unknown": lambda c: c.frame(0xbb, 0, 0, b"x"),
                  "priority": lambda c: c.frame(raw_h2.PRIORITY, 0, 1, b"\0\0\0\0\1")}
        with Gateway("--set", "limits.control_frames_burst=100") as gateway:
            for name, send in floods.items():
                with self.subTest(name), gateway.connect() as conn:
                    for _ in range(1000):
                        send(conn)
                    self.assert_calm(conn)
            with gateway.connect() as conn:
                stream = conn.headers(request("/x", "POST"), END_HEADERS)
                for _ in range(1000):
                    conn.frame(DATA, 0, stream)
                self.assert_calm(conn)

    def test_header_list(self):
        with Gateway("--set", "limits.header_list_bytes=2048") as gateway, gateway.connect() as conn:
            self.assertEqual(conn.reply(conn.headers(request("/x", "GET", ("a", "b" * 3000))))[0], 431)
            self.assertEqual(conn.get()[0], 204)

    def test_bodies(self):
        with Gateway("--set", "limits.body_bytes=1024", "--set", "limits.upload_bytes=4096") as gateway:
            with gateway.connect() as conn:
                stream = conn.headers(request("/x", "POST"), END_HEADERS)
                conn.frame(DATA, 0, stream, b"a" * 1025)
                status, body = conn.reply(stream)
                self.assertEqual(status, 413)
                self.assertIn(b'"status":413', body)
                frame = conn.wait(RST_STREAM, stream)
                self.assertEqual(frame.error, NO_ERROR)
                conn.frame(DATA, 0, stream, b"under way")
                self.assertEqual(conn.get()[0], 204)
                stream = conn.headers(request("/api/v1/blobs/00", "PUT"), END_HEADERS)
                conn.frame(DATA, END_STREAM, stream, b"a" * 4096)
                self.assertEqual(conn.reply(stream), (200, b"4096 bytes"))

    def test_method_that_is_not_known(self):
        with Gateway() as gateway, gateway.connect() as conn:
            self.assertEqual(conn.reply(conn.headers(request("/x", "BREW")))[0], 501)

    def test_connections_per_address(self):
        with Gateway("--set", "limits.connections_per_address=3", workers=2) as gateway:
            kept = [gateway.connect() for _ in range(3)]
            for conn in kept:
                self.assertEqual(conn.get()[0], 204)
            with gateway.connect() as conn:
                self.assertTrue(conn.is_closed())
            kept.pop().socket.close()
            deadline = time.monotonic() + 60
            while True:
                with gateway.connect() as conn:
                    try:
                        self.assertEqual(conn.get()[0], 204)
                        break
                    except Closed:  # the end of the third is not seen yet
                        self.assertLess(time.monotonic(), deadline)
            for conn in kept:
                conn.socket.close()

    def test_out_of_descriptors_is_survived(self):
        with Gateway(workers=1) as gateway:
            used = len(os.listdir(f"/proc/{gateway.process.pid}/fd"))
            limit = used + 5
            resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
            sockets = [gateway.connect() for _ in range(20)]
            gateway.wait_log("accepting pauses")
            for conn in sockets:
                conn.socket.close()
            with gateway.connect() as conn:
                self.assertEqual(conn.get()[0], 204)

    def test_deadlines(self):
        short = ("timeouts.handshake_ms", "timeouts.header_ms", "timeouts.body_ms", "timeouts.idle_ms", "timeouts.write_ms")
        flags = [part for name in short for part in ("--set", f"{name}=2000")]  # a loaded machine must keep them where a peer should
        with Gateway(*flags, "--set", "limits.body_rate_bytes=1000000") as gateway:
            with self.subTest("silent TLS client"), socket.create_connection(
                    ("127.0.0.1", gateway.ports["tls"]), 20) as plain:
                self.assertEqual(plain.recv(1), b"")
            with self.subTest("no preface"), gateway.connect(preface=False) as conn:
                self.assertTrue(conn.is_closed())
            with self.subTest("half a header block"), gateway.connect() as conn:
                conn.headers(request(), END_STREAM)
                self.assertTrue(conn.is_closed())
            with self.subTest("half a body"), gateway.connect() as conn:
                stream = conn.headers(request("/x", "POST"), END_HEADERS)
                self.assertEqual(conn.reply(stream)[0], 408)
            with self.subTest("idle"), gateway.connect() as conn:
                self.assertEqual(conn.get()[0], 204)
                self.assertEqual(conn.wait(GOAWAY).error, NO_ERROR)
                self.assertTrue(conn.is_closed())
            with self.subTest("no window"), gateway.connect(settings=struct.pack(">HI", 4, 0)) as conn:
                stream = conn.headers(request("/some"))
                conn.wait(HEADERS, stream)
                self.assertEqual(conn.wait(RST_STREAM, stream).error, raw_h2.CANCEL)
            with self.subTest("does not read"), gateway.connect(settings=struct.pack(">HI", 4, 0x7fffffff)) as conn:
                conn.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                conn.frame(raw_h2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7fff0000))
                conn.headers(request("/v1/blob/100000000"))
                self.wait_connections(gateway, 0)
            with self.subTest("pings"), Gateway("--set", "timeouts.ping_ms=200", "--set", "timeouts.write_ms=2000") as other:
                with other.connect() as conn:
                    stream = conn.headers(request("/v1/push"))
                    for _ in range(2):
                        conn.frame(PING, raw_h2.ACK, 0, conn.wait(PING).payload)
                    self.assertTrue(conn.is_closed())  # this one is not answered
                    self.assertEqual(stream, 1)

    def wait_connections(self, gateway, count):
        """Established connections of the gateway's process, by its sockets."""
        deadline = time.monotonic() + 60
        port = gateway.ports["h2c"]
        while True:
            with open("/proc/net/tcp", encoding="ascii") as table:
                lines = [line.split() for line in table][1:]
            now = sum(1 for line in lines if line[1].endswith(f":{port:04X}") and line[3] == "01")
            if now == count:
                return
            self.assertLess(time.monotonic(), deadline, f"{now} connections")
            time.sleep(0.05)

    def test_a_client_that_does_not_read_costs_little(self):
        with Gateway() as gateway:
            def rss():
                with open(f"/proc/{gateway.process.pid}/statm", encoding="ascii") as statm:
                    return int(statm.read().split()[1]) * 4096
            with gateway.connect(settings=struct.pack(">HI", 4, 0x7fffffff)) as conn:
                conn.get()
                before = rss()
                conn.frame(raw_h2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7fff0000))
                for _ in range(200):
                    conn.headers(request("/v1/blob/10000000"))
                conn.frame(PING, 0, 0, b"12345678")
                with gateway.connect() as other:
                    self.assertEqual(other.get()[0], 204)
                if "thread" not in os.environ.get("WALLE_SANITIZE", ""):  # whose shadow grows with what is touched
                    self.assertLess(rss() - before, 4 << 20)


class Operation(unittest.TestCase):
    def test_drain_finishes_what_is_open(self):
        with Gateway(workers=2) as gateway, gateway.connect(settings=struct.pack(">HI", 4, 1000)) as conn:
            hint = conn.headers(request("/v1/push"))
            conn.wait(DATA, hint)
            stream = conn.headers(request("/v1/blob/50000"))
            conn.wait(HEADERS, stream)
            gateway.process.send_signal(signal.SIGTERM)
            got, frames = 0, []
            while True:
                try:
                    frame = conn.read()
                except Closed:
                    break
                frames.append((frame.kind, frame.flags & END_STREAM if frame.kind == DATA else None, frame.stream))
                if frame.kind == DATA and frame.stream == stream:
                    got += len(frame.payload)
                    if frame.payload and got < 50000:
                        conn.frame(raw_h2.WINDOW_UPDATE, 0, stream, struct.pack(">I", len(frame.payload)))
            self.assertEqual(got, 50000 - 1000 + 1000)
            self.assertEqual([frame for frame in frames if frame[0] == GOAWAY], [(GOAWAY, None, 0)] * 2)
            self.assertIn((DATA, END_STREAM, hint), frames)
            self.assertIn((DATA, END_STREAM, stream), frames)
            self.assertEqual(gateway.process.wait(60), 0)

    def test_drain_is_bounded_and_a_second_signal_is_final(self):
        with Gateway("--set", "timeouts.drain_ms=500") as gateway:
            with gateway.connect(settings=struct.pack(">HI", 4, 0)) as conn:
                conn.wait(HEADERS, conn.headers(request("/some")))  # its body never fits
                self.assertEqual(gateway.stop(), 0)
        with Gateway("--set", "timeouts.drain_ms=3600000") as gateway:
            with gateway.connect(settings=struct.pack(">HI", 4, 0)) as conn:
                conn.wait(HEADERS, conn.headers(request("/some")))
                gateway.process.send_signal(signal.SIGTERM)
                conn.wait(GOAWAY)
                self.assertEqual(gateway.stop(), 0)

    def test_reload(self):
        folder = tempfile.mkdtemp(prefix="walle-http-")
        self.addCleanup(shutil.rmtree, folder, True)
        path = os.path.join(folder, "gateway.conf")

        def write(text):
            with open(path, "w", encoding="utf-8") as conf:
                conf.write(text)

        def certificate(gateway):
            return ssl.get_server_certificate(("127.0.0.1", gateway.ports["tls"]))
        write("limits.body_bytes = 1024\n")
        with Gateway("--config", path, folder=folder, workers=2) as gateway:
            body = ("-d", "a" * 2000, "-o", "/dev/null", "-w", "%{http_code}")
            self.assertEqual(curl(*CLEAR, *body, gateway.url("/x")), "413")
            write("limits.body_bytes = 4096\n")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_log("reloaded")
            self.wait_for(lambda: curl(*CLEAR, *body, gateway.url("/x")) == "200")
            write("limits.body_bytes = many\n")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_log(f"{path}:1: limits.body_bytes: 'many' is not a number between 1024 and 1073741824")
            write("limits.body_bytes = 1024\nrollout.tick_ms = 100\n")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_log("rollout.tick_ms cannot change without a restart")
            self.assertEqual(curl(*CLEAR, *body, gateway.url("/x")), "200")
            data = os.path.join(folder, "data")
            write("limits.body_bytes = 4096\n")
            os.unlink(os.path.join(data, "cert.pem"))
            before = self.serial(gateway)
            gateway.process.send_signal(signal.SIGHUP)  # makes a new one
            gateway.wait_log("reloaded", 2)
            self.wait_for(lambda: self.serial(gateway) != before)
            with open(os.path.join(data, "cert.pem"), "w", encoding="ascii") as file:
                file.write("nonsense")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_log("not a PEM certificate chain")
            self.assertIn("HTTP/2 200", curl(*TLS, "-I", gateway.url("/x", True)))
            self.assertEqual(gateway.stop(), 0)

    def serial(self, gateway):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        with socket.create_connection(("127.0.0.1", gateway.ports["tls"]), 20) as plain:
            with context.wrap_socket(plain) as wrapped:
                return wrapped.getpeercert(binary_form=True)

    def wait_for(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def refused(self, *arguments):
        folder = tempfile.mkdtemp(prefix="walle-http-")
        self.addCleanup(shutil.rmtree, folder, True)
        done = subprocess.run([STUB, "--dir", os.path.join(folder, "data"), *arguments], capture_output=True, text=True,
                              timeout=90, check=False)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_starts_that_are_refused(self):
        self.assertIn("0.0.0.0:0: clear HTTP/2 is served on loopback addresses only",
                      self.refused("--h2c", "0.0.0.0:0", "--tls", "127.0.0.1:0"))
        self.assertIn("'nowhere' is not ADDR:PORT", self.refused("--tls", "nowhere"))
        self.assertIn("workers: '99' is not a number between 0 and 64", self.refused("--workers", "99"))
        self.assertIn("unknown setting 'x'", self.refused("--set", "x=1"))
        self.assertIn("both listen.tls and listen.h2c are off", self.refused("--tls", "none", "--h2c", "none"))
        self.assertIn("is not http://HOST:PORT", self.refused("--tls", "none", "--h2c", "127.0.0.1:0", "--upstream", "ftp://x"))
        self.assertIn("No such file", self.refused("--config", "/nonexistent.conf"))
        self.assertIn("must be set together", self.refused("--tls", "127.0.0.1:0", "--h2c", "none", "--set",
                                                           "tls.key=/nonexistent"))

    def test_a_port_that_is_taken(self):
        with Gateway() as gateway:
            where = f"127.0.0.1:{gateway.ports['h2c']}"
            self.assertIn(where + ": another process listens there", self.refused("--tls", "none", "--h2c", where))
            self.assertEqual(gateway.stop(), 0)

    def test_the_file_in_conf_starts(self):
        with Gateway("--config", os.path.join(SOURCE, "conf", "gateway.conf")) as gateway:
            self.assertEqual(gateway.stop(), 0)


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self):
        path = self.path
        if path == "/up/slow":
            time.sleep(60)
        if path == "/up/bad":
            self.wfile.write(b"nonsense\r\n\r\n")
            self.close_connection = True
            return
        if path == "/up/cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc")
            self.close_connection = True
            return
        if path == "/up/close":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nuntil the end")
            self.close_connection = True
            return
        if path in ("/up/204", "/up/304"):
            self.wfile.write(b"HTTP/1.1 " + path[-3:].encode() + b" x\r\ncontent-length: 5\r\nx-case: kept\r\n\r\nhello")
            return
        size = int(self.headers.get("content-length") or 0)
        body = b""
        if self.headers.get("transfer-encoding") == "chunked":
            while True:
                length = int(self.rfile.readline(), 16)
                body += self.rfile.read(length)
                self.rfile.readline()
                if length == 0:
                    break
        elif size:
            body = self.rfile.read(size)
        if path.startswith("/up/big/"):
            total = int(path.rsplit("/", 1)[1])
            self.send_response(200)
            self.send_header("content-length", str(total))
            self.end_headers()
            if self.command != "HEAD":
                try:
                    for _ in range(total // 10000):
                        self.wfile.write(b"x" * 10000)
                except OSError:
                    self.close_connection = True
            return
        text = "".join(f"{name.lower()}={value}\n" for name, value in self.headers.items())
        text = f"{self.command} {path}\n{text}body={len(body)}\n"
        self.send_response(200)
        self.send_header("connection", "keep-alive")
        self.send_header("walle-offer", "forged")
        self.send_header("X-Case", "Kept")
        if path == "/up/chunked":
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for line in text.splitlines(True):
                self.wfile.write(f"{len(line):x}\r\n{line}\r\n".encode())
            self.wfile.write(b"0\r\n\r\n")
            return
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text.encode())

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do_PATCH = answer

    def log_message(self, *_):
        pass


class Proxy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
        cls.upstream.daemon_threads = True
        cls.upstream.handle_error = lambda *_: None  # clients that go away are part of the test
        threading.Thread(target=cls.upstream.serve_forever, daemon=True).start()
        cls.gateway = Gateway("--upstream", f"http://127.0.0.1:{cls.upstream.server_port}", "--set",
                              "proxy.reply_ms=1000", "--set", "proxy.connections=4")

    @classmethod
    def tearDownClass(cls):
        status = cls.gateway.stop()
        cls.gateway.__exit__()
        cls.upstream.shutdown()
        cls.upstream.server_close()
        assert status == 0

    def test_request_and_reply(self):
        for flags, tls in ((CLEAR, False), (TLS, True)):
            out = curl(*flags, "-i", "-H", "te: trailers", "-H", "x-forwarded-for: 10.0.0.1", "-b", "a=1; b=2",
                       self.gateway.url("/up/x?q=1&r=%20", tls))
            self.assertIn("HTTP/2 200", out)
            self.assertIn("GET /up/x?q=1&r=%20\n", out)
            self.assertIn("x-forwarded-for=127.0.0.1\n", out)
            self.assertIn(f"x-forwarded-proto={'https' if tls else 'http'}\n", out)
            self.assertIn("cookie=a=1; b=2\n", out)
            self.assertIn(f"host=127.0.0.1:{self.gateway.ports['tls' if tls else 'h2c']}\n", out)
            self.assertIn("x-case: Kept", out)
            self.assertNotIn("te=", out)
            self.assertNotIn("connection", out)
            self.assertNotIn("walle-offer", out)

    def test_offer_on_a_business_reply(self):
        out = curl(*CLEAR, "-i", "-H", "walle-device: 00000000000000aa", "-H", "walle-profile: AQAA", self.gateway.url("/up/x"))
        self.assertIn("walle-offer: b2ZmZXI\r\n", out)
        self.assertNotIn("forged", out)

    def test_bodies_both_ways(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"a" * 500000)
            file.flush()
            for method in ("POST", "PUT", "PATCH"):
                self.assertIn("body=0\n", curl(*CLEAR, "-X", method, self.gateway.url("/up/x")))
                self.assertIn("body=500000\n", curl(*CLEAR, "-X", method, "--data-binary", "@" + file.name,
                                                    self.gateway.url("/up/x")))
        with Connection(self.gateway.ports["h2c"]) as conn:  # no content-length: the gateway gathers and counts
            stream = conn.headers(request("/up/chunked", "POST"), END_HEADERS)
            for i in range(10):
                conn.frame(DATA, END_STREAM if i == 9 else 0, stream, b"a" * 1000)
            status, body = conn.reply(stream)
            self.assertEqual(status, 200)
            self.assertIn(b"body=10000\n", body)
            self.assertIn(b"content-length=10000\n", body)
        self.assertEqual(len(curl(*CLEAR, self.gateway.url("/up/big/5000000"))), 5000000)
        self.assertIn("content-length: 5000000", curl(*CLEAR, "-I", self.gateway.url("/up/big/5000000")))
        self.assertEqual(curl(*CLEAR, self.gateway.url("/up/close")), "until the end")

    def test_an_answer_without_a_body_has_no_length(self):
        """RFC 9110 8.6: an HTTP/2 client ends the stream of a 204 with a length with an error."""
        for status in ("204", "304"):
            for flags, tls in ((CLEAR, False), (TLS, True)):
                out = curl(*flags, "-i", self.gateway.url("/up/" + status, tls))
                self.assertRegex(out, f"^HTTP/[0-9.]+ {status}")
                self.assertIn("x-case: kept", out)
                self.assertNotIn("content-length", out)
                self.assertNotIn("hello", out)
                self.assertIn("GET /up/x\n", curl(*flags, self.gateway.url("/up/x", tls)))  # what was too much is nobody's answer

    def test_connections_are_kept_and_shared(self):
        out = subprocess.run(["h2load", "-c", "5", "-m", "20", "-n", "1000", self.gateway.url("/up/x")],
                             capture_output=True, text=True, check=True).stdout
        self.assertIn("1000 succeeded, 0 failed", out)

    def test_failures_of_the_upstream(self):
        with Connection(self.gateway.ports["h2c"]) as conn:
            self.assertEqual(conn.get("/up/bad")[0], 502)
            self.assertEqual(conn.get("/up/slow")[0], 504)
            stream = conn.headers(request("/up/cut"))
            with self.assertRaisesRegex(AssertionError, "RST_STREAM"):
                conn.reply(stream)
            self.assertEqual(conn.get("/up/x")[0], 200)
            stream = conn.headers(request("/up/a b"))
            self.assertEqual(conn.outcome(stream), ("rst", raw_h2.PROTOCOL_ERROR))
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            port = nobody.getsockname()[1]
        with Gateway("--upstream", f"http://127.0.0.1:{port}") as gateway, gateway.connect() as conn:
            self.assertEqual(conn.get("/up/x")[0], 502)
            self.assertEqual(conn.get("/v1/checkin")[0], 204)

    def test_back_pressure(self):
        """An upstream that sends a lot to a client that takes nothing is not read, and nobody else waits."""
        def rss():
            with open(f"/proc/{self.gateway.process.pid}/statm", encoding="ascii") as statm:
                return int(statm.read().split()[1]) * 4096
        with Connection(self.gateway.ports["h2c"], settings=struct.pack(">HI", 4, 0)) as conn:
            before = rss()
            stream = conn.headers(request("/up/big/100000000"))
            conn.wait(HEADERS, stream)
            self.assertEqual(curl(*CLEAR, "-o", "/dev/null", "-w", "%{http_code}", self.gateway.url("/up/x")), "200")
            self.assertLess(rss() - before, 8 << 20)

    def test_clients_that_go_away(self):
        for _ in range(20):
            with Connection(self.gateway.ports["h2c"]) as conn:
                stream = conn.headers(request("/up/big/1000000"))
                conn.wait(HEADERS, stream)
                conn.frame(RST_STREAM, 0, stream, struct.pack(">I", 8))
                conn.headers(request("/up/big/1000000"))
        self.assertEqual(curl(*CLEAR, "-o", "/dev/null", "-w", "%{http_code}", self.gateway.url("/up/x")), "200")


if __name__ == "__main__":
    unittest.main()
