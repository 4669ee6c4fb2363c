#!/usr/bin/env python3
"""HTTP/1.1 on both ports: the pages for machines that watch, the console, the API; and what a monitoring system takes of /metrics."""
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import unittest

import raw_device
from walle_stack import BIN, SOURCE, Stack, program, wait_until

ACTIVATED, RAN, ROLLED_BACK, CRASHED = 2, 3, 4, 22  # kinds of outcomes
FULL = [{"name": 'all "of" them', "kind": "full", "percent": 100, "min_sample": 5, "min_dwell_s": 0, "max_failure": 0.5}]
SCRIPT = "import walle\nwalle.result(1)\n"
UNITS = {"us", "ms", "s", "ns", "kb", "mb", "b", "microseconds", "milliseconds", "minutes", "hours", "percent", "bits"}


def lint(text):
    """What `promtool check metrics` would say of a page: (findings, {name: type})."""
    findings, types, helps, seen, closed, last = [], {}, {}, set(), set(), None
    for number, line in enumerate(text.split("\n")[:-1], 1):
        found = re.fullmatch(r"# (HELP|TYPE) ([a-z_][a-z0-9_]*) (.+)", line)
        if found:
            kind, name, rest = found.groups()
            table = helps if kind == "HELP" else types
            if name in table:
                findings.append(f"{number}: second {kind} of {name}")
            table[name] = rest
            continue
        found = re.fullmatch(r'([a-z_][a-z0-9_]*)((?:\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})?) (-?[0-9.e+-]+|\+Inf|NaN)', line)
        if not found:
            findings.append(f"{number}: not a sample: {line!r}")
            continue
        name = found.group(1)
        base = next((name.removesuffix(end) for end in ("_bucket", "_sum", "_count") if types.get(name.removesuffix(end)) in ("histogram", "summary")), name)
        if (name, found.group(2)) in seen:
            findings.append(f"{number}: {name}{found.group(2)} twice")
        seen.add((name, found.group(2)))
        if base != last and base in closed:
            findings.append(f"{number}: {base} is not in one piece")
        closed.add(base)
        last = base
        if base not in types or base not in helps:
            findings.append(f"{number}: {base} has no help or type")
    for name, kind in types.items():
        if (kind == "counter") != name.endswith("_total"):
            findings.append(f"{name} is a {kind}: counters, and they alone, end in _total")
        if UNITS & set(name.split("_")):
            findings.append(f"{name}: not a base unit")
        if kind != "histogram" and name.endswith(("_count", "_sum", "_bucket")):
            findings.append(f"{name}: an end of histograms")
        if {"counter", "gauge", "histogram", "summary"} & set(name.split("_")):
            findings.append(f"{name}: a type is no part of a name")
    if not text.endswith("\n"):
        findings.append("the last line is cut")
    return findings, types


