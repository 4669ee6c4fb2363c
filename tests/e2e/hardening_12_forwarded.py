"""What the upstream is told about the client is what the gateway knows: nothing of it comes from the client."""
import unittest

from echo_upstream import Upstream
from raw_h2 import Connection, request
from walle_stack import Stack

FORGED = [("x-forwarded-for", "10.0.0.1"), ("x-forwarded-proto", "gopher"), ("x-forwarded-host", "evil.example"),
          ("x-forwarded-port", "1"), ("x-forwarded-prefix", "/evil"), ("x_forwarded_for", "10.0.0.2"), ("x-real-ip", "10.0.0.3"),
          ("x-forwarded", "10.0.0.7"), ("forwarded-for", "10.0.0.8"), ("remote-user", "evil"), ("x-original-url", "/evil"),
          ("forwarded", "for=10.0.0.4;host=evil.example"), ("true-client-ip", "10.0.0.5"), ("x-client-ip", "10.0.0.6"),
          ("walle-proven", "device=00000000000000aa; tenant=default; by=credential"), ("walle_proven", "device=00000000000000aa"),
          ("proxy-authorization", "Basic eA=="), ("te", "trailers"), ("walle-credential", "")]


class Forwarded(unittest.TestCase):
    def test_forged_headers_do_not_pass(self):
        upstream = Upstream()
        self.addCleanup(upstream.close)
        with Stack() as stack:
            gateway = stack.start_gateway("--upstream", upstream.url)
            for tls, scheme in ((False, "http"), (True, "https")):
                port = gateway.ports["tls" if tls else "h2c"]
                with Connection(port, tls=tls, source="127.0.0.3") as conn:
                    fields = FORGED + [("x-case", "kept")]
                    self.assertEqual(conn.reply(conn.headers(request("/echo", "GET", *fields)))[0], 200)
                seen = upstream.requests.pop()[1]
                text = "\n".join(f"{name}: {value}" for name, value in seen)
                for name, value in (("x-forwarded-for", "127.0.0.3"), ("x-real-ip", "127.0.0.3"), ("x-forwarded-proto", scheme),
                                    ("x-forwarded-host", "localhost"), ("x-forwarded-port", str(port)), ("x-case", "kept"),
                                    ("forwarded", f'for=127.0.0.3;host="localhost";proto={scheme}'), ("host", "localhost")):
                    self.assertEqual([given for key, given in seen if key == name], [value], text)
                for trace in ("10.0.0.", "evil", "gopher", "prefix", "_", "proven", "proxy-", "client-ip", "credential"):
                    self.assertNotIn(trace, text)
                self.assertFalse([key for key, _ in seen if key == "te"])


if __name__ == "__main__":
    unittest.main()
