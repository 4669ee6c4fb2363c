#!/usr/bin/env python3
"""`or timeout`: each start of a pattern that no match followed in time starts the task, too, once. Played recordings are compared with a
search through all ways to match; the agent does it by its own clock, and across a kill."""
import json
import os
import random
import signal
import subprocess
import time
import unittest

from walle_stack import Stack, program, wait_until

START = 1767225600000
WITHIN_MS = 10000
LOGS = 25  # of each pattern
SCRIPT = """
import walle
from walle import data
s = data.events()
walle.result([s.timed_out, [e.get('n') for e in s]])
"""
PATTERNS = {  # what is asked, and the steps in the oracle's words
    "gap": ("custom:a * custom:b within 10s or timeout", {}),
    "reset": ("custom:a * custom:b within 10s reset or timeout", {"reset": True}),
    "next": ("custom:a custom:b within 10s or timeout", {"adjacent": True}),
    "item": ("custom:a same(item) * custom:b same(item) within 10s or timeout", {"item": True}),
    "page": ("custom:a * custom:b within 10s page or timeout", {"page": True}),
    "twice": ("custom:a * custom:a within 10s or timeout", {"last": "a"}),
}


def recording(draw):
    """Events of two names, on two items, in visits of a page and outside; pauses that meet the bound, and pass it by a millisecond."""
    at, visit, visits, lines = START, 0, 0, []
    for n in range(draw.randrange(1, 30)):
        at += draw.choice((0, 1, 500, 3000, 5000, WITHIN_MS - 1, WITHIN_MS, WITHIN_MS + 1, 40000))
        kind = draw.choice(("a", "a", "b", "c", "enter" if visit == 0 else "exit"))
        event = {"kind": "custom", "name": kind, "page": "p", "item": draw.choice(("x", "y")), "t": at, "attrs": {"n": n}}
        if kind in ("enter", "exit"):
            event = {"kind": kind, "page": "p", "t": at}
        visits += kind == "enter"
        visit = visits if kind == "enter" else visit
        lines.append((event, kind, visit))
        visit = 0 if kind == "exit" else visit
    return lines


def expected(lines, reset=False, adjacent=False, item=False, page=False, last="b"):
    """(timed out, events) of each run, in order: by trying every start for every event, and keeping each start until it is over."""
    runs, pending, used = [], [], -1

    def over(before_ms):
        for start in [one for one in pending if lines[one][0]["t"] + WITHIN_MS < before_ms]:
            pending.remove(start)
            runs.append([True, [lines[start][0]["attrs"]["n"]]])

    def together(i, n):
        (first, _, first_visit), (then, _, visit) = lines[i], lines[n]
        return (then["t"] - first["t"] <= WITHIN_MS and not (adjacent and i + 1 != n) and not (item and first["item"] != then["item"])
                and not (page and (visit == 0 or visit != first_visit)))

    for n, (event, kind, visit) in enumerate(lines):
        over(event["t"])
        starts = [i for i in range(used + 1, n) if lines[i][1] == "a" and together(i, n)] if kind == last else []
        if starts:
            runs.append([False, [lines[starts[-1]][0]["attrs"]["n"], event["attrs"]["n"]]])
            used = n if reset else used
            pending = [i for i in pending if (page and lines[i][2] != visit) or (item and lines[i][0]["item"] != event["item"])]
        if kind == "a" and not (page and visit == 0):
            pending.append(n)
    over(float("inf"))
    return runs


