#!/usr/bin/env python3
"""What nobody meant is said before it is done: a target that fits nobody, an attribute no device has, a rule nobody chose, a task nobody has."""
import json
import unittest

from walle_stack import Stack

GRAY = [{"name": "gray", "kind": "gray", "percent": 50, "min_sample": 5}, {"name": "full", "kind": "full", "min_sample": 5}]
SCRIPT = "import walle\nwalle.result(1)\n"


class Targets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.addClassCleanup(cls.stack.__exit__)
        cls.stack.start_gateway()
        cls.rollout = cls.stack.release("shop/score", 1, SCRIPT, [{"name": "full", "kind": "full", "min_sample": 5}])
        device = cls.stack.spawn("walle-device", "--gateway", cls.stack.gateway.url, "--dir", cls.stack.path("device"), "--enroll-token",
                                 cls.stack.enroll_token, "--trust", cls.stack.path("release.key.pub"), "--attr", "region=eu", "--once")
        assert device.wait(120) == 0

    def start(self, *words):
        return self.stack.walle("rollout", "start", "shop/score", "--build", self.stack.path("build1"), "--key", self.stack.path("release.key"),
                                "--stages", self.stack.path("stages.json"), *words, check=False, reaching=True)

    def plan(self, *words):
        return self.stack.walle("rollout", "plan", "--gateway", self.stack.gateway.url, *words, check=False)

    def test_nobody_is_meant(self):
        run = self.start("--target", 'region == "us"', "--dry-run")
        self.assertEqual((run.returncode, "none of 1 known devices matches it" in run.stderr), (4, True), run.stderr)
        run = self.plan("--target", 'region == "us"')
        self.assertIn("0 of 1", run.stdout + run.stderr)

    def test_an_attribute_that_is_nearly_one(self):
        run = self.start("--target", 'regio == "eu"', "--dry-run")
        self.assertEqual((run.returncode, "did you mean region?" in run.stderr), (4, True), run.stderr)
        run = self.plan("--target", 'regio == "eu"')
        self.assertIn("did you mean region?", run.stdout + run.stderr)

    def test_the_rule_is_chosen_and_said(self):
        stages = self.stack.secret("gray.json", json.dumps(GRAY))

        def rules(*words):
            run = self.stack.walle("rollout", "plan", "--stages", stages, *words, "-o", "json")
            return [stage.get("rule", "threshold") for stage in json.loads(run.stdout)["stages"]], run.stderr
        self.assertEqual(rules(), (["threshold"] * 2, ""))
        found, said = rules("--max-rise", "0.01")
        self.assertEqual(found, ["sequential"] * 2)
        self.assertIn("judged by 'sequential'", said)
        self.assertEqual(rules("--max-rise", "0.01", "--rule", "logrank"), (["logrank"] * 2, ""))
        self.assertEqual(rules("--max-rise", "0.01", "--rule", "sequential"), (["sequential"] * 2, ""))
        self.assertEqual(rules("--rule", "logrank")[0], ["logrank"] * 2)
        for words, said in ((("--rule", "logrnk"), "--rule: threshold, sequential or logrank"),
                            (("--rule", "threshold", "--max-rise", "0.01"), "--rule threshold compares nobody")):
            run = self.stack.walle("rollout", "plan", "--stages", stages, *words, check=False)
            self.assertEqual((run.returncode, said in run.stderr), (2, True), run.stderr)

    def test_a_field_that_nobody_knows(self):
        for stage, said in (({"min_smaple": 3}, "stages[1].min_smaple: unknown field, did you mean min_sample?"),
                            ({"zzzzzzzzzz": 1}, "stages[1].zzzzzzzzzz: unknown field\n"), ({"a\x1b[2J": 1}, "stages[1].a")):
            stages = self.stack.secret("typo.json", json.dumps([GRAY[0], {**GRAY[1], **stage}]))
            for command in (("plan",), ("start", "shop/score", "--build", self.stack.path("build1"), "--key", self.stack.path("release.key"))):
                run = self.stack.walle("rollout", *command, "--stages", stages, check=False)
                self.assertEqual((run.returncode, said in run.stderr), (2, True), run.stderr)
                self.assertNotIn("\x1b", run.stderr)

    def test_a_stage_that_shrinks(self):
        for last, name in (({"name": "less", "kind": "gray", "percent": 1}, "less"), ({"name": "all", "kind": "full", "percent": 50}, "all")):
            stages = self.stack.secret("shrinks.json", json.dumps([{"name": "wide", "kind": "gray", "percent": 50}, last]))
            for command in (("plan",), ("start", "shop/score", "--build", self.stack.path("build1"), "--key", self.stack.path("release.key"))):
                run = self.stack.walle("rollout", *command, "--stages", stages, check=False)
                self.assertEqual((run.returncode, f"stages[1] ({name}): a full stage has 100 percent, and a gray one no fewer" in run.stderr),
                                 (2, True), run.stderr)

    def test_an_export_of_a_task_that_nobody_has(self):
        for command in (("export", "--out", self.stack.path("records.jsonl")), ("export",), ("tail",)):
            run = self.stack.walle("tunnel", *command, "--task", "shop/scoer", check=False)
            self.assertEqual((run.returncode, run.stdout), (4, ""), run.stderr)
            self.assertIn("did you mean shop/score?", run.stderr)
        self.assertEqual(self.stack.walle("tunnel", "export", "--task", "shop/score").stdout, "")


if __name__ == "__main__":
    unittest.main()
