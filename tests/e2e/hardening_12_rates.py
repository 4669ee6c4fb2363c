"""Connections and TLS handshakes of one address have a rate; others are not touched by it, nor is who is connected."""
import os
import re
import sys
import threading
import time
import unittest

from test_gateway_http import REAL, Gateway, curl
from raw_h2 import Closed, Connection
from walle_stack import wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from hostile import handshakes as attack  # noqa: E402
from hostile.target import Target  # noqa: E402


REFUSED = 20  # tries, until a limit is taken for one
DEADLINE_S = 120


class Rates(unittest.TestCase):
    def gateway(self, *settings):
        gateway = Gateway(*(word for setting in settings for word in ("--set", setting)), program=REAL)
        self.addCleanup(gateway.__exit__)
        return gateway

    def figure(self, connection, name):
        page = connection.get("/metrics")[1].decode()
        return int(re.search(rf"^walle_{name} (\d+)$", page, re.M).group(1))

    @staticmethod
    def is_served(port):
        try:
            with Connection(port) as conn:
                return conn.get("/healthz")[0] == 200
        except (Closed, OSError):
            return False

    @staticmethod
    def is_answered(port, first):
        try:
            return attack.shake(port, first)
        except OSError:
            return False

    def until_refused(self, attempt, burst):
        """Tries until REFUSED tries were refused: the burst was served, and what a rate of 1 a second filled up meanwhile."""
        served, refused, began = 0, 0, time.monotonic()
        while refused < REFUSED:
            good = attempt()
            served, refused = served + good, refused + (not good)
            self.assertLess(time.monotonic() - began, DEADLINE_S, f"{served} served, {refused} refused")
        self.assertGreaterEqual(served, burst)
        self.assertLessEqual(served, burst + 2 + (time.monotonic() - began))

    def test_connections(self):
        gateway = self.gateway("limits.connects_per_s=1", "limits.connects_burst=20")
        port = gateway.ports["h2c"]
        with Connection(port, source="127.0.0.7") as other:
            self.assertEqual(other.get("/healthz")[0], 200)
            first = Connection(port)
            self.addCleanup(first.socket.close)
            self.assertEqual(first.get("/healthz")[0], 200)
            self.until_refused(lambda: self.is_served(port), burst=19)
            self.assertEqual(first.get("/healthz")[0], 200)
            with Connection(port, source="127.0.0.8") as third:
                self.assertEqual(third.get("/healthz")[0], 200)
            self.assertGreaterEqual(self.figure(other, "connects_refused_total"), REFUSED)

    def test_handshakes(self):
        """Those of clear connections do not count. What is refused is closed before any cryptography."""
        gateway = self.gateway("limits.handshakes_per_s=1", "limits.handshakes_burst=10")
        first = attack.hello()
        self.until_refused(lambda: self.is_answered(gateway.ports["tls"], first), burst=10)
        with Connection(gateway.ports["h2c"]) as conn:
            self.assertGreaterEqual(self.figure(conn, "connects_refused_total"), REFUSED)

    def test_the_shipped_settings_bound_an_attack(self):
        gateway = self.gateway("limits.handshakes_burst=50")  # sooner at the end of the burst
        stop = threading.Event()
        counts = {}

        def run():
            counts.update(attack.attack(Target(tls=gateway.ports["tls"]), stop, per_s=5000))
        thread = threading.Thread(target=run)
        thread.start()
        try:
            with Connection(gateway.ports["h2c"], timeout_s=60) as conn:
                wait_until(lambda: self.figure(conn, "connects_refused_total") >= 1, DEADLINE_S, "a refused handshake")
        finally:
            stop.set()
            thread.join()
        self.assertGreaterEqual(counts["refused"], 1)
        self.assertGreaterEqual(counts["answered"], 50)

    def test_no_limit(self):
        gateway = self.gateway("limits.connects_per_s=0", "limits.connects_burst=1")
        for _ in range(20):
            self.assertEqual(curl("--http2-prior-knowledge", gateway.url("/healthz")), "ok\n")


if __name__ == "__main__":
    unittest.main()
