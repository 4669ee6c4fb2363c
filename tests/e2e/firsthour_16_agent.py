#!/usr/bin/env python3
"""The agent says what it could not do: whose certificate it did not believe and by which file, that its root is another gateway's, and,
with --once, what is not at the gateway when it ends."""
import re
import subprocess
import unittest

from evil_gateway import Evil
from walle_stack import Stack, program

DEVICE = "00000000000004d2"
SCRIPT = "import walle\nwalle.result({'n': 7})\n"


class Agent(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.gateway = self.stack.start_gateway("--workers", "1", "--set", "rollout.tick_ms=100")

    def agent(self, *arguments, url=None, folder="device"):
        return subprocess.run([program("walle-device"), "--gateway", url or self.gateway.url, "--dir", self.stack.path(folder), "--once", *arguments],
                              capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)

    def key(self, name):
        self.stack.walle("key", "new", "--out", self.stack.path(name))
        return self.stack.path(name + ".pub")

    def test_a_certificate_of_another(self):
        other = Stack()
        self.addCleanup(other.__exit__)
        other.start_gateway()
        wrong = other.path("gateway", "cert.pem")
        said = self.agent("--enroll-token", self.stack.enroll_token, "--ca", wrong, "--trust", self.key("key"), url=self.gateway.tls_url)
        self.assertEqual(said.returncode, 1)
        self.assertRegex(said.stderr, r"enrolment: the certificate of 127\.0\.0\.1:\d+ is not believed by " + re.escape(wrong[:40]) + ".*: .*certificate")
        self.assertNotIn("input/output", said.stderr)
        own = self.stack.path("gateway", "cert.pem")
        self.assertEqual(self.agent("--enroll-token", self.stack.enroll_token, "--ca", own, "--trust", self.stack.path("key.pub"),
                                    url=self.gateway.tls_url).returncode, 0)
        child = self.stack.spawn_path(program("walle-device"), "--gateway", self.gateway.tls_url, "--ca", wrong, "--dir", self.stack.path("device"),
                                      "--trust", self.stack.path("key.pub"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in child.stderr:
            if " is not believed by " in line:
                break
        self.assertIn(f"is not believed by {wrong}: ", line)
        child.terminate()
        child.communicate(timeout=60)

    def test_a_certificate_that_is_not_there(self):
        missing = self.stack.path("nope.pem")
        said = self.agent("--id", "00000000000000d1", "--ca", missing, "--trust", self.key("key"), url=self.gateway.tls_url)
        self.assertEqual(said.returncode, 1)
        self.assertIn(f"the gateway's certificate (CA) cannot be read: {missing}: No such file", said.stderr)
        self.assertNotIn("isolation", said.stderr)

    def test_a_root_of_another(self):
        roots = {}
        for name in ("mine", "theirs"):
            release = self.key(name + ".release")
            self.key(name + ".root")
            roots[name] = self.stack.path(name + ".1")
            self.stack.walle("root", "init", "--out", roots[name], "--key", self.stack.path(name + ".root"), "--release", release)
        self.stack.walle("root", "push", roots["mine"])
        self.stack.release_to_all("greet", SCRIPT, self.stack.path("mine.release"))
        said = self.agent("--enroll-token", self.stack.enroll_token, "--root", roots["mine"], folder="other")
        self.assertNotIn("not believed", said.stderr)
        self.assertIn("task greet ", said.stdout)
        said = self.agent("--enroll-token", self.stack.enroll_token, "--root", roots["theirs"])
        self.foreign(said)

    def test_a_key_of_another(self):
        self.key("key")
        self.stack.release_to_all("greet", SCRIPT, self.stack.path("key"))
        self.foreign(self.agent("--enroll-token", self.stack.enroll_token, "--trust", self.key("other")))

    def foreign(self, said):
        self.assertEqual(said.stdout, "")
        self.assertRegex(said.stderr, r"WARN.*what the gateway offers is not believed: signature.*; it is not run; .*--root or --trust of another gateway")

    def test_once_waits_for_what_its_runs_made(self):
        key = self.key("key")
        self.stack.release_to_all("clock", SCRIPT, self.stack.path("key"), every_s=3600, uploads=[{"name": "seen", "class": "control"}],
                                  result="seen")
        said = self.agent("--enroll-token", self.stack.enroll_token, "--trust", key, "--id", DEVICE)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn('{"n":7}', said.stdout)
        self.assertRegex(said.stderr, r"this run: .* uploads: 1 taken, 0 refused here; since this device's folder was made: "
                                      r"0 refused by the gateway, 1 durable there; now: 0 queued")
        self.assertEqual([row["record"]["n"] for row in self.stack.exported() if "record" in row], [7])
        said = self.agent("--trust", key)
        self.assertRegex(said.stderr, r"uploads: 0 taken.*1 durable there; now: 0 queued")

    def test_once_does_not_wait_for_ever(self):
        """Uploads alone do not get through: it ends after 30 s, says what is left, and the next run sends it."""
        key = self.key("key")
        self.stack.release_to_all("clock", SCRIPT, self.stack.path("key"), every_s=3600, uploads=[{"name": "seen", "class": "control"}],
                                  result="seen")
        front = Evil(self.stack, only=("/v1/tunnel",))
        front.hook = lambda request, forward: (503, b"")
        who = ("--enroll-token", self.stack.enroll_token, "--trust", key)
        said = self.agent(*who, url=front.url)
        self.assertEqual(said.returncode, 3, said.stderr)
        self.assertIn("--once ends with 1 records unsent and 0 starts waiting: nothing moved for 30 s", said.stderr)
        self.assertEqual([row for row in self.stack.exported() if "record" in row], [])
        said = self.agent(*who)
        self.assertEqual((said.returncode, "now: 0 queued" in said.stderr), (0, True), said.stderr)
        self.assertEqual([row["record"]["n"] for row in self.stack.exported() if "record" in row], [7])


if __name__ == "__main__":
    unittest.main()
