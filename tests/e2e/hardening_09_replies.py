"""Answers of the upstream: who reads them slowly pins few of its connections and not for long; one without end ends."""
import struct
import time
import unittest

from echo_upstream import Upstream
from raw_h2 import DATA, HEADERS, RST_STREAM, WINDOW_UPDATE, Connection, request, status_of
from walle_stack import Stack, wait_until

NO_WINDOW = struct.pack(">HI", 4, 0)
DEADLINE_S = 60


class Replies(unittest.TestCase):
    def start(self, *settings):
        stack = Stack()
        self.addCleanup(stack.__exit__)
        self.upstream = Upstream()
        self.addCleanup(self.upstream.close)
        flags = [word for setting in settings for word in ("--set", setting)]
        self.gateway = stack.start_gateway("--upstream", self.upstream.url, "--workers", "1", *flags)

    def test_one_that_reads_nothing_leaves_connections_for_others(self):
        self.start()
        with Connection(self.gateway.ports["h2c"], settings=NO_WINDOW) as greedy, \
                Connection(self.gateway.ports["h2c"], source="127.0.0.2") as other:
            streams = [greedy.headers(request("/big/100000000")) for _ in range(100)]
            self.assertEqual(len({greedy.wait(HEADERS).stream for _ in streams[:16]}), 16)
            for _ in range(5):
                self.assertEqual(other.get("/echo")[0], 200)
            self.assertLessEqual(self.upstream.open_most, 17)

    def test_one_that_resets_what_it_asks_opens_few(self):
        """Reset at once, from one connection after the other: no more a second than it may have at once. Others are served meanwhile."""
        self.start()
        began, rounds = time.monotonic(), 20
        for _ in range(rounds):
            with Connection(self.gateway.ports["h2c"]) as greedy:
                for _ in range(50):
                    stream = greedy.headers(request("/held"))
                    greedy.frame(RST_STREAM, 0, stream, struct.pack(">I", 8))
                self.assertEqual(greedy.get("/healthz")[0], 200)  # all that came before it was read
        with Connection(self.gateway.ports["h2c"], source="127.0.0.2") as other:
            self.assertEqual(other.get("/echo")[0], 200)
        seconds = int(time.monotonic() - began) + 2
        self.assertLess(16 * seconds + 1, rounds * 50, "too slow a machine to tell")
        self.assertLessEqual(self.upstream.opened, 16 * seconds + 1)
        # In time its share is its own again.
        with Connection(self.gateway.ports["h2c"]) as greedy:
            self.assertEqual(greedy.get("/echo")[0], 200)

    def read_slowly(self, connection, stream):
        """A byte at a time, until the stream is reset."""
        began, taken, frame = time.monotonic(), 0, None
        connection.socket.settimeout(0.02)
        while frame is None or frame.kind != RST_STREAM:
            self.assertLess(time.monotonic() - began, DEADLINE_S, f"still not ended after {taken} bytes")
            connection.frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 1))
            try:
                frame = connection.read()
            except TimeoutError:
                continue
            self.assertIn(frame.kind, (DATA, RST_STREAM))
            taken += len(frame.payload) if frame.kind == DATA else 0
        self.assertGreater(taken, 0)
        self.assertEqual(frame.stream, stream)

    def test_one_that_reads_a_byte_at_a_time_is_ended(self):
        self.start("timeouts.write_ms=500", "proxy.client_rate_bytes=1000000000")
        with Connection(self.gateway.ports["h2c"], settings=NO_WINDOW) as slow:
            stream = slow.headers(request("/big/100000000"))
            slow.wait(HEADERS, stream)
            self.read_slowly(slow, stream)
            # Its end at the upstream ended with it; the rest of the connection did not.
            wait_until(lambda: self.upstream.open == 0, DEADLINE_S, "the upstream's connection to end")
            slow.socket.settimeout(DEADLINE_S)
            self.assertEqual(status_of(slow.wait(HEADERS, slow.headers(request("/echo"))).payload), 200)
        with Connection(self.gateway.ports["h2c"]) as conn:
            self.assertEqual(conn.get("/echo")[0], 200)

    def until_reset(self, path):
        with Connection(self.gateway.ports["h2c"]) as conn:
            with self.assertRaisesRegex(AssertionError, "RST_STREAM"):
                conn.reply(conn.headers(request(path)))
            self.assertEqual(conn.get("/healthz")[0], 200)

    def test_an_answer_without_end_ends(self):
        self.start("proxy.total_ms=1000")
        self.until_reset("/endless")

    def test_progress_does_not_stretch_it(self):
        self.start("proxy.total_ms=1000", "proxy.reply_ms=60000")
        for _ in range(20):
            self.upstream.drip.release()
        self.until_reset("/drip")


if __name__ == "__main__":
    unittest.main()
