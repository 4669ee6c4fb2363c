"""Bodies of requests: what one holds never makes another's request fail, and little of it is memory."""
import hashlib
import os
import re
import struct
import subprocess
import sys
import threading
import unittest

from echo_upstream import Upstream
from raw_h2 import DATA, END_HEADERS, END_STREAM, HEADERS, PING, Connection, request, status_of
from walle_stack import SOURCE, Stack, program, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests"))
from hostile import unauthorised_uploads  # noqa: E402
from hostile.target import Target  # noqa: E402

ADMIN = "a-long-enough-admin-token"
MIB = 1 << 20
HALF_A_REPORT = b"r" * 16000


class Budgets(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        with open(self.stack.path("admin.token"), "w", encoding="utf-8") as file:
            file.write(ADMIN + "\n")
        os.chmod(self.stack.path("admin.token"), 0o600)
        self.gateway = self.stack.start_gateway("--set", "admin.token_file=" + self.stack.path("admin.token"), "--workers", "1")

    def resident(self):
        """Memory of its own: pages of files are not counted."""
        with open(f"/proc/{self.gateway.pid}/status", encoding="ascii") as file:
            return int(re.search(r"RssAnon:\s+(\d+) kB", file.read()).group(1)) * 1024

    def connect(self, source=None, **more):
        return Connection(self.gateway.ports["h2c"], source=source, **more)

    def report(self, conn, *fields):
        """Something that is no report, to the end: 400 says that it was read."""
        stream = conn.headers(request("/v1/report", "POST", *fields), END_HEADERS)
        conn.frame(DATA, END_STREAM, stream, HALF_A_REPORT)
        return conn.reply(stream)[0]

    def test_unauthorised_uploads_hold_nothing(self):
        stop, counts = threading.Event(), {}
        before = self.resident()
        attacker = threading.Thread(
            target=lambda: counts.update(unauthorised_uploads.attack(Target(h2c=self.gateway.ports["h2c"]), stop)))
        attacker.start()
        self.addCleanup(attacker.join)
        self.addCleanup(stop.set)
        with self.connect() as conn:
            for _ in range(12):
                wait_until(lambda: conn.get("/healthz")[0] == 200, what="an answer")
                self.assertEqual(self.report(conn), 400)
            stop.wait(2)  # it goes on
            self.assertEqual(self.report(conn), 400)
        after = self.resident()
        stop.set()
        attacker.join()
        self.assertGreater(counts["requests"], 10)
        self.assertEqual(counts["refused"], counts.get("401", 0))
        self.assertGreater(counts["refused"], counts["requests"] - 6)
        self.assertLess(after - before, 24 * MIB)

    def test_what_a_stranger_holds_is_its_own_loss(self):
        enrol = self.stack.walle("device", "enroll-token", "--name", "fleet", "--token", ADMIN).stdout.strip()
        with self.connect() as conn:
            body = conn.reply(conn.headers(request("/v1/enroll", "POST", ("authorization", "Bearer " + enrol),
                                                   ("walle-device", "00000000000000aa"))))[1]
        credential = body[body.index(b"wdt_"):][:47].decode()
        with self.connect() as hoard, self.connect() as proven, self.connect("127.0.0.2") as other:
            statuses = []
            for _ in range(14):  # 700 bodies of 16,000 bytes: more than the 8 MiB of one address
                for _ in range(50):
                    stream = hoard.headers(request("/v1/report", "POST", ("content-length", "16384")), END_HEADERS)
                    hoard.frame(DATA, 0, stream, HALF_A_REPORT)
                hoard.frame(PING, 0, 0, b"12345678")  # its answer comes when all of that was read
                frame = hoard.read()
                while frame.kind != PING:
                    statuses += [status_of(frame.payload)] if frame.kind == HEADERS else []
                    frame = hoard.read()
            self.assertEqual(set(statuses), {429})
            self.assertLess(len(statuses), 300)
            self.assertEqual(self.report(proven, ("walle-device", "00000000000000aa"), ("walle-credential", credential)), 400)
            self.assertEqual(self.report(other), 400)
        with self.connect() as again:  # and what it held is free again when it goes
            wait_until(lambda: self.report(again) == 400, what="the hoard's bytes to be given back")

    def test_small_bodies_count_as_what_they_hold(self):
        """A fleet reports together after a release: 100 bytes each, all waiting for the disk at once."""
        strangers = self.least("limits.body_bytes_strangers")
        self.gateway.stop()
        self.gateway = self.stack.start_gateway("--set", f"limits.body_bytes_strangers={strangers}")
        with self.connect() as fleet:
            many = strangers // 8 // 600  # of one address, an eighth
            self.assertGreater(many, 500)
            for _ in range(many):
                fleet.frame(DATA, 0, fleet.headers(request("/v1/report", "POST", ("content-length", "200")), END_HEADERS), b"r" * 100)
            fleet.frame(PING, 0, 0, b"12345678")
            frame = fleet.read()
            while frame.kind != PING:
                self.assertNotEqual(frame.kind, HEADERS, "one of them is refused")
                frame = fleet.read()

    def test_an_upload_is_not_held_in_memory(self):
        content = os.urandom(MIB) * 60
        path = "/api/v1/blobs/" + hashlib.sha256(content).hexdigest()
        with self.connect(timeout_s=60) as conn:
            conn.get("/healthz")
            before = self.resident()
            window, whole = 65535, MIB  # a stream, the connection
            stream = conn.headers(request(path, "PUT", ("authorization", "Bearer " + ADMIN)), END_HEADERS)
            at = 0
            while at < len(content):
                size = min(16384, window, whole, len(content) - at)
                if size > 0:
                    if at + size == len(content):
                        held = self.resident() - before
                    conn.frame(DATA, END_STREAM if at + size == len(content) else 0, stream, content[at:at + size])
                    at, window, whole = at + size, window - size, whole - size
                    continue
                frame = conn.wait(8)
                amount = struct.unpack(">I", frame.payload)[0]
                if frame.stream == 0:
                    whole += amount
                else:
                    window += amount
            self.assertLess(held, 16 * MIB)
            self.assertEqual(conn.reply(stream)[0], 201)
            self.assertEqual(os.listdir(os.path.join(self.gateway.folder, "tmp")), [])

    def least(self, name):
        """The least value that the gateway takes for a setting: it says so."""
        run = subprocess.run([program("walle-gateway"), "--dir", self.stack.path("unused"), "--set", name + "=1"],
                             capture_output=True, text=True, timeout=90)
        self.assertEqual(run.returncode, 2, run.stderr)
        return int(re.search(r"is not a number between (\d+) and", run.stderr).group(1))

    def test_with_the_least_of_all_budgets_one_body_of_a_stranger_fits(self):
        upstream = Upstream()
        self.addCleanup(upstream.close)
        budgets = [f"limits.{place}_bytes_{share}" for place in ("body", "spool") for share in ("total", "strangers", "actor")]
        least = [word for name in budgets for word in ("--set", f"{name}={self.least(name)}")]
        self.gateway.stop()
        self.gateway = self.stack.start_gateway("--upstream", upstream.url, *least)
        for size in (1, 16384, 262144, 262145, 1000000):  # in memory, and in a file
            done = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "--data-binary", "@-", self.gateway.url + "/echo"],
                                  input=b"a" * size, capture_output=True, timeout=60, check=True)
            self.assertIn(f"body={size}\n".encode(), done.stdout)


if __name__ == "__main__":
    unittest.main()
