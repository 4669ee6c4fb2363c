"""A body has a time to be whole, whatever its size: keeping the least rate does not stretch it."""
import unittest

from raw_h2 import DATA, END_HEADERS, HEADERS, Connection, request, status_of
from walle_stack import Stack


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


if __name__ == "__main__":
    unittest.main()
