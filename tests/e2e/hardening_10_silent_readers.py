"""Connections that read nothing: what waits for them in the kernel is bounded and has a deadline, and where there is too
little memory strangers go first, never those who have proven who they are."""
import os
import re
import struct
import sys
import unittest

from test_gateway_http import REAL, Gateway, curl
from walle_stack import wait_until
from raw_h2 import Connection, request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from hostile import silent_readers as attack  # noqa: E402

MOST_WAITING = 512 * 1024  # of one connection, in the kernel, by default


def waiting(port):
    """Bytes that wait in the kernel for the peers of a port, one figure a connection (/proc/net/tcp)."""
    found = []
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table.readlines()[1:]:
            local, state, queues = (line.split()[i] for i in (1, 3, 4))
            if int(local.split(":")[1], 16) == port and state != "0A":  # not the listener
                found.append(int(queues.split(":")[0], 16))
    return found


class SilentReaders(unittest.TestCase):
    def gateway(self, *more):
        gateway = Gateway(*more, program=REAL)
        self.addCleanup(gateway.__exit__)
        return gateway

    def silent(self, gateway, count, requests=attack.REQUESTS):
        said = attack.words(requests)
        held = [attack.connect(gateway.ports["h2c"], said, patience_s=60) for _ in range(count)]
        for sock in held:
            self.assertIsNotNone(sock)
            self.addCleanup(sock.close)
        return held

    def figure(self, gateway, name):
        page = curl("--http2-prior-knowledge", gateway.url("/metrics"))
        return int(re.search(rf"^walle_{name} (\d+)$", page, re.M).group(1))

    def test_what_waits_is_bounded(self):
        """With the shipped settings. A second connection answers when the gateway is through with the first one's input."""
        gateway = self.gateway()
        held = self.silent(gateway, 4)
        port = gateway.ports["h2c"]
        wait_until(lambda: sum(size > 0 for size in waiting(port)) >= len(held), what="replies under way")
        before = None
        while before != (before := waiting(port)):  # until no more comes
            curl("--http2-prior-knowledge", gateway.url("/healthz"))
        self.assertLess(max(before), MOST_WAITING)

    def test_who_does_not_read_is_closed_whoever_holds_the_replies(self):
        """Few replies, which the kernel took at once, and many."""
        gateway = self.gateway("--set", "timeouts.write_ms=1000")
        for requests in (30, attack.REQUESTS):
            held = self.silent(gateway, 3, requests)
            wait_until(lambda: all(map(attack.is_over, held)), what="the end of those who read nothing")
        wait_until(lambda: sum(waiting(gateway.ports["h2c"])) == 0, what="an empty kernel")
        self.assertGreaterEqual(self.figure(gateway, "unread_closed_total"), 6)

    def test_who_takes_a_little_now_and_then_is_closed(self):
        gateway = self.gateway("--set", "timeouts.write_ms=1000", "--set", "limits.reply_rate_bytes=1048576")
        held = self.silent(gateway, 1)[0]
        held.settimeout(5)

        def sips():
            try:
                return len(held.recv(1000)) == 0
            except OSError:
                return True
        wait_until(sips, what="the end of who takes too little")

    def test_who_reads_slowly_but_enough_is_served(self):
        gateway = self.gateway("--set", "timeouts.write_ms=5000")
        held = self.silent(gateway, 1)[0]
        held.settimeout(60)
        got = 0
        while got < attack.REQUESTS * 9000:
            piece = held.recv(65536)
            self.assertTrue(piece)
            got += len(piece)

    def test_strangers_go_first_when_there_is_too_little(self):
        """The limit is less than the silent ones' sockets hold. Who holds nothing stays as long as others do."""
        gateway = self.gateway("--set", "overload.socket_bytes=4194304")
        with Connection(gateway.ports["h2c"]) as modest:
            self.assertEqual(modest.get("/healthz")[0], 200)
            self.silent(gateway, 40)
            wait_until(lambda: self.figure(gateway, "overload_shed_strangers_total") > 0, what="strangers that go")
            wait_until(lambda: self.figure(gateway, "overload_level") == 0, what="calm")
            self.assertLess(self.figure(gateway, "socket_bytes"), 4194304)
            self.assertEqual(modest.get("/healthz")[0], 200)
        gateway.wait_log("overload: calm")
        self.assertEqual(gateway.log_text().count("overload: "), len(set(re.findall("overload: .*", gateway.log_text()))))
        self.assertEqual(self.figure(gateway, "overload_shed_idle_total"), 0)

    def test_who_has_proven_who_they_are_stays(self):
        """An operator's connection alone holds more than the limit: strangers go, it does not."""
        gateway = self.gateway("--set", "overload.socket_bytes=262144")
        with Connection(gateway.ports["h2c"], settings=struct.pack(">HI", attack.INITIAL_WINDOW_SIZE, attack.WINDOW)) as operator:
            operator.frame(attack.WINDOW_UPDATE, 0, 0, struct.pack(">I", attack.WINDOW - 65535))
            self.assertEqual(operator.reply(operator.headers(request("/api/v1/rollouts", "GET", gateway.bearer())))[0], 200)
            for _ in range(attack.REQUESTS):
                operator.headers(request("/"))
            strangers = self.silent(gateway, 4)
            wait_until(lambda: all(map(attack.is_over, strangers)), what="strangers that go")
            self.assertFalse(attack.is_over(operator.socket))
            self.assertEqual(operator.reply(operator.next_stream - 2)[0], 200)


if __name__ == "__main__":
    unittest.main()
