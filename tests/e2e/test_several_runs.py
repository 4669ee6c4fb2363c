#!/usr/bin/env python3
"""Several runs at once with real programs: what task.json may say of them, and an agent that is killed with runs of three tasks
under way: each goes on where it was, no number is lost, and none is given twice beyond what a kill between a run and its record
may cause."""
import collections
import json
import os
import signal
import subprocess
import time
import unittest

from hardening_04_wall_agent import children_of, state_of
from walle_stack import Stack, program, wait_until

DEVICE = "00000000000004d3"
FULL = [{"name": "full", "kind": "full", "min_sample": 1, "min_dwell_s": 0}]
TASKS = ("a", "b", "c")
RUNS = 3  # of each task behind the last kill
KILLS = 4
# A run takes about as long as the time between two of its task, so runs of the three overlap on an idle machine, too. Its number
# is kept and sent.
COUNT = """import walle
from walle import store
seen = store.get("seen", 0) + 1
store.put("seen", seen)
for i in range(60000000):
    pass
walle.result({"task": walle.config["task"], "seen": seen})
"""
PLAIN = {"name": "shop/plain", "version": "1.0.0", "entry": "plain", "files": ["plain.py"]}


class SeveralRuns(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def folder(self, task, source):
        folder = self.stack.path("source-" + task["entry"])
        os.makedirs(folder, exist_ok=True)
        for name, text in (("task.json", json.dumps(task)), (task["entry"] + ".py", source)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        return folder

    def build(self, check=True, **more):
        return self.stack.walle("task", "build", self.folder({**PLAIN, **more}, "import walle\nwalle.result(1)\n"), "--out",
                                self.stack.path("build"), check=check)

    def test_what_a_task_json_may_say(self):
        said = self.build(priority=0, deadline_ms=1500, at_once=2).stdout
        self.assertIn("priority 0", said)
        self.assertIn("within 1500 ms", said)
        self.assertIn("2 at once", said)
        plain = self.build().stdout
        self.assertNotIn("runs:", plain)
        self.assertEqual(self.build(at_once=1).stdout, plain)  # what nothing said means: the same version

    def test_what_it_may_not_say(self):
        for more, words in (({"priority": 4}, '"priority" is a whole number from 0, which goes first, to 3'), ({"priority": -1}, "to 3"),
                            ({"priority": "high"}, "to 3"), ({"deadline_ms": 0}, '"deadline_ms" is a whole number from 1 to 86400000'),
                            ({"deadline_ms": 999}, "less than the 1000 ms that a run may take"),
                            ({"deadline_ms": 100, "time_ms": 200}, "less than the 200 ms"), ({"at_once": 3}, "from 1 to 2"),
                            ({"at_once": 2, "store": {"quota_kib": 1}}, '"at_once" is 1 where there is a "store"'),
                            ({"prio": 1}, "prio")):
            said = self.build(check=False, **more)
            self.assertNotEqual(said.returncode, 0, more)
            self.assertIn("task.json", said.stderr)
            self.assertIn(words, said.stderr)

    def release(self, task):
        build = self.stack.path("build-" + task)
        document = {"name": "shop/" + task, "version": "1.0.0", "entry": task, "files": [task + ".py"], "every_s": 1, "time_ms": 30000,
                    "config": {"task": task}, "uploads": [{"name": "seen", "class": "control"}], "result": "seen",
                    "store": {"quota_kib": 1}}
        self.stack.walle("task", "build", self.folder(document, COUNT), "--out", build)
        self.stack.walle("task", "push", build)
        self.stack.walle("rollout", "start", document["name"], "--build", build, "--key", self.stack.path("key"), "--stages",
                         self.stack.path("stages.json"))

    def agent(self):
        return subprocess.Popen([program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token,
                                 "--dir", self.stack.path("device"), "--id", DEVICE, "--trust", self.key, "--runs", "3"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def numbers(self):
        """For each task how often each number came."""
        path = self.stack.path("records.jsonl")
        self.stack.walle("tunnel", "export", "--out", path)
        with open(path, encoding="utf-8") as file:
            values = [json.loads(line)["record"] for line in file if '"record"' in line]
        return {task: collections.Counter(value["seen"] for value in values if value["task"] == task) for task in TASKS}

    def test_killed_with_runs_under_way(self):
        self.stack.start_gateway("--workers", "1", "--set", "rollout.tick_ms=100")
        self.key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(FULL, file)
        for task in TASKS:
            self.release(task)
        agent = self.agent()
        wait_until(lambda: all(self.numbers().values()), 120)
        for kill in range(KILLS):
            before = {task: max(seen) for task, seen in self.numbers().items()}
            wait_until(lambda a=agent: sum(state_of(child) == "R" for child in children_of(a.pid)) >= 2, 60)
            time.sleep(0.05 * kill)
            agent.send_signal(signal.SIGKILL)
            agent.communicate()
            agent = self.agent()
            wait_until(lambda b=before: all(max(seen) > b[task] for task, seen in self.numbers().items()), 120)
        last = {task: max(seen) for task, seen in self.numbers().items()}
        wait_until(lambda: all(max(seen) >= last[task] + RUNS for task, seen in self.numbers().items()), 120)
        agent.send_signal(signal.SIGTERM)
        _, said = agent.communicate(timeout=60)
        self.assertEqual(agent.returncode, 0, said)
        for task, seen in self.numbers().items():
            self.assertEqual(sorted(seen), list(range(1, max(seen) + 1)), (task, seen))  # none is lost
            # A record of this class is stored at once, and then the store: a kill in between does the run again.
            self.assertLessEqual(sum(seen.values()) - len(seen), KILLS, (task, seen))
            self.assertRegex(said, rf"task shop/{task}: \d+ runs, on average \d+ us to prepare, 0 us with models")


if __name__ == "__main__":
    unittest.main()
