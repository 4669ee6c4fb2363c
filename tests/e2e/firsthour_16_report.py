#!/usr/bin/env python3
"""The report of a run says of what it is: date, task, manifest, gateway, machine, product. "Passed" is the release's outcome and the invariants'.
What did not happen is not told."""
import datetime
import json
import os
import platform
import re
import subprocess
import unittest

from walle_stack import SOURCE, Stack, program, wait_until

FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 5, "min_dwell_s": 0, "max_failure": 0.1}]
GOOD = "import walle\nwalle.result(1)\n"
BAD = "import walle\nwalle.result(walle.device['nothing'])\n"


class Report(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_rooted_gateway()

    def fleet(self, *arguments):
        """(exit status, what was said, run.json, report.html)"""
        said = subprocess.run([program("walle-fleet-sim"), *arguments, "--no-live", "--out", self.stack.path("fleet")], capture_output=True,
                              text=True, timeout=300, stdin=subprocess.DEVNULL)
        with open(self.stack.path("fleet", "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        with open(self.stack.path("fleet", "report.html"), encoding="utf-8") as file:
            return said.returncode, said.stdout, result, file.read()

    def run_fleet(self, rollout):
        return self.fleet("run", "--devices", "30", "--gateway", self.stack.gateway.url, "--root", self.stack.path("root.1"), "--enroll-token",
                          self.stack.enroll_token, "--task", "shop/score", "--checkin-interval", "1", "--until-rollout", rollout)

    def assert_about(self, said, result, page, gateway, version, manifest):
        with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as file:
            product = "walle-fleet-sim " + re.search(r"project\(walle VERSION (\S+)", file.read()).group(1)
        about = result["about"]
        self.assertEqual((about["task"], about["version"], about["manifest"], about["gateway"], about["product"]),
                         ("shop/score", version, manifest, gateway, product))
        began, ended = (datetime.datetime.fromisoformat(about[name].replace("Z", "+00:00")) for name in ("began", "ended"))
        self.assertLessEqual(began, ended)
        self.assertLess(abs((datetime.datetime.now(datetime.timezone.utc) - ended).total_seconds()), 600)
        self.assertIn(platform.node(), about["machine"])
        for text in (about["began"], about["task"], manifest, product, platform.node(), gateway.split("//")[1] if gateway else "no gateway"):
            self.assertIn(text, said)
            self.assertIn(text, page)

    def test_a_release_that_went_well_and_one_that_did_not(self):
        rollout = self.stack.release("shop/score", 1, GOOD, FULL)
        manifest = self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["manifest"]
        status, said, result, page = self.run_fleet(rollout)
        self.assertEqual((status, result["outcome"]), (0, "passed"), said)
        self.assert_about(said, result, page, self.stack.gateway.url, "1.0.1", manifest)
        self.assertRegex(said, r"(?m)^  shop/score 1\.0\.1: 30 offered, 30 activated, 30 ran, 0 failed")
        self.assertIn("Coverage of shop/score 1.0.1", page)
        self.assertRegex(said, r"a release of shop/score 1 of 1")
        self.assertNotRegex(said + page, r"\b0 (stopped|leases|offers|metadata|roots)|kill list")
        rollout = self.stack.release("shop/score", 2, BAD, FULL)
        wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout}")[0] == 200, what="the rollout")
        status, said, result, page = self.run_fleet(rollout)
        self.assertEqual((status, result["outcome"], result["passed"]), (1, "failed", False), said)
        self.assertRegex(said.strip().splitlines()[-1], r"^FAILED: the release of shop/score 1\.0\.2 was rolled back: .* \(exit status 1\)$")
        self.assertIn("the release of shop/score 1.0.2 was rolled back", page)

    def test_a_report_goes_into_a_folder(self):
        """What is none is refused before a device is up, not when the report is to be written."""
        self.stack.release("shop/score", 1, GOOD, FULL)
        self.stack.secret("file", "mine")
        os.mkfifo(self.stack.path("pipe"))
        for name in ("file", "pipe"):
            run = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", self.stack.path("build1"), "--devices", "50", "--no-live", "--out",
                                  self.stack.path(name)], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
            self.assertEqual(run.returncode, 4, run.stdout)
            self.assertIn(f"--out {self.stack.path(name)}: Not a directory (a folder for the reports)", run.stdout + run.stderr)
            self.assertNotIn("passed", run.stdout)

    def test_firsthour_a_folder_that_is_no_build(self):
        """A task's source in place of its build: what it is, and the command that makes one, as walle task push says it."""
        source = self.stack.path("source")
        os.mkdir(source)
        for file, words in ((None, f"{source} is no build, it has no manifest: walle task build FOLDER --out {source} makes one"),
                            ("task.json", f"{source} is a task's source, no build: walle task build {source} --out BUILD makes one of it")):
            if file:
                self.stack.secret(os.path.join("source", file), "{}")
            run = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", source, "--devices", "5", "--no-live", "--out",
                                  self.stack.path("fleet")], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
            self.assertEqual(run.returncode, 4, run.stdout + run.stderr)
            self.assertIn(words, run.stdout + run.stderr)
        run = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", self.stack.path("nowhere"), "--devices", "5", "--no-live", "--out",
                              self.stack.path("fleet")], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertIn(f"{self.stack.path('nowhere')}/manifest: No such file", run.stdout + run.stderr)

    def test_a_simulation(self):
        self.stack.release("shop/score", 1, GOOD, FULL)
        with open(self.stack.path("build1", "build.json"), encoding="utf-8") as file:
            manifest = json.load(file)["manifest"]
        status, said, result, page = self.fleet("simulate", "--task", self.stack.path("build1"), "--root", self.stack.path("root.1"), "--devices", "50")
        self.assertEqual((status, result["outcome"]), (0, "passed"), said)
        self.assert_about(said, result, page, None, "1.0.1", manifest)
        self.assertRegex(said, r"(?m)^  rate        [1-9]", "it may be over before the second look")
        self.assertGreater(result["rate"], 0)


if __name__ == "__main__":
    unittest.main()
