#!/usr/bin/env python3
"""What is said of a rollout is of one moment: the verdict is that of the counts beside it, though the controller looks later."""
import subprocess
import unittest

from walle_stack import Stack, program, wait_until

FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 50, "min_dwell_s": 0, "max_failure": 0.9}]
SCRIPT = "import walle\nif walle.device['id'] > '0000000000000003':\n    1 // 0\nwalle.result(1)\n"


class Verdict(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)

    def device(self, number):
        subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--dir",
                        self.stack.path(f"d{number}"), "--id", f"{number:016x}", "--trust", self.stack.path("release.key.pub"), "--once"],
                       capture_output=True, timeout=240, check=True, stdin=subprocess.DEVNULL)

    def test_verdict_and_counts(self):
        """The controller looks once a minute; devices that answered since its last look are in both, or in none."""
        self.stack.start_gateway("--set", "rollout.tick_ms=60000")
        rollout = self.stack.release("shop/score", 1, SCRIPT, FULL)
        failed = 0
        for number in range(1, 6):
            self.device(number)
            failed += number > 3

            def answered():
                view = self.stack.api(f"/api/v1/rollouts/{rollout}")[1]
                counts = view["counts"]
                return view if counts["succeeded"] + counts["failed"] == number else None

            view = wait_until(answered, what=f"the answer of device {number}")
            self.assertEqual(view["counts"]["failed"], failed)
            self.assertAlmostEqual(view["failure_ratio"], failed / number, 5)
            self.assertNotEqual(view["reason"], "no_completions")
        said = self.stack.walle("rollout", "status", rollout, check=False).stdout
        self.assertRegex(said, r"verdict .*40\.00 % of the \w+ in the stage")
        self.assertRegex(said, r"3 ok, 2 failed")


if __name__ == "__main__":
    unittest.main()
