#!/usr/bin/env python3
"""What kills, takes back or refuses is named by enough of its id; a kill says of every rollout it ends that it was a kill, whose and why, and may
be said again in every state; what `rollout kill` and `release kill` have in common, and where they differ, is as their pages say."""
import json
import os
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

    def test_nobody_takes_back_for_no_reason(self):
        rollout = self.stack.release(TASK, 1, SCRIPT, FULL)
        for verb in ("abort", "undo", "kill"):
            run = self.stack.walle("rollout", verb, rollout, check=False)
            self.assertEqual((run.returncode, "--reason TEXT is missing" in run.stderr), (2, True), run.stderr)
            status, answer = self.stack.api(f"/api/v1/rollouts/{rollout}/{verb}", "POST", {"reason": " "})
            self.assertEqual((status, answer["detail"]), (400, f"reason: {verb} needs one"))
        self.assertEqual(self.view(rollout)["state"], "running")

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

    def test_a_version_by_the_beginning_of_its_hash(self):
        """Of all versions that were pushed, released or not; what the gateway does not have is named by all digits."""
        manifests = {self.view(self.stack.release(TASK, number, SCRIPT + f"# {number}\n", FULL))["manifest"] for number in range(1, 4)}
        os.mkdir(self.stack.path("pushed"))
        with open(self.stack.path("pushed", "task.json"), "w", encoding="ascii") as file:
            json.dump({"name": "shop/never-released", "version": "1.0.0", "entry": "task", "files": ["task.py"]}, file)
        with open(self.stack.path("pushed", "task.py"), "w", encoding="ascii") as file:
            file.write(SCRIPT)
        self.stack.walle("task", "build", self.stack.path("pushed"), "--out", self.stack.path("pushed.build"))
        self.stack.walle("task", "push", self.stack.path("pushed.build"))
        pushed = json.loads(self.stack.walle("task", "get", "shop/never-released").stdout)["versions"][0]["manifest"]

        def kill(text):
            run = self.stack.walle("release", "kill", text, "--reason", "leaks", check=False)
            return run.returncode, run.stdout, run.stderr
        code, _, said = kill(pushed[:3])
        self.assertEqual(code, 2, said)
        self.assertIn("release kill wants the whole id, or at least the first 4 digits of it", said)
        code, _, said = kill("0000" if not any(one.startswith("0000") for one in {*manifests, pushed}) else "ffff")
        self.assertEqual(code, 4, said)
        self.assertIn("named by all 64 digits", said)
        self.assertEqual(self.stack.walle("release", "kills").stdout, "no version is killed\n")
        one = min(manifests)
        code, out, said = kill(one[:10])
        self.assertEqual(code, 0, said)
        self.assertTrue(out.startswith(f"{one} (shop/score 1.0."), out)
        code, out, said = kill(pushed[:10])
        self.assertEqual(code, 0, said)
        self.assertTrue(out.startswith(f"{pushed} (shop/never-released 1.0.0) is on the kill list"), out)

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
