"""A proxied request with a wrong credential goes nowhere; with a right one the upstream is told what was proven. What counts is what
is true when the upstream gets it: a device that is revoked while its request waits, or its body is on the way, is refused."""
import struct
import unittest

from echo_upstream import Upstream
from raw_h2 import CANCEL, DATA, END_HEADERS, END_STREAM, RST_STREAM, Connection, request
from walle_stack import Stack, wait_until

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

    def test_a_device_revoked_on_the_way(self):
        self.upstream = Upstream()
        self.addCleanup(self.upstream.close)
        with Stack() as stack:
            self.gateway = stack.start_gateway("--upstream", self.upstream.url, "--workers", "1", "--set", "proxy.connections=1")
            token = stack.walle("device", "enroll-token", "--name", "fleet").stdout.strip()
            shown = {device: (("walle-device", device), ("walle-credential", self.enrol(token, device))) for device in (DEVICE, OTHER)}
            for device in shown:  # once each: the credential is in use
                self.assertEqual(self.ask(*shown[device])[0], 200)
            with Connection(self.gateway.ports["h2c"], timeout_s=60) as conn:
                # Its body is half there.
                stream = conn.headers(request("/echo", "POST", *shown[DEVICE]), END_HEADERS)
                conn.frame(DATA, 0, stream, b"half")
                self.assertEqual(conn.get("/echo")[0], 200)  # the gateway has read it
                stack.walle("device", "revoke", DEVICE)
                conn.frame(DATA, END_STREAM, stream, b"half")
                self.assertEqual(conn.reply(stream)[0], 403)
                # It waits for a connection to the upstream.
                self.upstream.requests.clear()
                holder = conn.headers(request("/drip"))
                wait_until(lambda: self.upstream.requests, what="the one connection to be held")
                stream = conn.headers(request("/echo", "GET", *shown[OTHER]))
                conn.get("/v1/checkin")  # read as well
                stack.walle("device", "revoke", OTHER)
                conn.frame(RST_STREAM, 0, holder, struct.pack(">I", CANCEL))
                self.assertEqual(conn.reply(stream)[0], 403)
                self.assertEqual(conn.get("/echo")[0], 200)  # who waits behind it is served
            self.assertEqual([line for line, _, _ in self.upstream.requests], ["GET /drip HTTP/1.1", "GET /echo HTTP/1.1"])


if __name__ == "__main__":
    unittest.main()
