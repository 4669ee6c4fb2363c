"""Header blocks that decode to far more than they are on the wire: decoding stops soon above the header limit, the stream is
answered 431, the header table of the connection stays in step; repeated, the connection ends."""
import os
import re
import sys
import unittest

from test_gateway_http import REAL, Gateway, curl
from raw_h2 import DATA, END_HEADERS, ENHANCE_YOUR_CALM, HEADERS, Connection, block, status_of, text

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from hostile import hpack_references as attack  # noqa: E402

REPEATS = 40  # more than any limit on refused blocks


class HpackReferences(unittest.TestCase):
    def gateway(self, *more):
        gateway = Gateway(*more, program=REAL)
        self.addCleanup(gateway.__exit__)
        return gateway

    def figure(self, gateway, name):
        page = curl("--http2-prior-knowledge", gateway.url("/metrics"))
        found = re.search(rf"^walle_{name} (\d+)$", page, re.M)
        self.assertTrue(found, f"no walle_{name} in /metrics")
        return int(found.group(1))

    def test_one_block_is_answered_and_the_table_stays_in_step(self):
        gateway = self.gateway()
        # The second one is dropped after it was looked at; the third is of a size that gives no concern for itself.
        for value in (attack.FIELD, attack.FIELD[:-1] + "\x01", "v" * 400):
            with Connection(gateway.ports["h2c"]) as conn:
                # Behind the references the block adds an entry, which the next request names.
                stream = attack.send(conn, attack.bomb(value=value) + b"\x40" + text(":path") + text("/healthz"))
                self.assertEqual(status_of(conn.wait(HEADERS, stream).payload), 431)
                fields = block((":method", "GET"), (":scheme", "http"), (":authority", "localhost"))
                self.assertEqual(conn.reply(conn.headers(fields + b"\xbe"))[0], 200)
        self.assertEqual(self.figure(gateway, "header_blocks_stopped_total"), 3)

    def test_a_little_too_much_is_answered_as_ever(self):
        gateway = self.gateway()
        with Connection(gateway.ports["h2c"]) as conn:
            stream = attack.send(conn, attack.bomb(10))
            self.assertEqual(conn.reply(stream)[0], 431)
            self.assertEqual(conn.get("/healthz")[0], 200)
        self.assertEqual(self.figure(gateway, "header_blocks_stopped_total"), 0)

    def test_repeated_blocks_end_the_connection(self):
        gateway = self.gateway()
        for count in (attack.BOMB, 12):  # far above the limit, and a little
            with Connection(gateway.ports["h2c"]) as conn:
                attack.send(conn, attack.bomb(count))
                for _ in range(REPEATS):
                    attack.send(conn, block(*attack.PATHS) + attack.REFERENCE * count)
                    if not conn.orderly:
                        break
                self.assertEqual(self.end(conn), ("goaway", ENHANCE_YOUR_CALM))
            self.assertEqual(curl("--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code}",
                                  gateway.url("/healthz")), "200")

    @staticmethod
    def end(conn):
        """What ends the connection, streams' resets passed over."""
        while True:
            outcome = conn.outcome(replies=False)
            if outcome[0] != "rst":
                return outcome

    def test_trailers(self):
        gateway = self.gateway()
        with Connection(gateway.ports["h2c"]) as conn:
            stream = conn.headers(block((":method", "POST"), *attack.PATHS[1:3], (":path", "/v1/report")), END_HEADERS)
            conn.frame(DATA, 0, stream, b"x")
            attack.send(conn, attack.entry() + attack.REFERENCE * attack.BOMB, stream=stream)
            self.assertIn(status_of(conn.wait(HEADERS, stream).payload), (405, 431))  # refused at its headers, or at these
            self.assertEqual(conn.get("/healthz")[0], 200)
        self.assertEqual(self.figure(gateway, "header_blocks_stopped_total"), 1)

    def test_a_block_in_many_frames(self):
        gateway = self.gateway()
        with Connection(gateway.ports["h2c"]) as conn:
            stream = attack.send(conn, attack.bomb(3 * attack.BOMB))
            self.assertEqual(status_of(conn.wait(HEADERS, stream).payload), 431)
            self.assertEqual(conn.get("/healthz")[0], 200)

    def test_many_requests_just_under_the_limit_wait(self):
        """Large fields are paid for from the address's budget: what is above waits, on this connection and on others of the
        address that bring such fields, and nobody else does."""
        gateway = self.gateway("--set", "limits.header_bytes_per_s=1048576")
        with Connection(gateway.ports["h2c"], timeout_s=60) as conn:
            streams = [conn.headers(attack.under(first)) for first in [True] + [False] * 99]  # 2.7 MB decoded
            with Connection(gateway.ports["h2c"]) as other:
                self.assertEqual(other.get("/healthz")[0], 200)
            self.assertEqual([conn.reply(stream)[0] for stream in streams[-1:]], [200])
        self.assertGreaterEqual(self.figure(gateway, "header_pauses_total"), 1)


if __name__ == "__main__":
    unittest.main()