class Http1(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.addClassCleanup(cls.stack.__exit__)
        cls.stack.start_gateway()
        cls.rollout = cls.stack.release("shop/score", 1, SCRIPT, FULL, more=("--trust-unproven", "--reason", "devices by hand"))

    def open(self, tls):
        ports = self.stack.gateway.ports
        if not tls:
            return http.client.HTTPConnection("127.0.0.1", ports["h2c"], timeout=60)
        context = ssl.create_default_context(cafile=self.stack.path("gateway", "cert.pem"))
        return http.client.HTTPSConnection("localhost", ports["tls"], timeout=60, context=context)

    def both(self):
        for tls in (False, True):
            with self.subTest(tls=tls):
                connection = self.open(tls)
                yield connection
                connection.close()

    def ask(self, connection, method, path, body=None, **headers):
        """(status, headers, body) of a request with the administrator's token."""
        name, _, value = self.stack.bearer.partition(": ")
        connection.request(method, path, body, {name: value, **({"content-type": "application/json"} if body else {}), **headers})
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()

    def raw(self, text):
        """Everything that comes back of these bytes, until the gateway closes."""
        with socket.create_connection(("127.0.0.1", self.stack.gateway.ports["h2c"]), timeout=60) as peer:
            peer.sendall(text)
            got = b""
            while piece := peer.recv(65536):
                got += piece
            return got

    # ---- What is answered

    def test_pages_and_api_on_one_connection(self):
        for connection in self.both():
            for path in ("/healthz", "/readyz", "/metrics", "/"):
                connection.request("GET", path)
                reply = connection.getresponse()
                body = reply.read()
                self.assertEqual((reply.status, reply.version), (200, 11), (path, body))
                self.assertTrue(body, path)
            status, _, body = self.ask(connection, "GET", f"/api/v1/rollouts/{self.rollout}")
            self.assertEqual((status, json.loads(body)["id"]), (200, self.rollout))
            status, headers, body = self.ask(connection, "HEAD", "/healthz")
            self.assertEqual((status, body), (200, b""))
            self.assertEqual(connection.sock is not None, True, "the connection stays")
            self.assertEqual(self.ask(connection, "GET", "/api/v1/tasks/nosuch")[0], 404)
            connection.request("GET", "/api/v1/tasks")
            reply = connection.getresponse()
            self.assertEqual((reply.status, reply.getheader("content-type"), bool(reply.read())), (401, "application/problem+json", True))

    def test_changes(self):
        for number, connection in enumerate(self.both()):
            name = json.dumps({"name": f"shop/made-{number}"})
            self.assertEqual(self.ask(connection, "POST", "/api/v1/tasks", name)[0], 201)
            self.assertEqual(self.ask(connection, "POST", "/api/v1/tasks", iter([name[:4].encode(), name[4:].encode()]))[0], 200, "in chunks")
            status, _, body = self.ask(connection, "POST", "/api/v1/tasks", "{")
            self.assertEqual((status, b"line 1" in body), (400, True), body)

    def test_a_large_blob(self):
        content = bytes(range(256)) * 8192
        path = self.stack.path("blob")
        with open(path, "wb") as file:
            file.write(content)
        for connection in self.both():
            digest = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True).stdout.split()[0]
            status, _, body = self.ask(connection, "PUT", f"/api/v1/blobs/{digest}", content)
            self.assertIn(status, (200, 201), body)
            self.assertEqual(self.ask(connection, "GET", "/healthz")[0], 200, "and the connection goes on")

    def test_refused_before_its_body(self):
        for connection in self.both():
            connection.putrequest("PUT", "/api/v1/blobs/" + "00" * 32)
            connection.putheader("content-length", "1000000")
            connection.endheaders()  # no token, and the body never comes
            reply = connection.getresponse()
            self.assertEqual((reply.status, reply.getheader("connection")), (401, "close"), reply.read())

    def test_curl_without_words(self):
        for url in (self.stack.gateway.url, self.stack.gateway.tls_url.replace("127.0.0.1", "localhost")):
            run = subprocess.run(["curl", "-sS", "--http1.1", "--cacert", self.stack.path("gateway", "cert.pem"), "-w", " %{http_version}",
                                  url + "/readyz"], capture_output=True, text=True, timeout=60)
            self.assertEqual((run.returncode, run.stdout.endswith(" 1.1")), (0, True), run.stdout + run.stderr)

    # ---- What is not

    def test_requests_that_are_none(self):
        host = b"host: localhost\r\n"
        cases = ((b"GET /healthz HTTP/1.1\r\n\r\n", 400), (b"GET /healthz HTTP/1.1\r\n" + host + host + b"\r\n", 400),
                 (b"GET healthz HTTP/1.1\r\n" + host + b"\r\n", 400), (b"GET  /healthz HTTP/1.1\r\n" + host + b"\r\n", 400),
                 (b"GET /healthz HTTP/2.0\r\n" + host + b"\r\n", 400), (b"GET /healthz HTTP/1.1\r\n" + host + b" folded: 1\r\n\r\n", 400),
                 (b"GET /healthz HTTP/1.1\r\n" + host + b"x : 1\r\n\r\n", 400),
                 (b"POST /api/v1/tasks HTTP/1.1\r\n" + host + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
                 (b"POST /api/v1/tasks HTTP/1.1\r\n" + host + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd", 400),
                 (b"POST /api/v1/tasks HTTP/1.1\r\n" + host + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
                 (b"GET /healthz HTTP/1.1\r\n" + host + b"x: " + b"a" * 20000 + b"\r\n\r\n", 431),
                 (b"GET /healthz HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n", 421),
                 (b"POST /v1/tunnel HTTP/1.1\r\n" + host + b"\r\n", 505), (b"GET /v1/hints HTTP/1.1\r\n" + host + b"\r\n", 505),
                 (b"GET /healthz HTTP/1.1\r\nhost: \r\n\r\n", 400), (b"GET /healthz HTTP/1.1\r\nhost: local host\r\n\r\n", 400),
                 (b"CONNECT /api/v1/tasks HTTP/1.1\r\n" + host + b"\r\n", 400),
                 (b"POST /api/v1/tasks HTTP/1.1\r\n" + host + b"content-length: 18446744073709551615\r\n\r\n", 400),
                 (b"HELLO\r\n\r\n", 400))
        for text, status in cases:
            with self.subTest(text=text[:60]):
                self.assertRegex(self.raw(text), b"^HTTP/1.1 %d " % status)
        self.assertEqual(self.stack.api("/api/v1/whoami")[0], 200)

    def test_methods(self):
        """OPTIONS is known and nowhere allowed; what is no method of ours is said to be none."""
        for connection in self.both():
            for path, allow in (("/healthz", "GET, HEAD"), ("/metrics", "GET, HEAD"), ("/", "GET, HEAD"), ("/api/v1/tasks", "GET, POST")):
                status, headers, body = self.ask(connection, "OPTIONS", path)
                self.assertEqual((status, headers.get("allow")), (405, allow), body)
            self.assertRegex(self.raw(b"OPTIONS /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"), b"^HTTP/1.1 405 Method Not Allowed\r\n")
            status, _, body = self.ask(connection, "BREW", "/healthz")
            self.assertEqual((status, b"the method is none of GET" in body), (501, True), body)
            connection.request("OPTIONS", "/api/v1/tasks")
            self.assertEqual(connection.getresponse().status, 401)

    def test_sent_ahead_and_closed(self):
        got = self.raw(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" * 3 + b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: x, Close\r\n\r\n")
        self.assertEqual(got.count(b"HTTP/1.1 200 "), 4, got)
        self.assertEqual(got.count(b"connection: close"), 1, got)
        self.assertRegex(self.raw(b"GET http://localhost/healthz HTTP/1.0\r\n\r\n"), rb"^HTTP/1.1 200 [^\0]*connection: close")

    def test_sent_and_shut(self):
        """Who says no more (nc -N) is answered what it said; a request that was cut is not, and ends the connection."""
        get = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
        for count in (1, 20, 500):
            self.assertEqual(self.shut(get * count).count(b"HTTP/1.1 200 "), count)
        self.assertEqual(self.shut(get * 2 + get[:20]).count(b"HTTP/1.1 200 "), 2)
        cut = b"POST /api/v1/tasks HTTP/1.1\r\nhost: localhost\r\n" + self.stack.bearer.encode() + b"\r\ncontent-length: 9\r\n\r\n{"
        self.assertEqual(self.shut(get + cut).count(b"HTTP/1.1 "), 1)
        self.assertEqual(self.shut(b""), b"")

    def shut(self, text):
        with socket.create_connection(("127.0.0.1", self.stack.gateway.ports["h2c"]), timeout=60) as peer:
            peer.sendall(text)
            peer.shutdown(socket.SHUT_WR)
            got = b""
            while piece := peer.recv(65536):
                got += piece
            return got

    def test_bytes_one_by_one(self):
        with socket.create_connection(("127.0.0.1", self.stack.gateway.ports["h2c"]), timeout=60) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in b"PUT /api/v1/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\nab":
                peer.sendall(bytes([byte]))
            self.assertRegex(peer.recv(65536), b"^HTTP/1.1 401 ")

    def again(self):
        self.stack.gateway.stop()
        self.stack.restart_gateway()

    def test_a_head_that_never_ends(self):
        self.addCleanup(self.again)
        self.stack.gateway.stop()
        self.stack.restart_gateway("--set", "timeouts.header_ms=1000")
        self.assertEqual(self.raw(b"GET /healthz HTTP/1.1\r\nhost: local"), b"")

    def test_a_gateway_that_drains_ends_it(self):
        self.addCleanup(self.again)
        connection = self.open(False)
        self.assertEqual(self.ask(connection, "GET", "/healthz")[0], 200)
        self.assertEqual(self.stack.gateway.stop(), 0)
        self.assertEqual(connection.sock.recv(1), b"")
        connection.close()

    # ---- Figures

    def metrics(self, *headers):
        run = subprocess.run(["curl", "-sS", *[word for header in headers for word in ("-H", header)], self.stack.gateway.url + "/metrics"],
                             capture_output=True, text=True, timeout=60, check=True)
        return run.stdout

    def test_a_monitoring_system_finds_nothing_wrong(self):
        findings, types = lint(self.metrics())
        self.assertEqual(findings, [])
        self.assertGreater(len(types), 100)

    def test_promtool_finds_nothing_wrong(self):
        tool = os.path.join(os.path.dirname(os.path.abspath(BIN)), "tools", "promtool")
        fetched = subprocess.run([os.path.join(SOURCE, ".ci", "fetch-promtool"), tool], capture_output=True, text=True, timeout=300)
        if fetched.returncode != 0:
            self.skipTest(fetched.stderr)
        wait_until(lambda: "shop/score" in self.metrics(), what="the rollout")
        for page, said in ((self.metrics(), ""), ("# TYPE a gauge\na_total 1\n", "a_total no help text\n")):
            run = subprocess.run([tool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=60)
            self.assertEqual((run.stdout, run.stderr, run.returncode == 0), ("", said, not said))

    def test_the_check_finds_what_is_wrong(self):
        good = "# HELP a_total A.\n# TYPE a_total counter\na_total 1\n"
        self.assertEqual(lint(good)[0], [])
        for bad in (good.replace("a_total", "a"), good.replace("counter", "gauge"), good + "a_total 2\n", good[:-1], good + "b 1\n",
                    good.replace("a_total", "a_us_total"), good + good, 'x{a="b} 1\n'):
            self.assertTrue(lint(bad)[0], bad)

    def test_rollouts_tasks_and_the_build(self):
        """With the figures that four devices make: one runs well, one fails, one has only been offered it, one has gone back."""
        rollout = int(self.rollout, 16)
        with raw_device.Requests(self.stack.gateway.ports["h2c"]) as requests:
            requests.settle([requests.checkin(device, raw_device.profile()) for device in (1, 2, 3, 4)])
            for device, kinds in ((1, (ACTIVATED, RAN)), (2, (ACTIVATED, CRASHED)), (4, (ACTIVATED, CRASHED, ROLLED_BACK))):
                for seq, kind in enumerate(kinds, 1):
                    requests.settle([requests.report(device, rollout=rollout, kind=kind, seq=seq)])
        version = subprocess.run([program("walle-gateway"), "--version"], capture_output=True, text=True, timeout=60, check=True).stdout.split()[1]
        self.assertRegex(self.metrics(), rf'(?m)^walle_build_info{{version="{version}",.*}} 1$')
        line = rf'(?m)^walle_rollout_info{{rollout="{self.rollout}",task="shop/score",version="1.0.1",state="running",stage="all _of_ them"}} 1$'
        wait_until(lambda: re.search(line, self.metrics()), what="the rollout")
        figures = {"offered": 4, "under_way": 1, "succeeded": 1, "failed": 2, "timed_out": 0, "silent": 0, "rolled_back": 1}

        def shown():
            return {are: int(number) for are, number in
                    re.findall(rf'(?m)^walle_rollout_devices{{rollout="{self.rollout}",task="shop/score",are="(\w+)"}} (\d+)$', self.metrics())}
        wait_until(lambda: shown() == figures, what=f"{figures}, not {shown()}")
        self.assertRegex(self.metrics(), r'(?m)^walle_task_open_rollouts{task="shop/score"} 1$')
        self.assertRegex(self.metrics(), r'(?m)^walle_task_release_number{task="shop/score",baseline=""} 1$')

    def test_names_are_shown_to_who_may_see_them(self):
        wait_until(lambda: "shop/score" in self.metrics(), what="the rollout")
        self.stack.walle("tenant", "new", "acme")
        theirs = self.stack.walle("token", "new", "--tenant", "acme", "--name", "bob", "--role", "viewer").stdout.strip()
        ours = self.stack.walle("token", "new", "--name", "ana", "--role", "viewer", "--scopes", "shop").stdout.strip()
        others = self.stack.walle("token", "new", "--name", "ada", "--role", "viewer", "--scopes", "ads").stdout.strip()
        for token, sees in ((theirs, False), (ours, True), (others, False)):
            text = self.metrics("authorization: Bearer " + token)
            self.assertIn("walle_requests_total", text)
            self.assertEqual("shop/score" in text, sees)
            self.assertEqual(lint(text)[0], [])

    def test_open_to_everybody_names_nothing(self):
        """metrics.access=open: who shows no token sees figures of the gateway, and no task, version, rollout or stage, from here either."""
        self.addCleanup(self.again)
        wait_until(lambda: "shop/score" in self.metrics(), what="the rollout")
        named = {line.split("{")[0] for line in self.metrics().split("\n") if "shop/" in line or self.rollout in line}
        self.assertEqual(named, {"walle_rollout_info", "walle_rollout_devices", "walle_rollout_failure_ratio", "walle_task_open_rollouts",
                                 "walle_task_release_number"})
        self.stack.gateway.stop()
        self.stack.restart_gateway("--set", "metrics.access=open")
        wait_until(lambda: "shop/score" in self.metrics(self.stack.bearer), what="the rollout, with a token")
        text = self.metrics()
        self.assertIn("\nwalle_requests_total ", text)
        self.assertEqual(lint(text)[0], [])
        for secret in ("shop", "score", self.rollout, "1.0.1", "_of_", *(name + "{" for name in named)):
            self.assertNotIn(secret, text)


if __name__ == "__main__":
    unittest.main()
