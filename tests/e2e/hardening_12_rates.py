"""Connections and TLS handshakes of one address have a rate; others are not touched by it, nor is who is connected."""
import os
import re
import sys
import threading
import unittest

from test_gateway_http import REAL, Gateway, curl
from raw_h2 import Closed, Connection

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from hostile import handshakes as attack  # noqa: E402
from hostile.target import Target  # noqa: E402


class Rates(unittest.TestCase):
    def gateway(self, *settings):
        gateway = Gateway(*(word for setting in settings for word in ("--set", setting)), program=REAL)
        self.addCleanup(gateway.__exit__)
        return gateway

    def figure(self, connection, name):
        page = connection.get("/metrics")[1].decode()
        return int(re.search(rf"^walle_{name} (\d+)$", page, re.M).group(1))

    def test_connections(self):
        gateway = self.gateway("limits.connects_per_s=1", "limits.connects_burst=20")
        port = gateway.ports["h2c"]
        with Connection(port, source="127.0.0.7") as other:
            self.assertEqual(other.get("/healthz")[0], 200)
            first = Connection(port)
            self.addCleanup(first.socket.close)
            self.assertEqual(first.get("/healthz")[0], 200)
            served = 0
            for _ in range(60):
                with Connection(port) as conn:
                    try:
                        served += conn.get("/healthz")[0] == 200
                    except Closed:
                        pass
            self.assertIn(served, range(19, 40))  # and what is filled up meanwhile
            self.assertEqual(first.get("/healthz")[0], 200)
            with Connection(port, source="127.0.0.8") as third:
                self.assertEqual(third.get("/healthz")[0], 200)
            self.assertGreaterEqual(self.figure(other, "connects_refused_total"), 20)

    def test_handshakes(self):
        """Those of clear connections do not count. What is refused is closed before any cryptography."""
        gateway = self.gateway("limits.handshakes_per_s=1", "limits.handshakes_burst=10")
        first = attack.hello()
        answered = 0
        for _ in range(50):
            try:
                answered += attack.shake(gateway.ports["tls"], first)
            except OSError:
                pass
        self.assertIn(answered, range(10, 30))
        with Connection(gateway.ports["h2c"]) as conn:
            self.assertGreaterEqual(self.figure(conn, "connects_refused_total"), 20)

    def test_the_shipped_settings_bound_an_attack(self):
        gateway = self.gateway("limits.handshakes_burst=50")  # sooner at the end of the burst
        stop = threading.Event()
        counts = {}

        def run():
            counts.update(attack.attack(Target(tls=gateway.ports["tls"]), stop, per_s=5000))
        thread = threading.Thread(target=run)
        thread.start()
        try:
            with Connection(gateway.ports["h2c"], timeout_s=30) as conn:
                while self.figure(conn, "connects_refused_total") < 1:
                    self.assertTrue(thread.is_alive())
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
