#!/usr/bin/env python3
"""A copy of a gateway's folder, made as docs/OPERATIONS.md says, and a gateway that starts on it after more was released: the next release takes a
counter that devices have not seen when it is named, and is refused by them without."""
import json
import shutil
import subprocess
import unittest

from walle_stack import Stack, program, wait_until

TASK = "shop/score"
SCRIPT = "import walle\nwalle.result({})\n"
FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "max_failure": 0}]
DEVICE = "00000000000000d1"


class OlderCopy(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_hasty_gateway()

    def come(self):
        subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path("device"), "--id", DEVICE,
                        "--trust", self.stack.path("release.key.pub"), "--enroll-token", self.stack.enroll_token, "--once"],
                       capture_output=True, timeout=120, stdin=subprocess.DEVNULL, check=True)

    def view(self, rollout):
        return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]

    def released(self, number, *more):
        rollout = self.stack.release(TASK, number, SCRIPT, FULL, more=more)
        self.come()
        self.come()
        wait_until(lambda: self.view(rollout)["state"] in ("completed", "rolled_back"), what=f"version {number} is decided")
        return self.view(rollout)

    def test_the_next_release_on_an_older_copy(self):
        self.assertEqual(self.released(1)["state"], "completed")
        self.assertEqual(self.stack.gateway.stop(), 0)
        shutil.copytree(self.stack.path("gateway"), self.stack.path("copy"))
        self.stack.start_hasty_gateway(again=True)
        for number in (2, 3):
            self.assertEqual(self.released(number)["state"], "completed")
        self.stack.gateway.stop()
        shutil.rmtree(self.stack.path("gateway"))
        shutil.move(self.stack.path("copy"), self.stack.path("gateway"))
        self.stack.start_hasty_gateway(again=True)
        self.assertEqual(self.stack.api(f"/api/v1/tasks/{self.stack.quoted(TASK)}")[1]["release_counter"], 1)
        refused = self.released(4)
        self.assertEqual((refused["state"], refused["fingerprints"][0]["detail"]), ("rolled_back", "release counter goes backwards"))
        run = self.stack.walle("rollout", "start", TASK, "--version", "1.0.4", "--key", self.stack.path("release.key"), "--stages",
                               self.stack.path("stages.json"), "--release-counter", "2", check=False)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("--release-counter 2: the task's newest release has 2 here, and the next one needs a higher one", run.stderr)
        taken = self.released(5, "--release-counter", "1000")
        self.assertEqual((taken["state"], taken["release_counter"]), ("completed", 1000))
        self.assertEqual(self.released(6)["release_counter"], 1001)
        why = self.stack.api(f"/api/v1/devices/{DEVICE}/why?task={self.stack.quoted(TASK)}")[1]
        self.assertEqual(why["has_release_counter"], 1001, json.dumps(why))


if __name__ == "__main__":
    unittest.main()
