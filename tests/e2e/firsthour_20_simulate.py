#!/usr/bin/env python3
"""What a simulation says is what it did: passed only where the version ran, a rule that meets somebody, evidence that a gateway would take,
and no option that is not looked at."""
import json
import os
import re
import subprocess
import unittest

from walle_stack import Stack, program

TASK = "shop.build"
DEVICES = 300


class Simulate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.addClassCleanup(cls.stack.__exit__)
        cls.stack.start_rooted_gateway()
        cls.path = staticmethod(cls.stack.path)
        os.mkdir(cls.path("source"))
        cls.stack.secret("source/task.py", "import walle\nwalle.result(1)\n")
        cls.stack.secret("source/task.json", json.dumps({"name": TASK, "version": "1.0.0", "entry": "task", "files": ["task.py"]}))
        cls.stack.walle("task", "build", cls.path("source"), "--out", cls.path("build"))
        cls.stack.walle("task", "push", cls.path("build"))

    def simulate(self, *arguments, code=0):
        """What was said, its last line, run.json, report.html; the latter two are None where the run was refused."""
        out = self.path("fleet" + self.id().rsplit(".", 1)[1])
        run = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", self.path("build"), "--devices", str(DEVICES), "--no-live", "--out",
                              out, *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        said = run.stdout + run.stderr
        self.assertEqual(run.returncode, code, said)
        if code > 1:
            return said, said.strip().splitlines()[-1], None, None
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        with open(os.path.join(out, "report.html"), encoding="utf-8") as file:
            return said, said.strip().splitlines()[-1], result, file.read()

    def rooted(self):
        return "--root", self.path("root.1")

    # ---- Devices that refuse the offer

    def assert_refused(self, said, last, result, page):
        ran = result["completed"]
        missing = DEVICES - ran
        self.assertGreater(missing, DEVICES // 20)
        self.assertEqual((result["outcome"], result["passed"], result["failed"]), ("failed", False, 0))
        cause = (rf"{missing} of {DEVICES} devices did not run the version, {100 * missing / DEVICES:.2f} %: at most 1\.00 % may "
                 rf"\(--max-failure\); most often, on \d+, they refused the offer: fail_clock: .+")
        self.assertRegex(last, rf"^FAILED: {cause} \(exit status 1\)$")
        self.assertRegex(result["failed_because"], rf"^{cause}$")
        self.assertIn(f"{missing} of {DEVICES} devices did not run the version", page)
        ended = f"{ran} of {DEVICES} devices went through the version"
        self.assertIn(f": {ended}\n", said)
        self.assertEqual(result["ended"], ended)
        for text in (said, page):
            self.assertNotIn("every device went", text)

    def test_devices_whose_clock_is_wrong_refuse(self):
        self.assert_refused(*self.simulate(*self.rooted(), "--wrong-clocks", "1", code=1))

    def test_refusals_of_devices_that_are_killed(self):
        self.assert_refused(*self.simulate(*self.rooted(), "--kills", "0.3", "--wrong-clocks", "0.2", code=1))

    def test_a_few_refusals_pass_and_are_told(self):
        said, _, result, page = self.simulate(*self.rooted(), "--wrong-clocks", "1", "--max-failure", "60%")
        missing = DEVICES - result["completed"]
        told = rf"{DEVICES - missing} of {DEVICES} devices went through the version; most often, on \d+, the others refused the offer: fail_clock"
        self.assertRegex(said, rf"(?m)^passed after .* s: {told}")
        self.assertRegex(result["ended"], told)
        self.assertRegex(page, told)
        said, _, result, _ = self.simulate(*self.rooted())
        self.assertRegex(said, r"(?m)^passed after .* s: every device went through the version$")
        self.assertEqual((result["completed"], result["outcome"]), (DEVICES, "passed"))

    def test_refusals_in_the_evidence(self):
        """Who matched and did not complete: the gateway counts them as failed, and its stage goes by that."""
        file = self.path("refused.json")
        _, _, result, _ = self.simulate(*self.rooted(), "--wrong-clocks", "1", "--evidence", file, "--evidence-key", self.path("release.key"), code=1)
        with open(file, encoding="utf-8") as opened:
            says = json.load(opened)["says"]
        self.assertEqual((says["matched"], says["completed"], says["failed"]), (DEVICES, result["completed"], 0))
        self.stack.secret("stages.json", json.dumps([
            {"name": "virtual", "kind": "simulate", "min_sample": 50, "max_failure": 0.01},
            {"name": "full", "kind": "full", "percent": 100, "min_sample": 5, "min_dwell_s": 0, "max_failure": 0.1}]))
        run = self.stack.walle("rollout", "start", TASK, "--build", self.path("build"), "--key", self.path("release.key"), "--stages",
                               self.path("stages.json"), "--evidence", file, "-o", "json", check=False)
        rollout = re.search(r"[0-9a-f]{16}", run.stdout + run.stderr).group(0)
        shown = self.stack.walle("rollout", "status", rollout, check=False).stdout
        self.assertIn(f"{DEVICES - result['completed']} did not come to run it, and count as failed", shown)
        self.assertIn("failures_over_limit", self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["cause"]["reason"])

    # ---- Rules that meet nobody

    def test_more_users_than_places(self):
        # With the defaults: 1,000 devices with 10 sessions each, 64 of them at once. Who waits for a place asks nobody meanwhile.
        os.mkdir(self.path("clicked"))
        self.stack.secret("clicked/task.py", "import walle\nwalle.result(1)\n")
        self.stack.secret("clicked/task.json", json.dumps({"name": "clicked", "version": "1.0.0", "entry": "task", "files": ["task.py"],
                                                           "triggers": ["click(item)"]}))
        self.stack.walle("task", "build", self.path("clicked"), "--out", self.path("clicked.build"))
        _, last, result, _ = self.simulate("--task", self.path("clicked.build"), "--devices", "1000", *self.rooted())
        self.assertTrue(result["passed"], last)
        self.assertEqual(result["behaviour"]["totals"]["sessions"], 10000)
        self.assertGreater(result["behaviour"]["totals"]["sessions_put_off"], 0)

    def test_a_rule_that_meets_no_device(self):
        rule = 'os == "iOS" => crash @ 1'
        said, _, _, _ = self.simulate("--bad", rule, code=6)
        self.assertIn(f"--bad: none of the {DEVICES} virtual devices is like this: {rule}", said)
        said, _, _, _ = self.simulate("--bad", 'os == "ios" => crash @ 1', "--bad", rule, code=6)
        self.assertIn(rule, said)
        self.simulate("--where", "os == ios", "--bad", 'os == "android" => crash @ 1', code=6)
        _, last, _, _ = self.simulate("--bad", 'os == "ios" => crash @ 1', code=1)
        self.assertRegex(last, rf"^FAILED: \d+ of {DEVICES} devices failed")

    def test_a_rule_that_meets_no_device_of_a_run(self):
        """It is a warning at the end there."""
        run = subprocess.run([program("walle-fleet-sim"), "run", "--devices", "5", "--gateway", self.stack.gateway.url, *self.rooted(),
                              "--enroll-token", self.stack.enroll_token, "--task", TASK, "--duration", "2", "--no-live", "--out", self.path("run"),
                              "--bad-version", "1.0.0", "--bad", "all => crash", "--bad", "os == iOS => crash"], capture_output=True, text=True,
                             timeout=120, stdin=subprocess.DEVNULL)
        warnings = [line for line in run.stdout.splitlines() if "--bad, rule" in line]
        self.assertEqual(len(warnings), 1, run.stdout + run.stderr)
        self.assertIn("WARNING     --bad, rule 2 of 2: no device of this run is like its predicate", warnings[0])

    # ---- Evidence that no gateway takes

    def test_a_key_that_is_no_release_key(self):
        for name in ("stranger.key", "root.key"):
            if not os.path.exists(self.path(name)):
                self.stack.walle("key", "new", "--out", self.path(name))
            file = self.path("never.json")
            said, _, _, _ = self.simulate(*self.rooted(), "--evidence", file, "--evidence-key", self.path(name), code=2)
            self.assertIn(f"--evidence-key {self.path(name)}: no release key of {TASK} in --root {self.path('root.1')}", said)
            self.assertNotIn("passed", said)
            self.assertFalse(os.path.exists(file))
        said, _, _, _ = self.simulate("--evidence", file, "--evidence-key", self.path("nowhere.key"), code=2)
        self.assertRegex(said, r"--evidence-key: .*nowhere\.key: No such file")
        self.assertNotIn("passed", said)
        self.simulate("--evidence", file, "--evidence-key", self.path("stranger.key"))  # without a root, a gateway's settings decide

    # ---- Options of the other command

    def test_options_of_run_alone(self):
        for option, *value in (("--duration", "3"), ("--until-coverage", "50%"), ("--gateway", "http://127.0.0.1:1"), ("--trust", "00" * 32),
                               ("--until-stopped",), ("--hints",), ("--dedicated", "1"), ("--tasks", "2"), ("--checkin-interval", "1"),
                               ("--bad-version", "1.0.0"), ("--business", "1"), ("--credentials", "c"), ("--session-every", "5")):
            said, _, _, _ = self.simulate(option, *value, code=2)
            self.assertIn(f"{option} is for run: simulate has no gateway", said)

    def test_options_of_simulate_alone(self):
        for option, value in (("--max-failure", "5%"), ("--manifest", "m"), ("--blobs", "b"), ("--exclusive", "50%"), ("--target", 'os == "ios"'),
                              ("--evidence", "e"), ("--evidence-key", "k")):
            run = subprocess.run([program("walle-fleet-sim"), "run", "--gateway", "http://127.0.0.1:1", "--trust", "00" * 32, option, value],
                                 capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
            self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
            self.assertIn(f"{option} is for simulate", run.stderr)


if __name__ == "__main__":
    unittest.main()
