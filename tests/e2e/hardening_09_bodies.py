"""Bodies for the upstream are gathered before one of its connections is taken: slow ones hold none."""
import os
import subprocess
import sys
import threading
import unittest

from echo_upstream import Upstream
from raw_h2 import DATA, END_HEADERS, END_STREAM, Connection, request
from walle_stack import SOURCE, Stack, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests"))
from hostile import slow_proxied_bodies  # noqa: E402
from hostile.target import Target  # noqa: E402


class Bodies(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.upstream = Upstream()
        self.addCleanup(self.upstream.close)
        self.gateway = self.stack.start_gateway("--upstream", self.upstream.url, "--workers", "1")

    def test_slow_bodies_take_no_connection(self):
        stop, counts = threading.Event(), {}
        attacker = threading.Thread(
            target=lambda: counts.update(slow_proxied_bodies.attack(Target(h2c=self.gateway.ports["h2c"]), stop)))
        attacker.start()
        self.addCleanup(attacker.join)
        self.addCleanup(stop.set)
        streams = slow_proxied_bodies.CONNECTIONS * slow_proxied_bodies.STREAMS
        with Connection(self.gateway.ports["h2c"]) as conn:
            wait_until(lambda: int(self.stack.api("/metrics")[1].split("\nwalle_streams ")[1].split("\n")[0]) > streams,
                       what="the slow bodies")
            for _ in range(5):
                status, text = conn.get("/echo")
                self.assertEqual(status, 200)
                self.assertIn(b"line=GET /echo HTTP/1.1\n", text)
            stream = conn.headers(request("/echo", "POST"), END_HEADERS)
            conn.frame(DATA, END_STREAM, stream, b"whole")
            self.assertIn(b"body=5\n", conn.reply(stream)[1])
        self.assertLessEqual(self.upstream.open_most, 2)
        stop.set()
        attacker.join()
        self.assertGreaterEqual(counts["requests"], streams)

    def test_a_large_body_arrives_whole_and_framed(self):
        done = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "--data-binary", "@-", self.gateway.url + "/echo"],
                              input=b"a" * 5000000, capture_output=True, timeout=60, check=True)
        self.assertIn(b"body=5000000\n", done.stdout)
        with Connection(self.gateway.ports["h2c"]) as conn:  # no content-length: we say it
            stream = conn.headers(request("/echo", "POST"), END_HEADERS)
            conn.frame(DATA, 0, stream, b"a" * 1000)
            conn.frame(DATA, END_STREAM, stream)
            text = conn.reply(stream)[1]
            self.assertIn(b"content-length=1000\n", text)
            self.assertIn(b"body=1000\n", text)
            self.assertNotIn(b"chunked", text)
            stream = conn.headers(request("/echo", "POST", ("content-length", str((16 << 20) + 1))), END_HEADERS)
            self.assertEqual(conn.reply(stream)[0], 413)


if __name__ == "__main__":
    unittest.main()
