"""A body has a time to be whole, whatever its size: keeping the least rate does not stretch it. And a gateway that did not run for
a while does not take its own time for that of others."""
import os
import signal
import time
import unittest

from echo_upstream import Upstream
from raw_h2 import DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, Connection, request, status_of
from walle_stack import Stack, wait_until


class Deadline(unittest.TestCase):
    def trickle(self, conn, stream):
        """A little at a time until there is an answer: its status."""
        conn.socket.settimeout(0.02)
        while True:
            conn.frame(DATA, 0, stream, b"b" * 10)
            try:
                frame = conn.wait(HEADERS, stream)
            except TimeoutError:
                continue
            return status_of(frame.payload)

    def test_a_body_that_never_ends(self):
        with Stack() as stack:
            gateway = stack.start_gateway("--set", "timeouts.body_total_ms=1000", "--set", "limits.body_rate_bytes=1")
            with Connection(gateway.ports["h2c"]) as conn:
                stream = conn.headers(request("/v1/report", "POST"), END_HEADERS)
                self.assertEqual(self.trickle(conn, stream), 408)
                conn.socket.settimeout(60)
                self.assertEqual(conn.get("/healthz")[0], 200)

    def test_what_came_while_the_gateway_stood_still(self):
        """It was suspended, or others had the machine: who had sent all in time is answered."""
        with Stack() as stack:
            gateway = stack.start_gateway("--set", "timeouts.handshake_ms=1500", "--set", "timeouts.body_total_ms=1500")
            port = gateway.ports["h2c"]
            for _ in range(3):
                with Connection(port) as whole, Connection(port, preface=False) as fresh:
                    self.assertEqual(whole.get("/healthz")[0], 200)  # ... and both connections are accepted
                    stream = whole.headers(request("/v1/report", "POST"), END_HEADERS)
                    whole.frame(DATA, 0, stream, b"b")
                    self.assertEqual(whole.get("/healthz")[0], 200)
                    os.kill(gateway.process.pid, signal.SIGSTOP)
                    fresh.raw(PREFACE)
                    fresh.frame(SETTINGS, 0, 0)
                    whole.frame(DATA, END_STREAM, stream, b"b")
                    time.sleep(2)
                    os.kill(gateway.process.pid, signal.SIGCONT)
                    self.assertEqual(fresh.get("/healthz")[0], 200)
                    self.assertEqual(status_of(whole.wait(HEADERS, stream).payload), 400)

    def test_an_upstream_while_the_gateway_stood_still(self):
        """It answers while the gateway is suspended, and after that: its time does not run meanwhile."""
        upstream = Upstream()
        self.addCleanup(upstream.close)
        with Stack() as stack:
            gateway = stack.start_gateway("--workers", "1", "--upstream", upstream.url, "--set", "proxy.reply_ms=5000", "--set", "proxy.total_ms=5000")
            for meanwhile in (True, False):
                port = gateway.ports["h2c"]
                with self.subTest(meanwhile=meanwhile), Connection(port) as conn, Connection(port) as other:
                    asked = len(upstream.requests)
                    stream = conn.headers(request("/held"))
                    wait_until(lambda: len(upstream.requests) > asked, what="the request at the upstream")
                    os.kill(gateway.process.pid, signal.SIGSTOP)
                    if meanwhile:
                        upstream.held.release()
                    time.sleep(6)
                    os.kill(gateway.process.pid, signal.SIGCONT)
                    if not meanwhile:
                        for _ in range(2):  # and deadlines were looked at
                            self.assertEqual(other.get("/healthz")[0], 200)
                        upstream.held.release()
                    self.assertEqual(status_of(conn.wait(HEADERS, stream).payload), 200)


if __name__ == "__main__":
    unittest.main()
