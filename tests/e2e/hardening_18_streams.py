#!/usr/bin/env python3
"""Programs that are started without standard streams, or on a disk that takes no more: what they print goes nowhere, never into a file
of theirs, and a write that fails is said."""
import os
import resource
import subprocess
import unittest

from evil_gateway import free_port
from walle_stack import Stack, program, wait_until


def closed():
    """In the child, behind whatever its parent opened for it."""
    for number in range(3):
        os.close(number)


class Streams(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def test_a_gateway_without_streams_writes(self):
        folder = self.stack.path("gateway")
        port = free_port()
        child = subprocess.Popen([program("walle-gateway"), "--log", "debug", "--dir", folder, "--tls", "none", "--h2c", f"127.0.0.1:{port}",
                                  "--workers", "1"], preexec_fn=closed)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        environment = {**os.environ, "WALLE_GATEWAY": f"http://127.0.0.1:{port}"}
        wait_until(lambda: os.path.exists(os.path.join(folder, "admin.token")), what="the gateway to start")
        with open(os.path.join(folder, "admin.token"), encoding="ascii") as file:
            environment["WALLE_TOKEN"] = file.read().strip()

        def answers():
            return subprocess.run([program("walle"), "task", "list"], env=environment, capture_output=True, check=False).returncode == 0
        wait_until(answers, what="the gateway to answer")
        made = subprocess.run([program("walle"), "token", "new", "--name", "x", "--role", "viewer"], env=environment, capture_output=True,
                              text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        for number in range(3):
            self.assertEqual(os.readlink(f"/proc/{child.pid}/fd/{number}"), "/dev/null")
        for name in ("store.mdb-lock", "gateway.lock"):
            path = os.path.join(folder, name)
            if os.path.exists(path):
                with open(path, "rb") as file:
                    self.assertNotIn(b"gateway", file.read().replace(folder.encode(), b""), name)

    def test_a_file_that_may_not_grow(self):
        self.stack.start_gateway("--workers", "1")

        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (512, resource.RLIM_INFINITY))
        self.stack.walle("key", "new", "--out", self.stack.path("x.key"))
        device = subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path("d"), "--id",
                                 "00000000000000aa", "--trust", self.stack.path("x.key.pub"), "--once"], preexec_fn=small,
                                capture_output=True, text=True, check=False, timeout=120)
        self.assertGreater(device.returncode, 0, f"a signal ended it, or nothing was said\n{device.stdout}{device.stderr}")
        self.assertIn(self.stack.path("d", "pipeline") + ": cannot open the store", device.stderr)


if __name__ == "__main__":
    unittest.main()
