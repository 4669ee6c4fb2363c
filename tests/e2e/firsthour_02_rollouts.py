#!/usr/bin/env python3
"""Rollouts as somebody finds them who comes in the morning: the newest first, by state, task and the beginning of an id, page by page, on the
command line and in the console."""
import json
import re
import subprocess
import unittest

from walle_stack import Stack

FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 5, "min_dwell_s": 0, "max_failure": 0.5}]
SCRIPT = "import walle\nwalle.result(1)\n"


class Rollouts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.addClassCleanup(cls.stack.__exit__)
        cls.stack.start_gateway()
        cls.ids = [cls.stack.release(task, number, SCRIPT, FULL) for number, task in
                   enumerate(("shop/a", "shop/b", "shop/a", "shop/b", "shop/a"), 1)]
        cls.stack.walle("rollout", "pause", cls.ids[2])

    def listed(self, *words):
        return self.stack.walle("rollout", "list", *words).stdout.splitlines()

    def test_the_newest_first_with_dates_and_names(self):
        lines = self.listed()
        self.assertEqual([re.search(r"[0-9a-f]{16}", line).group(0) for line in lines], self.ids[::-1])
        self.assertRegex(lines[0], rf"^20\d\d-\d\d-\d\dT\d\d:\d\dZ shop/a +1\.0\.5 +{self.ids[4]} running")

    def test_the_newest_alone(self):
        self.assertEqual(len(self.listed("--newest")), 1)
        self.assertIn(self.ids[4], self.listed("--newest")[0])
        self.assertIn(self.ids[3], self.listed("--newest", "--task", "shop/b")[0])
        self.assertIn(self.ids[2], self.listed("--newest", "--state", "paused")[0])
        items = json.loads(self.stack.walle("rollout", "list", "--newest", "-o", "json").stdout)["items"]
        self.assertEqual([item["id"] for item in items], self.ids[4:])
        run = self.stack.walle("rollout", "list", "--newest", "--limit", "3", check=False)
        self.assertEqual((run.returncode, "--newest is one" in run.stderr), (2, True), run.stderr)

    def test_right_after_a_start_it_waits(self):
        for command in (("rollout", "status", self.ids[4]), ("rollout", "list", "--newest"), ("rollout", "explain", self.ids[4])):
            said = self.stack.walle(*command).stdout
            self.assertIn("waiting: ", said)
            self.assertNotIn("no_data", said)

    def test_ids_by_their_beginning(self):
        size = next(size for size in range(1, 17) if len({id_[:size] for id_ in self.ids}) == len(self.ids))
        self.assertIn(self.ids[0], self.stack.walle("rollout", "status", self.ids[0][:size]).stdout)

    def test_the_console_asks_for_what_the_gateway_has(self):
        page = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", self.stack.gateway.url + "/"], capture_output=True, text=True,
                              timeout=60, check=True).stdout
        for name in ("state", "task", "prefix", "newest", "older"):
            self.assertIn(f'id="{name}"', page)
        names = re.findall(r'\["(state|task|id|after)", ', page)
        self.assertEqual(sorted(set(names)), ["after", "id", "state", "task"], "what a page of rollouts is asked for with")
        states = json.loads(re.search(r"const STATES = (\[.*?\]);", page).group(1))
        for state in states:
            self.assertEqual(self.stack.api(f"/api/v1/rollouts?limit=50&state={state}")[0], 200, state)
        first = self.stack.api("/api/v1/rollouts?limit=2&task=shop%2Fa")[1]
        second = self.stack.api(f"/api/v1/rollouts?limit=2&task=shop%2Fa&after={first['next']}")[1]
        self.assertEqual([item["id"] for item in first["items"] + second["items"]], [self.ids[4], self.ids[2], self.ids[0]])
        self.assertIsNone(second["next"])


if __name__ == "__main__":
    unittest.main()
