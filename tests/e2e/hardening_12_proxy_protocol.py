"""Whose address counts: the balancer's word in the PROXY protocol, a trusted hop's x-forwarded-for, and never a stranger's.
Nobody who came through either is "on this machine"."""
import os
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import unittest

from test_gateway_http import REAL, Gateway
from raw_h2 import PREFACE, SETTINGS, Closed, Connection, request

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
API = "/api/v1/rollouts"  # for who has a token
HERE = "/metrics"  # for who is on this machine, too


def v2(client, command=0x21, tlvs=b""):
    packed = socket.inet_aton(client) + socket.inet_aton("198.51.100.1") + struct.pack(">HH", 56324, 443) + tlvs
    return SIGNATURE + bytes([command, 0x11]) + struct.pack(">H", len(packed)) + packed


def v1(client):
    return f"PROXY TCP4 {client} 198.51.100.1 56324 443\r\n".encode()


class Behind(Connection):
    """A connection whose first bytes are a balancer's, perhaps in pieces."""

    def __init__(self, port, header, pieces=1, tls=False):
        super().__init__(port, preface=False)
        step = max(1, -(-len(header) // pieces))
        for at in range(0, len(header), step):
            self.socket.sendall(header[at:at + step])
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
            self.socket = context.wrap_socket(self.socket)
        self.raw(PREFACE)
        self.frame(SETTINGS, 0, 0)


class ProxyProtocol(unittest.TestCase):
    def gateway(self, *settings):
        gateway = Gateway(*(word for setting in settings for word in ("--set", setting)), program=REAL)
        self.addCleanup(gateway.__exit__)
        return gateway

    def trusting(self, *settings):
        return self.gateway("listen.proxy_protocol=on", "listen.proxy_from=127.0.0.1", *settings)

    def test_both_versions_on_both_listeners(self):
        gateway = self.trusting()
        for header in (v1("192.0.2.7"), v2("192.0.2.7"), v2("192.0.2.7", tlvs=b"\x04\0\x20" + bytes(32)),
                       b"PROXY UNKNOWN\r\n", v2("0.0.0.0", 0x20)):
            for pieces in (1, 3, len(header)):
                with Behind(gateway.ports["h2c"], header, pieces) as conn:
                    self.assertEqual(conn.get("/healthz")[0], 200, header)
            with Behind(gateway.ports["tls"], header, 2, tls=True) as conn:
                self.assertEqual(conn.get("/healthz")[0], 200, header)

    def test_who_is_behind_a_balancer_is_not_on_this_machine(self):
        gateway = self.trusting()
        for header in (v1("127.0.0.1"), v2("127.0.0.1"), b"PROXY UNKNOWN\r\n", v2("0.0.0.0", 0x20)):
            with Behind(gateway.ports["h2c"], header) as conn:
                self.assertEqual(conn.get(HERE)[0], 401, header)

    def test_wrong_headers_are_closed(self):
        gateway = self.trusting()
        long_v2 = SIGNATURE + b"\x21\x11" + struct.pack(">H", 2000)
        for header in (b"", b"PROXY TCP4 192.0.2.7\r\n", b"PROXY TCP4 192.0.2.7 1.1.1.1 1 99999\r\n", b"PROXY " + b"A" * 120,
                       b"PROXY TCP6 192.0.2.7 1.1.1.1 1 2\r\n", v2("192.0.2.7", 0x22), v2("192.0.2.7", 0x31), long_v2):
            with self.assertRaises(Closed, msg=header):
                with Behind(gateway.ports["h2c"], header) as conn:
                    conn.get("/healthz")
        gateway.wait_log("does not begin with a PROXY header")

    def test_limits_are_the_clients(self):
        """A client's rate and number of connections, over one balancer; another client's are its own."""
        gateway = self.trusting("limits.connects_per_s=1", "limits.connects_burst=5", "limits.connections_per_address=4")
        held = [Behind(gateway.ports["h2c"], v1("192.0.2.7")) for _ in range(4)]
        for conn in held:
            self.addCleanup(conn.socket.close)
            self.assertEqual(conn.get("/healthz")[0], 200)
        with self.assertRaises(Closed):
            Behind(gateway.ports["h2c"], v1("192.0.2.7")).get("/healthz")
        for _ in range(4):
            with Behind(gateway.ports["h2c"], v1("192.0.2.8")) as conn:
                self.assertEqual(conn.get("/healthz")[0], 200)

    def test_strangers_are_not_believed(self):
        """With the setting off, and from an address that is not listed: such bytes are no request."""
        for gateway in (self.gateway(), self.gateway("listen.proxy_protocol=on", "listen.proxy_from=192.0.2.0/24")):
            with Connection(gateway.ports["h2c"]) as conn:
                self.assertEqual(conn.get(HERE)[0], 200)  # on this machine as ever
            with self.assertRaises(Closed):  # 400, in HTTP/1.1
                Behind(gateway.ports["h2c"], v1("192.0.2.7")).get("/healthz")

    def fail(self, conn, *more):
        return conn.reply(conn.headers(request(API, "GET", ("authorization", "Bearer wrong" + "g" * 38 + "="), *more)))[0]

    def statuses(self, conn, count, *more):
        return [self.fail(conn, *more) for _ in range(count)]

    def test_forwarded_for_of_a_trusted_hop(self):
        """Failed authentications are counted by address: of who is behind the hop, not of what they say of themselves."""
        gateway = self.gateway("listen.trusted_hops=127.0.0.1, 10.0.0.0/8")
        with Connection(gateway.ports["h2c"]) as conn:
            self.assertEqual(conn.get(HERE)[0], 401)  # a hop is not "on this machine", whoever it speaks for
            liars = [self.fail(conn, ("x-forwarded-for", f"203.0.113.{i}, 192.0.2.7, 10.1.2.3")) for i in range(25)]
            self.assertIn(429, liars)  # one client, whatever stands in front
            self.assertEqual(self.fail(conn, ("x-forwarded-for", "192.0.2.8, 10.1.2.3")), 401)

    def test_forwarded_for_of_strangers(self):
        gateway = self.gateway("listen.trusted_hops=192.0.2.1")
        with Connection(gateway.ports["h2c"]) as conn:
            self.assertEqual(conn.get(HERE)[0], 200)
            self.assertIn(429, [self.fail(conn, ("x-forwarded-for", f"203.0.113.{i}")) for i in range(25)])

    def test_a_balancer_that_is_a_hop_too(self):
        """Its clients are not hops for that: what they say of themselves is not believed."""
        gateway = self.trusting("listen.trusted_hops=127.0.0.1")
        with Behind(gateway.ports["h2c"], v1("192.0.2.9")) as conn:
            self.assertIn(429, [self.fail(conn, ("x-forwarded-for", f"203.0.113.{i}")) for i in range(25)])

    def test_a_hop_behind_a_balancer(self):
        """It is believed: those it carries are counted one by one."""
        gateway = self.trusting("listen.trusted_hops=10.0.0.5")
        with Behind(gateway.ports["h2c"], v1("10.0.0.5")) as conn:
            self.assertEqual({self.fail(conn, ("x-forwarded-for", f"203.0.113.{i}")) for i in range(25)}, {401})

    def test_nobody_behind_a_balancer_passes_an_overload(self):
        """Only this machine's own connections are taken when memory is used up."""
        gateway = self.trusting("overload.memory_bytes=4194304")
        gateway.wait_log("critical")
        with self.assertRaises(Closed):
            Behind(gateway.ports["h2c"], v1("192.0.2.7")).get("/healthz")

    def test_settings_that_are_wrong(self):
        folder = tempfile.mkdtemp(prefix="walle-http-")
        self.addCleanup(shutil.rmtree, folder, True)
        for setting, why in (("listen.proxy_protocol=maybe", "listen.proxy_protocol: 'maybe' is neither on nor off"),
                             ("listen.proxy_protocol=on", "listen.proxy_from names nobody"),
                             ("listen.proxy_from=10.0.0.1/8", "listen.proxy_from: '10.0.0.1/8' has bits set behind its first 8"),
                             ("listen.trusted_hops=here", "listen.trusted_hops: 'here' is not a numeric address"),
                             ("listen.trusted_hops=::/129", "listen.trusted_hops: '::/129': the number of bits is 0 to 128")):
            run = subprocess.run([REAL, "--dir", os.path.join(folder, "data"), "--h2c", "127.0.0.1:0", "--tls", "none", "--set", setting],
                                 capture_output=True, text=True, timeout=90, check=False)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(why, run.stderr)


if __name__ == "__main__":
    unittest.main()
