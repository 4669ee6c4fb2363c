#!/usr/bin/env python3
"""What kills, takes back or refuses is named by enough of its id; a kill says of every rollout it ends that it was a kill, whose and why, and may
be said again in every state; what `rollout kill` and `release kill` have in common, and where they differ, is as their pages say."""
import subprocess
import unittest

from walle_stack import Stack, program, wait_until

FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.5}]
SCRIPT = "import walle\nwalle.result(1)\n"
TASK = "shop/score"


class Kills(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_hasty_gateway()

    def view(self, rollout):
        return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]

    def wait_state(self, rollout, state):
        return wait_until(lambda: (now := self.view(rollout))["state"] == state and now, what=f"{rollout} is {state}")

    def completed(self):
        rollout = self.stack.release(TASK, 1, SCRIPT, FULL)
        subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path("device"), "--id", "00000000000000d1",
                        "--trust", self.stack.path("release.key.pub"), "--enroll-token", self.stack.enroll_token, "--once"],
                       capture_output=True, timeout=120, stdin=subprocess.DEVNULL, check=True)
        return rollout, self.wait_state(rollout, "completed")["manifest"]

    def test_a_few_digits_kill_nothing(self):
        rollout = self.stack.release(TASK, 1, SCRIPT, FULL)
        self.assertIn(rollout, self.stack.walle("rollout", "status", rollout[:1]).stdout)
        for command in (("rollout", "kill"), ("rollout", "abort"), ("rollout", "undo"), ("device", "revoke"), ("device", "reset"), ("token", "revoke")):
            for digits in (1, 3):
                why = ("--reason", "a slip") if command[0] == "rollout" else ()
                run = self.stack.walle(*command, rollout[:digits], *why, check=False)
                self.assertEqual(run.returncode, 2, run.stderr)
                self.assertIn(f"{' '.join(command)} wants the whole id, or at least the first 4 digits of it", run.stderr)
        self.assertEqual(self.view(rollout)["state"], "running")
        self.stack.walle("rollout", "abort", rollout[:4], "--reason", "enough digits")
        self.wait_state(rollout, "rolled_back")

    def test_who_is_ended_by_a_kill_says_so(self):
        rollout = self.stack.release(TASK, 1, SCRIPT, FULL)
        manifest = self.view(rollout)["manifest"]
        self.stack.walle("release", "kill", manifest, "--reason", "leaks addresses", "--by", "ana")
        view = self.wait_state(rollout, "rolled_back")
        self.assertEqual((view["cause"]["reason"], view["kill"]["by"], view["kill"]["reason"]), ("killed", "admin (ana)", "leaks addresses"))
        for command in ("status", "explain"):
            said = self.stack.walle("rollout", command, rollout, check=False).stdout
            self.assertIn("the version was killed", said)
            self.assertIn("by admin (ana): leaks addresses", said)
            self.assertNotIn("aborted", said)
        self.assertNotIn("aborted", self.stack.walle("rollout", "list").stdout + self.stack.walle("rollout", "log", rollout).stdout)
        self.assertIn(" 0 differ", self.stack.walle("rollout", "replay", rollout).stdout)

    def test_in_every_state_and_again(self):
        rollout, manifest = self.completed()
        for state in ("completed", "rolled_back", "rolled_back"):
            self.wait_state(rollout, state)
            self.stack.walle("rollout", "kill", rollout, "--reason", "leaks")
            self.stack.walle("rollout", "kill", rollout, "--reason", "still")  # also while it goes back
            subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path("device"), "--id",
                            "00000000000000d1", "--trust", self.stack.path("release.key.pub"), "--once"],
                           capture_output=True, timeout=120, stdin=subprocess.DEVNULL, check=True)
        self.assertEqual(self.view(rollout)["kill"]["reason"], "leaks", "the first one stands")
        self.stack.walle("release", "unkill", manifest, "--reason", "no leak")
        self.assertIsNone(self.view(rollout)["kill"])
        self.stack.walle("rollout", "kill", rollout, "--reason", "it does")
        self.assertEqual(self.view(rollout)["kill"]["reason"], "it does")

    def test_both_kills_of_a_completed_rollout(self):
        rollout, manifest = self.completed()
        self.stack.walle("release", "kill", manifest, "--reason", "leaks")
        self.assertEqual(self.view(rollout)["state"], "completed")
        self.stack.walle("release", "unkill", manifest, "--reason", "no leak")
        self.assertEqual(self.stack.api(f"/api/v1/tasks/{self.stack.quoted(TASK)}")[1]["baseline"]["rollout"], rollout)
        self.stack.walle("rollout", "kill", rollout, "--reason", "leaks")
        self.assertIn(self.view(rollout)["state"], ("rolling_back", "rolled_back"))
        self.stack.walle("release", "unkill", manifest, "--reason", "no leak")
        self.assertIsNone(self.stack.api(f"/api/v1/tasks/{self.stack.quoted(TASK)}")[1]["baseline"])
        self.assertIn("nor is it a baseline\nagain if it was complete", self.stack.walle("rollout", "kill", "--help").stdout)
        self.assertIn("stays completed, and is a baseline again when the kill is lifted", self.stack.walle("release", "kill", "--help").stdout)


if __name__ == "__main__":
    unittest.main()
