"""Point 15: what is no answer of a gateway, a proxy's redirect or nothing at all, is not taken for a success; and what did not
reach standard output is an error."""
import resource
import signal
import subprocess
import unittest

import evil_gateway
from walle_stack import Stack, program

SHA, ID = "ab" * 32, "00" * 8
CHANGES = [("release", "kill", SHA, "--reason", "x"), ("release", "unkill", SHA, "--reason", "x"), ("rollout", "kill", ID, "--reason", "x"),
           ("rollout", "pause", ID), ("rollout", "status", ID), ("audit", "verify")]
REFUSED, LOCAL = 4, 5


class ProxyAnswers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.addClassCleanup(cls.stack.__exit__, None, None, None)
        cls.evil = evil_gateway.Evil(cls.stack)

    def test_no_answer_is_no_success(self):
        for status in (200, 204, 302, 304, 307):
            self.evil.hook = lambda request, forward, status=status: (status, b"")
            for command in CHANGES:
                run = subprocess.run([program("walle"), *command, "--gateway", self.evil.url, "--token", "x" * 43], capture_output=True,
                                     stdin=subprocess.DEVNULL, text=True, timeout=30, check=False)
                with self.subTest(status=status, command=command):
                    self.assertEqual((run.returncode, run.stdout), (REFUSED, ""), run.stderr)
                    self.assertIn(f"answered {status}", run.stderr)

    def test_what_is_cut_off_is_an_error(self):
        def small():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        with open(self.stack.path("cut"), "wb") as file:
            run = subprocess.run([program("walle"), "completion", "bash"], stdout=file, stderr=subprocess.PIPE, text=True,
                                 preexec_fn=small, timeout=30, check=False)
        self.assertEqual(run.returncode, LOCAL, run.stderr)
        self.assertIn("standard output: cannot write", run.stderr)


if __name__ == "__main__":
    unittest.main()
