"""A proxied request with a wrong credential goes nowhere; with a right one the upstream is told what was proven."""
import unittest

from echo_upstream import Upstream
from raw_h2 import Connection, request
from walle_stack import Stack

DEVICE, OTHER = "00000000000000aa", "00000000000000bb"


class Proven(unittest.TestCase):
    def enrol(self, token, device):
        with Connection(self.gateway.ports["h2c"]) as conn:
            body = conn.reply(conn.headers(request("/v1/enroll", "POST", ("authorization", "Bearer " + token),
                                                   ("walle-device", device))))[1]
            return body[body.index(b"wdt_"):][:47].decode()

    def ask(self, *fields):
        with Connection(self.gateway.ports["h2c"]) as conn:
            status = conn.reply(conn.headers(request("/echo", "GET", *fields)))[0]
        seen = self.upstream.requests.pop()[1] if self.upstream.requests else None
        return status, seen and dict(seen)

    def test_credentials_on_proxied_requests(self):
        self.upstream = Upstream()
        self.addCleanup(self.upstream.close)
        with Stack() as stack:
            self.gateway = stack.start_gateway("--upstream", self.upstream.url)
            token = stack.walle("device", "enroll-token", "--name", "fleet").stdout.strip()
            credential, other = self.enrol(token, DEVICE), self.enrol(token, OTHER)
            device = ("walle-device", DEVICE)
            for wrong in ("wdt_" + "x" * 43, "nonsense", other):
                self.assertEqual(self.ask(device, ("walle-credential", wrong)), (401, None))
            self.assertEqual(self.ask(("walle-device", "00000000000000cc"), ("walle-credential", credential)), (401, None))
            self.assertEqual(self.ask(("walle-device", "nonsense"), ("walle-credential", credential)), (401, None))
            self.assertEqual(self.ask(("walle-credential", credential)), (401, None))
            status, seen = self.ask(device, ("walle-credential", credential), ("walle-proven", "device=" + OTHER))
            self.assertEqual((status, seen["walle-proven"]), (200, f"device={DEVICE}; tenant=default; by=credential"))
            self.assertNotIn("walle-credential", seen)
            status, seen = self.ask(device)  # a claim is passed on as one
            self.assertEqual(status, 200)
            self.assertNotIn("walle-proven", seen)
            status, seen = self.ask()
            self.assertEqual(status, 200)
            self.assertNotIn("walle-proven", seen)
            stack.walle("device", "revoke", DEVICE)
            self.assertEqual(self.ask(device, ("walle-credential", credential)), (403, None))


if __name__ == "__main__":
    unittest.main()
