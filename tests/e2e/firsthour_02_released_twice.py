#!/usr/bin/env python3
"""A version that devices have already is released once more: whoever plans, drafts, submits or starts that is told who has it and which rollout
brings it; and the first rollout's way back does not wait for whom the second keeps on the version."""
import json
import os
import re
import subprocess
import unittest

from walle_stack import Stack, program, wait_until

OPEN = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1000, "min_dwell_s": 0, "max_failure": 0.5}]
SCRIPT = "import walle\nwalle.result({})\n"
TASK = "shop/score"


class SameVersion(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway("--set", "rollout.tick_ms=50")  # who checks in each second is silent soon, and not waited for then
        self.first = self.stack.release(TASK, 1, SCRIPT.format(1), OPEN)
        self.more = ("--key", self.stack.path("release.key"), "--stages", self.stack.path("stages.json"))

    def come(self):
        subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path("device"), "--id", "00000000000000d1",
                        "--trust", self.stack.path("release.key.pub"), "--enroll-token", self.stack.enroll_token, "--once"],
                       capture_output=True, timeout=120, stdin=subprocess.DEVNULL, check=True)

    def view(self, rollout):
        return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]

    def start(self, *words):
        run = self.stack.walle("rollout", "start", TASK, "--version", "1.0.1", *self.more, *words)
        return run, re.match(r"[0-9a-f]{16}|$", run.stdout).group(0)

    def test_who_has_it_is_said(self):
        url = self.stack.gateway.url
        plan = ("rollout", "plan", TASK, "--version", "1.0.1", "--gateway", url)
        brings = f"warning: rollout {self.first} (running) brings this version already"
        self.assertIn(brings, self.stack.walle(*plan).stderr)
        self.come()
        wait_until(lambda: self.view(self.first)["counts"]["on_version"] == 1, what="the device has it")
        has = f"warning: 1 device has this version already, by rollout {self.first} (running): "
        self.assertIn(has, self.stack.walle(*plan).stderr)
        draft = self.stack.path("draft.json")
        run, _ = self.start("--draft", draft)
        self.assertEqual(run.stderr.count(has), 1, run.stderr)
        run = self.stack.walle("rollout", "start", TASK, "--version", "1.0.1", *self.more, "--dry-run")
        self.assertEqual(run.stderr.count(has), 1, run.stderr)
        run = self.stack.walle("rollout", "submit", draft, "--no-start")
        self.assertEqual(run.stderr.count(has), 1, run.stderr)
        second = re.match(r"[0-9a-f]{16}", run.stdout).group(0)
        for more in (("--dry-run",), ()):
            run = subprocess.run([program("walle"), "rollout", "start", second, "--gateway", url, *more], capture_output=True, text=True, timeout=120,
                                 stdin=subprocess.DEVNULL, check=True)
            self.assertEqual(run.stderr.count(has), 1, run.stderr)
        run, _ = self.start()
        self.assertIn("warning: 1 device has this version already, by rollouts ", run.stderr)
        self.assertIn(self.first, run.stderr)
        self.assertIn(second, run.stderr)
        # Of another version there is nothing to say.
        run = self.stack.walle("rollout", "plan", TASK, "--manifest", self.other(), "--gateway", url)
        self.assertNotIn("this version", run.stderr)

    def test_two_contents_of_one_number(self):
        """Who forgot to raise the version number is told at the push, and --version does not guess which one is meant."""
        source, again = self.stack.path("source1"), self.stack.path("again")
        with open(os.path.join(source, "task.py"), "a", encoding="ascii") as file:
            file.write("walle.log(1)\n")
        self.stack.walle("task", "build", source, "--out", again)
        with open(os.path.join(again, "build.json"), encoding="utf-8") as file:
            manifest = json.load(file)["manifest"]
        for _ in range(2):  # each time
            run = self.stack.walle("task", "push", again)
            self.assertIn(f"warning: {TASK} has 2 versions 1.0.1 now, with other content each: this one is --manifest {manifest[:12]}, --version", run.stderr)
        for command in (("plan",), ("start", *self.more)):
            run = self.stack.walle("rollout", command[0], TASK, "--version", "1.0.1", *command[1:], "--gateway", self.stack.gateway.url, check=False)
            self.assertEqual(run.returncode, 2, run.stdout)
            self.assertIn(f"task {TASK} has 2 versions 1.0.1, with other content each: --manifest names one of ", run.stderr)
            for known in (manifest, self.view(self.first)["manifest"]):
                self.assertIn(known, run.stderr)
        self.stack.walle("rollout", "plan", TASK, "--manifest", manifest[:12], "--gateway", self.stack.gateway.url)
        self.assertNotIn("versions", self.stack.walle("task", "push", again, "--dry-run").stderr)

    def test_what_waits_for_nothing_says_why(self):
        """A rollout of what devices run already says that they do, by which other one, and what can be done: they keep it when this one is ended."""
        self.come()
        wait_until(lambda: self.view(self.first)["counts"]["on_version"] == 1, what="the device has it")
        run, second = self.start()
        self.assertIn("what is to change needs a version of its own (walle task push)", run.stderr)
        self.come()
        says = rf"1 device runs this version already, by rollout {self.first} \(running\): they are offered nothing, so they answer nothing here\n"
        told = self.stack.walle("rollout", "explain", second).stdout
        self.assertRegex(told, r"(?m)^Missing: 1000 more devices .*\n" + says + rf"Where nobody else .*walle rollout abort {second} --reason TEXT\nWhat is to change")
        self.assertRegex(self.stack.walle("rollout", "status", second).stdout, "(?m)^  " + says)
        for command in ("explain", "status"):
            self.assertNotIn("already", self.stack.walle("rollout", command, self.first).stdout)
        self.stack.walle("rollout", "abort", second, "--reason", "as it said")
        self.come()
        self.assertEqual(self.view(self.first)["counts"]["on_version"], 1)

    def other(self):
        rollout = self.stack.release(TASK, 2, SCRIPT.format(2), OPEN, more=("--no-start",))
        return self.view(rollout)["manifest"]

    def test_an_abort_does_not_wait_for_whom_the_second_keeps(self):
        self.come()
        wait_until(lambda: self.view(self.first)["counts"]["on_version"] == 1, what="the device has it")
        _, second = self.start()
        self.come()
        self.stack.walle("rollout", "abort", self.first, "--reason", "drawn up twice")
        wait_until(lambda: self.view(self.first)["state"] == "rolled_back", what="the first is back")
        self.come()
        self.assertEqual(self.view(second)["counts"]["offered"], 0, "who has it is offered nothing")
        why = self.stack.api(f"/api/v1/devices/00000000000000d1/why?task={self.stack.quoted(TASK)}")[1]
        self.assertEqual(why["should_rollout"], second)


if __name__ == "__main__":
    unittest.main()