class TimedOut(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def build(self, name, pattern, take="matched", check=True, **events):
        folder = self.stack.path(name)
        os.makedirs(folder, exist_ok=True)
        task = {"name": name, "version": "1.0.0", "entry": "main", "files": ["main.py"], "triggers": [pattern],
                "events": {"take": take, "attributes": ["n"], **events}}
        for file_name, text in (("task.json", json.dumps(task)), ("main.py", SCRIPT)):
            with open(os.path.join(folder, file_name), "w", encoding="utf-8") as file:
                file.write(text)
        return self.stack.walle("task", "build", folder, "--out", folder + ".build", check=check)

    def play(self, name, lines):
        path = self.stack.secret("events.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        run = self.stack.walle("task", "run", self.stack.path(name) + ".build", "--events", path, "-o", "json", check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)

    def test_as_the_search_says(self):
        draw = random.Random(20261124)
        ended = {False: 0, True: 0}
        for name, (pattern, steps) in PATTERNS.items():
            self.build(name, pattern)
            for _ in range(LOGS):
                lines = recording(draw)
                played = self.play(name, [event for event, _, _ in lines])
                wanted = expected(lines, **steps)
                self.assertEqual([json.loads(run["result"]) if isinstance(run["result"], str) else run["result"] for run in played["runs"]], wanted,
                                 f"{pattern}\n" + "\n".join(json.dumps(line[0]) for line in lines))
                self.assertEqual([run["timed_out"] for run in played["runs"]], [timed_out for timed_out, _ in wanted])
                self.assertEqual(played["matches"], len(wanted))
                for timed_out, _ in wanted:
                    ended[timed_out] += 1
        self.assertGreater(min(ended.values()), 100, ended)

    def test_what_a_run_takes(self):
        """The visit and the span of time go on until the time-out; without events it is said all the same."""
        events = [{"kind": "enter", "page": "p", "t": START}, {"kind": "custom", "name": "a", "page": "p", "t": START + 1000, "attrs": {"n": 1}},
                  {"kind": "custom", "name": "c", "page": "p", "t": START + 9000, "attrs": {"n": 2}}, {"kind": "exit", "page": "p", "t": START + 30000}]
        outside = [{"kind": "custom", "name": name, "page": "p", "t": START + 1000 * n, "attrs": {"n": n}} for n, name in enumerate("cac")]
        for name, take, more, wanted, played in (("one", "visit", {}, [None, 1, 2], events), ("two", "time", {"seconds": 5}, [2], events),
                                                 ("three", "none", {}, [], events), ("four", "visit", {}, [1], outside),
                                                 ("five", "visit", {"most": 1}, [2], events)):
            self.build(name, PATTERNS["gap"][0], take, **more)
            runs = self.play(name, played)["runs"]
            self.assertEqual([json.loads(run["result"]) if isinstance(run["result"], str) else run["result"] for run in runs], [[True, wanted]], take)

    def test_what_is_no_pattern(self):
        for pattern, said in (("click * exit or timeout", "or timeout needs within"), ("click within 5s or timeout", "or timeout needs a second step"),
                              ("click * exit within 5s or", "expected: or timeout"), ("click * exit within 5s or time", "expected: or timeout"),
                              ("click * exit within 5s cooldown 1m or timeout", "or timeout stands beside no cooldown, max or once per visit"),
                              ("click * exit within 5s max 3/day or timeout", "or timeout stands beside no cooldown"),
                              ("click * exit within 5s once per visit or timeout", "or timeout stands beside no cooldown"),
                              ("click * exit within 5s or timeout or timeout", "a clause is given twice")):
            run = self.build("wrong", pattern, check=False)
            self.assertEqual((run.returncode, said in run.stderr), (5, True), f"{pattern}: {run.stderr}")

    def test_more_than_wait(self):
        """Of 100 starts the oldest give way; they are counted as matches that found no place."""
        self.build("many", PATTERNS["gap"][0])
        played = self.play("many", [{"kind": "custom", "name": "a", "page": "p", "t": START + n * 10, "attrs": {"n": n}} for n in range(100)])
        self.assertEqual((played["matches"], played["dropped"]), (100, 36))
        self.assertEqual([run["result"] for run in played["runs"]], [[True, [n]] for n in range(36, 100)])

    # ---- A device

    def agent(self, *arguments, events=b""):
        child = subprocess.Popen(
            [program("walle-device"), "--gateway", f"https://127.0.0.1:{self.stack.gateway.ports['tls']}", "--ca", self.stack.path("gateway", "cert.pem"),
             "--dir", self.stack.path("device"), "--id", "00000000000000d1", "--trust", self.key, "--enroll-token", self.stack.enroll_token,
             "--events", "-", *arguments], stdin=subprocess.PIPE, stdout=open(self.stack.path("device.out"), "ab"), stderr=subprocess.STDOUT)
        self.stack.children.append(child)
        child.stdin.write(events)
        child.stdin.flush()
        return child

    def said(self):
        with open(self.stack.path("device.out"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def test_on_a_device_and_across_a_kill(self):
        self.stack.start_hasty_gateway()
        self.stack.walle("key", "new", "--out", self.stack.path("key"))
        with open(self.stack.path("key.pub"), encoding="ascii") as file:
            self.key = file.read().split()[-1]
        self.build("basket", "custom:a * custom:b within 3s or timeout")
        build = self.stack.path("basket.build")
        self.stack.walle("task", "push", build)
        full = self.stack.secret("full.json", '[{"name": "full", "kind": "full", "min_sample": 1, "min_dwell_s": 0}]')
        self.stack.walle("rollout", "start", "basket", "--build", build, "--key", self.stack.path("key"), "--stages", full)
        first = self.agent()
        wait_until(lambda: "basket" in self.said() and " ran " in self.said(), 60, f"the version to run: {self.said()}")
        first.stdin.write(b'{"kind": "custom", "name": "a", "page": "p", "attrs": {"n": 1}}\n')
        first.stdin.flush()
        wait_until(lambda: "[true,[1]]" in self.said(), 10, f"a start to time out on a device that is at rest: {self.said()}")
        first.stdin.write(b'{"kind": "custom", "name": "a", "page": "p", "attrs": {"n": 2}}\n{"kind": "custom", "name": "b", "page": "p", "attrs": {"n": 3}}\n'
                          b'{"kind": "custom", "name": "a", "page": "p", "attrs": {"n": 4}}\n')
        first.stdin.flush()
        wait_until(lambda: "[false,[2,3]]" in self.said(), 60, "a match")
        time.sleep(2.2)  # what came is stored, and the last start is not over
        first.send_signal(signal.SIGKILL)
        first.wait()
        first.stdin.close()
        self.assertNotIn("[true,[4]]", self.said())
        second = self.agent("--isolation", "thread")
        wait_until(lambda: "[true,[4]]" in self.said(), 60, "the start to time out in the next life")
        time.sleep(1)
        second.terminate()
        second.wait(30)
        second.stdin.close()
        self.assertEqual([self.said().count(f"[true,[{n}]]") for n in (1, 2, 4)], [1, 0, 1], self.said())


if __name__ == "__main__":
    unittest.main()
