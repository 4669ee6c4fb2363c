#!/usr/bin/env python3
"""What a phone could hold of all releases together, with real programs: shown in the plan, refused at the start, accepted with a
reason that is kept; and a device that has to leave something out says so."""
import json
import os
import subprocess
import unittest

from walle_stack import Stack, program

DEVICE = "00000000000004d2"
FULL = [{"name": "full", "kind": "full", "min_sample": 1, "min_dwell_s": 0}]
REASON = "only testers hold all three"


class SetCost(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway("--workers", "1", "--set", "rollout.tick_ms=100")
        self.key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(FULL, file)

    def push(self, name):
        """A version whose schema is as large as that: three of them are more than a device's 8 KB."""
        folder, build = self.stack.path(f"source-{name}"), self.stack.path(f"build-{name}")
        os.mkdir(folder)
        task = {"name": f"shop/{name}", "version": "1.0.0", "entry": "t", "files": ["t.py"], "triggers": ["enter(item) * exit(item) page"],
                "uploads": [{"name": "u", "schema": {"fields": {f"field{i:02}" + "x" * 40: "integer" for i in range(56)}}}]}
        for path, text in (("task.json", json.dumps(task)), ("t.py", "import walle\n")):
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", folder, "--out", build)
        self.stack.walle("task", "push", build)

    def start(self, name, *arguments, check=True):
        return self.stack.walle("rollout", "start", f"shop/{name}", "--version", "1.0.0", "--key", self.stack.path("key"),
                                "--stages", self.stack.path("stages.json"), *arguments, check=check)

    def test_what_is_on_no_device_together_is_not_added_up(self):
        for name in ("first", "second", "third", "fourth"):
            self.push(name)
        self.start("first", "--target", 'os == "ios"')
        self.start("second", "--target", 'os == "android"')
        plan = json.loads(self.stack.walle("rollout", "plan", "shop/third", "--version", "1.0.0", "-o", "json").stdout)["cost"]
        self.assertTrue(plan["fits"], plan)
        self.assertEqual(len(plan["tasks"]), 2)  # a device has one of the others
        self.start("third")
        run = self.start("fourth", "--target", 'os == "ios"', check=False)
        self.assertEqual(run.returncode, 4)
        self.assertIn("shop/first", run.stderr)
        self.assertNotIn("shop/second", run.stderr)

    def test_the_set_is_certified(self):
        for name in ("first", "second", "third"):
            self.push(name)
        self.start("first")
        self.start("second")
        plan = json.loads(self.stack.walle("rollout", "plan", "shop/third", "--version", "1.0.0", "-o", "json").stdout)["cost"]
        self.assertFalse(plan["fits"])
        self.assertEqual(sorted(task["task"] for task in plan["tasks"]), ["shop/first", "shop/second", "shop/third"])
        self.assertGreater(plan["sum"]["declaration_bytes"], plan["budget"]["declaration_bytes"])
        for words in (("rollout", "plan", "shop/third", "--version", "1.0.0"),
                      ("rollout", "start", "shop/third", "--version", "1.0.0", "--key", self.stack.path("key"), "--dry-run")):
            run = self.stack.walle(*words, check=False)
            self.assertEqual(run.returncode, 4 if "--dry-run" in words else 0, run.stderr)
            self.assertIn("too much: ", run.stdout)
            self.assertIn("shop/second", run.stdout)
        run = self.start("third", check=False)
        self.assertEqual(run.returncode, 4)
        self.assertIn("a device has 8192", run.stderr)
        self.assertIn("shop/first", run.stderr)
        # Who does not ask first is refused by the gateway itself.
        draft = self.stack.path("draft.json")
        self.assertEqual(self.start("third", "--draft", draft, check=False).returncode, 4)
        self.start("third", "--draft", draft, "--accept-cost", "--reason", REASON)
        run = self.stack.walle("rollout", "submit", draft, check=False)
        self.assertEqual(run.returncode, 4)
        self.assertIn("cost: shop/third, shop/first, shop/second together: ", run.stderr)
        with open(draft, encoding="utf-8") as file:
            status, problem = self.stack.api("/api/v1/rollouts", "POST", {**json.load(file), "accept_cost": True, "accept_empty": True})
        self.assertEqual((status, "reason: accept_cost needs one" in json.dumps(problem)), (400, True))
        run = self.start("third", "--accept-cost", check=False)
        self.assertIn("--accept-cost needs --reason", run.stderr)
        # Devices that a target rules out do not count.
        self.start("third", "--target", 'os == "ios"', "--dry-run", check=False)
        rollout = self.start("third", "--accept-cost", "--reason", REASON).stdout[:16]
        log = self.stack.walle("rollout", "log", rollout).stdout
        self.assertIn("[accepts cost: shop/third, shop/first, shop/second together: ", log)
        self.assertIn(REASON, log)
        self.assertIn("[accepts cost: ", self.stack.walle("audit", "tail", "-o", "json").stdout)
        self.device_says_what_it_left_out()

    def test_targets_that_exclude_each_other(self):
        for name in ("first", "second", "third"):
            self.push(name)
        self.start("first", "--target", 'os == "ios"')
        self.start("second", "--target", 'os == "ios"')
        self.start("third", "--target", 'os == "android"')
        run = self.stack.walle("rollout", "plan", "shop/third", "--version", "1.0.0", "--target", 'os in ["tvos", "ios"]')
        self.assertIn("together, 3 tasks", run.stdout)

    def device_says_what_it_left_out(self):
        run = subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--dir", self.stack.path("device"), "--id", DEVICE,
                              "--trust", self.key, "--once"], capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("is left out: the declarations of all tasks are too large", run.stderr)
        outcomes = json.loads(self.stack.walle("device", "get", DEVICE, "-o", "json").stdout)["outcomes"]
        self.assertEqual(len(outcomes), 3)
        self.assertEqual(sum(outcome["last"] == "fail_load" or "failed" in outcome["states"] for outcome in outcomes), 1, outcomes)
        self.assertIn("left out on this device: the declarations of all tasks are too large",
                      self.stack.walle("device", "get", DEVICE).stdout)


if __name__ == "__main__":
    unittest.main()
