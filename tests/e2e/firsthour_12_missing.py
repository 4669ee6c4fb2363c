#!/usr/bin/env python3
"""A run gets all events that its version asks for, also those that memory no longer holds; where there is no room for all, it is told how
many are missing, and no row says that it is complete."""
import json
import os
import re
import subprocess
import unittest

from walle_stack import Stack, program

FULL = [{"name": "full", "kind": "full", "min_sample": 1, "min_dwell_s": 0}]
TASK = {"name": "shop/all", "version": "1.0.0", "entry": "main", "files": ["main.py"], "triggers": ["exit(item)"],
        "events": {"take": "visit", "attributes": ["*"]}}
SCRIPT = """
import walle
from walle import data
s = data.events()
rows = data.KeyBy(s, 'page').aggregate(n=data.count()) + data.TimeWindow(s, 1000000).aggregate(n=data.count())
walle.result({'given': len(s), 'missing': s.missing, 'complete': [row.complete for row in rows[:1]], 'last': s[-1].kind if len(s) else None})
"""
START = 1800000000000


def visit(clicks):
    for n, kind in enumerate(["enter"] + ["click"] * clicks + ["exit"]):
        yield {"kind": kind, "page": "item", "t": START + n, **({"attrs": {"n": n}} if kind == "click" else {})}


class Missing(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)

    def source(self, name="source", **events):
        folder = self.stack.path(name)
        os.makedirs(folder)
        with open(os.path.join(folder, "task.json"), "w", encoding="ascii") as file:
            json.dump({**TASK, "events": {**TASK["events"], **events}}, file)
        with open(os.path.join(folder, "main.py"), "w", encoding="ascii") as file:
            file.write(SCRIPT)
        return folder

    def lines(self, clicks):
        path = self.stack.path("events.jsonl")
        with open(path, "w", encoding="ascii") as file:
            file.writelines(json.dumps(event) + "\n" for event in visit(clicks))
        return path

    def play(self, clicks, *more, **events):
        run = self.stack.walle("task", "run", self.source(f"source{clicks}-{len(events)}{len(more)}", **events), "--events", self.lines(clicks), *more)
        return run.stdout

    def result(self, clicks, **events):
        return json.loads(self.play(clicks, "-o", "json", **events))["runs"][0]

    def test_more_than_memory_holds(self):
        """Some 600 events are in memory; 802 of a visit, or of a span of time, are given whole."""
        for declared in ({}, {"take": "time", "seconds": 60}):
            run = self.result(800, **declared)
            self.assertEqual(run["result"], {"given": 802, "missing": 0, "complete": [True], "last": "exit"})
            self.assertEqual(run["events_missing"], 0)

    def test_more_than_a_run_may_get(self):
        run = self.result(2000)
        result = run["result"]
        self.assertEqual(result["given"] + result["missing"], 2002, result)
        self.assertGreater(result["given"], 700, result)
        self.assertLessEqual(result["given"], 1024)
        self.assertEqual((result["complete"], result["last"]), ([False], "exit"))
        self.assertEqual(run["events_missing"], result["missing"])
        self.assertRegex(self.play(2000), rf"run 1, {result['given']} events; there was no room for {result['missing']} older ones:")

    def test_what_the_version_does_not_ask_for_is_not_missing(self):
        self.assertEqual(self.result(2000, most=10)["result"], {"given": 10, "missing": 0, "complete": [True], "last": "exit"})

    def test_on_a_device(self):
        """The same on a thread and in a process."""
        self.stack.start_hasty_gateway()
        key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.split()[-1]
        self.stack.walle("task", "build", self.source(), "--out", self.stack.path("build"))
        self.stack.walle("task", "push", self.stack.path("build"))
        with open(self.stack.path("stages.json"), "w", encoding="ascii") as file:
            json.dump(FULL, file)
        self.stack.walle("rollout", "start", "shop/all", "--build", self.stack.path("build"), "--key", self.stack.path("key"),
                         "--stages", self.stack.path("stages.json"))
        found = []
        for number, isolation in enumerate(("thread", "process"), 1):
            run = subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--dir",
                                  self.stack.path(isolation), "--id", f"{number:016x}", "--trust", key, "--isolation", isolation, "--once",
                                  "--events", self.lines(2000)], capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL)
            self.assertEqual(run.returncode, 0, run.stderr)
            results = [json.loads(text) for text in re.findall(r"us (\{.*\})$", run.stdout, re.M)]
            found.append(next(result for result in results if result["given"] > 0))
            self.assertEqual(found[-1]["given"] + found[-1]["missing"], 2002, run.stdout)
            self.assertEqual(found[-1]["complete"], [False])


if __name__ == "__main__":
    unittest.main()
