"""Strangers of many addresses who ask for a path on which the upstream answers late get their part of a worker's connections and waiting
places. The rest is kept for devices that prove themselves: these are served meanwhile, on the settings as shipped."""
import contextlib
import unittest

from echo_upstream import Upstream
from raw_h2 import PING, Connection, request
from walle_stack import Stack, wait_until

DEVICE = 0xaa
ADDRESSES = 6
REQUESTS = 16 + 256  # proxy.connections_per_client and proxy.waiting_per_client
CONNECTIONS, OF_STRANGERS = 64, 48  # proxy.connections and proxy.connections_strangers


class Kept(unittest.TestCase):
    def strangers_ask(self, gateway):
        """Their connections, with all requests read."""
        for last in range(2, 2 + ADDRESSES):
            connection = Connection(gateway.ports["h2c"], source=f"127.0.0.{last}")
            self.addCleanup(connection.socket.close)
            for _ in range(REQUESTS):
                connection.headers(request("/held"))
            connection.frame(PING, 0, 0, b"all read")
            connection.wait(PING)

    def test_places_of_devices(self):
        upstream = Upstream()
        self.addCleanup(upstream.close)
        with Stack() as stack:
            gateway = stack.start_gateway("--upstream", upstream.url, "--workers", "1")
            shown = (("walle-device", f"{DEVICE:016x}"), ("walle-credential", stack.enrol([DEVICE])[DEVICE]))
            self.strangers_ask(gateway)
            wait_until(lambda: len(upstream.requests) >= OF_STRANGERS, what="the strangers to have what they may")
            with Connection(gateway.ports["h2c"]) as connection:  # a stranger more
                self.assertEqual(connection.get("/echo")[0], 503)
            with Connection(gateway.ports["h2c"]) as connection:
                for _ in range(20):
                    self.assertEqual(connection.reply(connection.headers(request("/echo", "GET", *shown)))[0], 200)
            with contextlib.ExitStack() as open_ones:
                own = [open_ones.enter_context(Connection(gateway.ports["h2c"])) for _ in range(17)]
                held = [(connection, connection.headers(request("/held", "GET", *shown))) for connection in own[:16]]
                wait_until(lambda: len(upstream.requests) == OF_STRANGERS + 20 + 16, what="all that are kept to be used")
                self.assertEqual(upstream.open, CONNECTIONS)
                held.append((own[16], own[16].headers(request("/echo", "GET", *shown))))  # the 17th of one device waits, as it did
                upstream.held.release(16 + ADDRESSES * REQUESTS)
                self.assertEqual([connection.reply(stream)[0] for connection, stream in held], [200] * 17)
            with Connection(gateway.ports["h2c"]) as connection:  # the places of strangers come back
                wait_until(lambda: connection.get("/echo")[0] == 200, what="a stranger to be served again")
            self.assertEqual(gateway.stop(), 0, gateway.log_text()[-2000:])


if __name__ == "__main__":
    unittest.main()
