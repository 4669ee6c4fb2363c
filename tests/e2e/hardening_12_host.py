"""Only names that are the gateway's own are answered: a page whose name was pointed at this machine gets nothing (DNS rebinding)."""
import os
import signal
import unittest

from echo_upstream import Upstream
from raw_h2 import Connection, block
from walle_stack import Stack, wait_until


def asking(host, path="/healthz", method="GET", field=":authority", *more):
    named = [(field, host)] if host is not None else []
    first = named if field == ":authority" else []
    return block((":method", method), (":scheme", "http"), *first, (":path", path), *(named if not first else []), *more)


class Host(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def status(self, *arguments, tls=False):
        with Connection(self.gateway.ports["tls" if tls else "h2c"], tls=tls) as conn:
            return conn.reply(conn.headers(asking(*arguments)))

    def test_names_that_are_not_ours(self):
        upstream = Upstream()
        self.addCleanup(upstream.close)
        self.gateway = self.stack.start_gateway("--upstream", upstream.url)
        for tls in (False, True):
            for host in ("localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "[::1]", "192.168.7.9:1",
                         "localhost."):
                self.assertEqual(self.status(host, tls=tls)[0], 200, host)
            for host in ("rebound.example", "rebound.example:8080", "localhost.rebound.example", "127.0.0.1.rebound.example",
                         "xlocalhost", "1.2.3", "127.0.0.1@rebound.example", "127.0.0.1:80x", "[::1", "[::1]x", ":8080"):
                status, text = self.status(host, tls=tls)
                self.assertEqual(status, 421, host)
                self.assertIn(b"listen.hosts", text)
        for path in ("/api/v1/tasks", "/", "/metrics", "/v1/blob/" + "00" * 32, "/echo", "/nothing"):
            self.assertEqual(self.status("rebound.example", path)[0], 421, path)
        self.assertEqual(self.status("rebound.example", "/healthz", "GET", "host")[0], 421)
        self.assertEqual(self.status("localhost", "/healthz", "GET", ":authority", ("host", "rebound.example"))[0], 400)
        self.assertEqual(upstream.requests, [])

    def test_the_list_and_its_reload(self):
        path = self.stack.path("gateway.conf")

        def write(hosts):
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"listen.hosts = {hosts}\n")
        write("fleet.example *.edge.example")
        self.gateway = self.stack.start_gateway("--config", path)
        for host, wanted in (("fleet.example", 200), ("FLEET.example:443", 200), ("a.edge.example", 200), ("edge.example", 421),
                             ("a.b.edge.example", 421), ("other.example", 421), ("localhost", 200)):
            self.assertEqual(self.status(host)[0], wanted, host)
        write("*")
        os.kill(self.gateway.pid, signal.SIGHUP)
        wait_until(lambda: self.status("other.example")[0] == 200, what="the reload")
        write("not/a/name")
        os.kill(self.gateway.pid, signal.SIGHUP)
        wait_until(lambda: "listen.hosts: 'not/a/name' is not a name" in self.gateway.log_text(), what="the refusal")
        self.assertEqual(self.status("other.example")[0], 200)

    def test_names_of_the_certificate(self):
        import subprocess
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                        self.stack.path("key.pem"), "-out", self.stack.path("cert.pem"), "-days", "2", "-subj", "/CN=x", "-addext",
                        "subjectAltName=DNS:gateway.example,DNS:*.pool.example"], check=True, capture_output=True)
        self.gateway = self.stack.start_gateway("--set", "tls.certificate=" + self.stack.path("cert.pem"), "--set",
                                                "tls.key=" + self.stack.path("key.pem"))
        for host, wanted in (("gateway.example", 200), ("Gateway.Example:8443", 200), ("n1.pool.example", 200),
                             ("pool.example", 421), ("x", 421)):
            self.assertEqual(self.status(host, tls=True)[0], wanted, host)


if __name__ == "__main__":
    unittest.main()
