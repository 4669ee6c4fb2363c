#!/usr/bin/env python3
"""A second release of a task while an older one is open: devices follow the older one, and whoever plans, starts or looks at the second is told
which that is, how many devices follow it, and what to do. And an end of a rollout says which others bring its version still."""
import json
import re
import subprocess
import unittest

from walle_stack import Stack, program, wait_until

TASK = "shop/score"
SCRIPT = "import walle\nwalle.result({})\n"
DEVICES = [0xd1, 0xd2, 0xd3]
FULL = [{"name": "all", "kind": "full", "percent": 100, "min_sample": 1000, "max_failure": 0.5}]
BETA = [{"name": "beta", "kind": "beta", "min_sample": 1000}]


class Behind(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway("--set", "rollout.tick_ms=50")

    def come(self, device):
        return subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path(f"device{device}"), "--id",
                               f"{device:016x}", "--trust", self.stack.path("release.key.pub"), "--enroll-token", self.stack.enroll_token, "--once",
                               "--attr", "region=" + ("eu" if device % 2 else "us")],
                              capture_output=True, timeout=120, stdin=subprocess.DEVNULL, check=True)

    def view(self, rollout):
        return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]

    def first_is_open(self, stages=None, target=None):
        first = self.stack.release(TASK, 1, SCRIPT, stages or [{**FULL[0], "kind": "gray", "percent": 0.01, "name": "few"}, FULL[0]], target=target)
        for device in DEVICES:
            self.come(device)
        return first

    def start(self, number, *more, check=True, stages=None):
        path = self.stack.path("second.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(stages or FULL, file)
        return self.stack.walle("rollout", "start", TASK, "--version", f"1.0.{number}", "--key", self.stack.path("release.key"), "--stages", path, *more,
                                check=check, reaching=True)

    def second(self):
        """Version 1.0.2, registered and nothing more."""
        again = self.stack.release(TASK, 2, SCRIPT, FULL, more=("--no-start",))
        self.stack.walle("rollout", "abort", again, "--reason", "only its version is needed")

    def test_who_starts_the_second_is_told(self):
        first = self.first_is_open()
        self.second()
        says = (rf"walle: warning: 3 devices of the target follow rollout {first} of 1\.0\.1 \(running, stage few\) and are offered nothing of this one "
                rf"before that ends: walle rollout abort {first} --reason TEXT ends it, --priority 1 on this one has them follow this one first\n")
        plan = self.stack.walle("rollout", "plan", TASK, "--version", "1.0.2", "--gateway", self.stack.gateway.url)
        self.assertEqual(len(re.findall(says, plan.stderr)), 1, plan.stderr)
        for more in (("--dry-run",), ("--draft", self.stack.path("draft.json"))):
            run = self.start(2, *more)
            self.assertEqual(len(re.findall(says, run.stderr)), 1, (more, run.stderr))
        self.assertIn(f"the signed draft is in {self.stack.path('draft.json')}; others sign it with walle task sign ", run.stderr)
        run = self.stack.walle("rollout", "submit", self.stack.path("draft.json"), "--no-start")
        self.assertEqual(len(re.findall(says, run.stderr)), 1, run.stderr)
        made = run.stdout[:16]
        for more in (("--dry-run",), ()):
            run = subprocess.run([program("walle"), "rollout", "start", made, "--gateway", self.stack.gateway.url, *more], capture_output=True, text=True,
                                 timeout=120, stdin=subprocess.DEVNULL, check=True)
            self.assertEqual(len(re.findall(says, run.stderr)), 1, run.stderr)
        # Whom a priority puts first follows nobody else, and is told whom it goes before.
        goes = (rf"walle: warning: this one goes before rollout {first} of 1\.0\.1 \(running, stage few, priority 0\): 3 devices of both targets follow "
                r"this one, and are offered nothing of that one before this ends\n")
        run = self.start(2, "--dry-run", "--priority", "1")
        self.assertEqual((len(re.findall(goes, run.stderr)), len(re.findall(says, run.stderr))), (1, 0), run.stderr)
        self.assertRegex(self.start(2, "--dry-run", "--priority", "1", "--target", 'region == "us"').stderr, "1 device of both targets follows this one")
        self.assertNotIn("follow", self.start(2, "--dry-run", "--accept-empty", "--priority", "1", "--target", 'region == "none"').stderr)
        urgent = self.start(2, "--priority", "1")
        self.assertEqual(len(re.findall(goes, urgent.stderr)), 1, urgent.stderr)
        run = self.start(2, "--dry-run", "--priority", "1")
        self.assertIn(f"3 devices of the target follow rollout {urgent.stdout[:16]} of 1.0.2", run.stderr)

    def test_a_stage_that_too_few_devices_enter_is_said(self):
        """At a start with the stages and numbers, and by the stage that waits; promote is named."""
        self.stack.release(TASK, 1, SCRIPT, FULL, more=("--no-start",))
        for device in DEVICES:
            self.come(device)
        stages = [{**FULL[0], "name": "some", "kind": "gray", "percent": 99.99, "min_sample": 4}, {**FULL[0], "min_sample": 1}]
        says = (r"walle: warning: of the known devices fewer enter than their sample asks for in these stages: some \(3 of 4\), all \(0 of 1\); such a stage "
                r"waits for more devices or for walle rollout promote, unless --min-sample is smaller\n")
        # A worker tells of who came a moment later.
        draft = wait_until(lambda: (lambda run: run if "some (3 of 4)" in run.stderr else None)(self.start(1, "--no-start", stages=stages)),
                           what="all three to be known")
        run = subprocess.run([program("walle"), "rollout", "start", draft.stdout[:16], "--gateway", self.stack.gateway.url], capture_output=True, text=True,
                             timeout=120, stdin=subprocess.DEVNULL, check=True)
        for said in (draft, run):
            self.assertEqual(len(re.findall(says, said.stderr)), 1, said.stderr)
        self.come(DEVICES[0])
        told = wait_until(lambda: re.search(r"The stage is for 3 known devices, fewer than its sample of 4: .* promote;\n",
                                            self.stack.walle("rollout", "explain", draft.stdout[:16]).stdout), what="the walk over devices")
        self.assertTrue(told)
        stages[0]["min_sample"] = 3
        self.assertNotIn("some", self.start(1, "--no-start", stages=stages).stderr.split("stages:")[-1])

    def test_what_is_guarded_says_who_goes_before(self):
        """A rollout whose last stage is over goes on to name the open ones that devices follow before it, and an open one names those that wait for it."""
        first = self.first_is_open()
        self.second()
        urgent = self.start(2, "--priority", "1", "--guard", "3600").stdout[:16]
        waits = rf"  before rollout {first} of 1\.0\.1 \(running\): 3 devices of the target follow this one, and are offered nothing of that one before"
        for command in ("status", "explain"):
            self.assertRegex(self.stack.walle("rollout", command, urgent).stdout, waits)
            self.assertIn(f"behind rollout {urgent} of 1.0.2 (running): 3 devices", self.stack.walle("rollout", command, first).stdout)
        self.assertEqual(self.view(urgent)["before"], [{"rollout": first, "version": "1.0.1", "state": "running"}])
        self.come(DEVICES[0])
        wait_until(lambda: self.view(urgent)["counts"]["offered"] == 1, what="it is offered")
        self.stack.walle("rollout", "promote", urgent)
        wait_until(lambda: self.view(urgent)["state"] == "guarding", what="its last stage is over")
        self.assertEqual((self.view(urgent)["behind"], self.view(urgent)["before"]), ([{"rollout": first, "version": "1.0.1", "state": "running"}], []))
        says = rf"  behind rollout {first} of 1\.0\.1 \(running\): 3 devices of the target follow that one, and whom it lets in runs 1\.0\.1, not this version"
        for command in ("status", "explain"):
            self.assertRegex(self.stack.walle("rollout", command, urgent).stdout, says)
            self.assertNotRegex(self.stack.walle("rollout", command, first).stdout, "behind|before rollout")
        self.stack.walle("rollout", "abort", first, "--reason", "the other one is better")
        self.assertEqual(self.view(urgent)["behind"], [])

    def test_what_is_held_up_says_by_whom(self):
        first = self.first_is_open()
        self.second()
        second = self.start(2).stdout[:16]
        self.come(DEVICES[0])
        view = self.view(second)
        self.assertEqual(view["behind"], [{"rollout": first, "version": "1.0.1", "state": "running"}])
        self.assertEqual(self.view(first)["behind"], [])
        line = rf"behind rollout {first} of 1\.0\.1 \(running\): 3 devices of the target follow that one, and is|behind rollout {first} .*: 3 devices"
        for command in ("status", "explain"):
            said = self.stack.walle("rollout", command, second).stdout
            self.assertRegex(said, line)
            self.assertRegex(said, rf"waiting: rollout {first} of 1\.0\.1 \(running\) comes first, devices follow that one")
            self.assertNotIn("behind", self.stack.walle("rollout", command, first).stdout)
        self.assertRegex(self.stack.walle("rollout", "list").stdout, rf"{second}.* waiting: rollout {first} of 1\.0\.1 \(running\) comes first.*; 0 offered")
        why = self.stack.walle("device", "why", f"{DEVICES[0]:016x}", "--task", TASK).stdout
        self.assertIn(f"the rollout that it follows, {first} of 1.0.1, does not let it in yet", why)
        self.stack.walle("rollout", "pause", first)
        self.assertIn("(paused) comes first", self.stack.walle("rollout", "status", second).stdout)
        self.stack.walle("rollout", "abort", first, "--reason", "the second is better")
        self.assertEqual(self.view(second)["behind"], [])
        self.come(DEVICES[0])
        wait_until(lambda: self.view(second)["counts"]["offered"] == 1, what="it is offered now")
        self.assertNotIn("comes first", self.stack.walle("rollout", "status", second).stdout)

    def test_one_in_its_simulate_stage_is_followed_too(self):
        first = self.first_is_open([{"name": "virtual", "kind": "simulate", "min_sample": 1}, FULL[0]])
        self.second()
        run = self.start(2)
        self.assertIn(f"3 devices of the target follow rollout {first} of 1.0.1 (running, stage virtual)", run.stderr)
        self.assertEqual(self.view(run.stdout[:16])["behind"], [{"rollout": first, "version": "1.0.1", "state": "running"}])

    def test_one_that_waits_for_approval_is_followed_too(self):
        few = {**FULL[0], "kind": "gray", "percent": 0.01, "name": "few"}
        first = self.first_is_open([few, {**FULL[0], "approval": True}])
        self.second()
        self.stack.walle("rollout", "promote", first)
        self.assertEqual(self.view(first)["state"], "waiting_approval")
        run = self.start(2)
        self.assertIn(f"3 devices of the target follow rollout {first} of 1.0.1 (waiting_approval, stage", run.stderr)
        self.assertIn(f"rollout {first} of 1.0.1 (waiting_approval) comes first", self.stack.walle("rollout", "status", run.stdout[:16]).stdout)

    def test_others_are_not_named(self):
        """Neither a rollout for other devices, nor one of another arm."""
        first = self.first_is_open(FULL, target='region == "us"')
        self.second()
        run = self.start(2, "--target", 'region == "eu"')
        self.assertNotIn("follow", run.stderr)
        self.assertEqual(self.view(run.stdout[:16])["behind"], [])
        run = self.start(2)
        self.assertRegex(run.stderr, rf"1 device of the target follows rollout {first} of 1\.0\.1 \(running, stage all\) and is offered nothing")

    def test_a_beta_stage_for_everybody_is_said(self):
        self.stack.release(TASK, 1, SCRIPT, FULL)
        says = r"warning: stages\[0\]: the beta stage beta has no audience: it is for the whole target at once"
        for more in (("--dry-run",), ("--draft", self.stack.path("draft.json")), ()):
            run = self.start(1, "--accept-empty", *more, stages=BETA)
            self.assertEqual(len(re.findall(says, run.stderr)), 1, run.stderr)
        self.assertIn("Stage beta (beta, 100 % of the target) is open", self.stack.walle("rollout", "explain", run.stdout[:16]).stdout)
        for audience in ('channel == "beta"', [{"attr": "channel", "op": "==", "value": "beta"}]):
            run = self.start(1, "--accept-empty", stages=[{**BETA[0], "audience": audience}])
            self.assertNotIn("audience", run.stderr)
            self.assertIn("(beta, 100 % of its audience: channel == \"beta\") is open", self.stack.walle("rollout", "explain", run.stdout[:16]).stdout)

    def test_an_end_says_who_keeps_the_version(self):
        first = self.first_is_open(FULL)
        for device in DEVICES:
            self.come(device)
        wait_until(lambda: self.view(first)["counts"]["on_version"] == 3, what="all have it")
        second = self.start(1).stdout[:16]
        said = self.stack.walle("rollout", "abort", first, "--reason", "sales fell").stderr
        self.assertRegex(said, rf"warning: rollout {second} \(running\) brings this version, too: 0 devices came to it by that one, and whom it lets in keeps "
                               rf"it\n  walle release kill {self.view(first)['manifest']} --reason TEXT takes it from everybody\n")
        self.assertIn("nothing of the task runs on the 3 devices", said)
        self.assertIn("until the open rollout of the task lets them in, or something newer is released", said)
        wait_until(lambda: self.view(first)["state"] == "rolled_back", what="it waits for nobody who keeps it")
        self.assertIn("all that could be reached are off it, or kept by another rollout", self.stack.walle("rollout", "status", first, check=False).stdout)

    def test_what_was_taken_back_is_logged_as_no_pass(self):
        passes = {"name": "some", "kind": "gray", "percent": 100, "min_sample": 1, "max_failure": 0.5, "on_pass": "pause"}
        for number, end in ((1, ("rollout", "abort")), (2, ("release", "kill"))):
            rollout = self.stack.release(TASK, number, SCRIPT, [passes, FULL[0]])
            for device in DEVICES:
                self.come(device)
                self.come(device)
            wait_until(lambda: self.view(rollout)["passed"], what="its stage passed")
            self.stack.walle(*end, rollout if end[0] == "rollout" else self.view(rollout)["manifest"], "--reason", "sales fell")
            for device in DEVICES:
                self.come(device)
            wait_until(lambda: self.view(rollout)["state"] == "rolled_back", what="it is back")
            lines = [line for line in self.stack.gateway.log_text().splitlines() if f"rollout {rollout} is roll" in line]
            self.assertTrue(lines)
            self.assertEqual([line for line in lines if "verdict=pass" in line], [])


if __name__ == "__main__":
    unittest.main()
