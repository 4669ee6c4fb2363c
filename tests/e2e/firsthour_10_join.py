#!/usr/bin/env python3
"""data.Join beside an oracle that looks at all pairs: every pair is there, or the counters say that something was left out.

Random worlds of 1,000 events, in order, in disorder and with clocks that step, through `walle task run --events`.
WALLE_JOINS=200 plays as many; WALLE_SEED the same ones again.
"""
import json
import os
import random
import unittest

from walle_stack import Stack

WORLDS = int(os.environ.get("WALLE_JOINS", "24"))
SEED = int(os.environ.get("WALLE_SEED", "10"))
START = 1767225600000

SCRIPT = """
import walle
from walle import data
p = walle.input
s = data.events()
left = data.KeyBy(data.Filter(s, 'kind == "click"'), 'item')
right = data.KeyBy(data.Filter(s, 'kind == "exposure"'), 'item')
j = data.Join(left=left, right=right, within=p["within"], where=p["where"], size=p["size"], lateness=p["lateness"])
before = [j.late, j.evicted, j.dropped]
rows = j.aggregate(n=data.count(), total=data.sum('n * 1000 + other.n'))
walle.result({"rows": [[r.key, r.n, r.total, r.complete] for r in rows], "before": before, "late": j.late,
              "evicted": j.evicted, "dropped": j.dropped})
"""

WORDS = """
import walle
from walle import data
s = data.events()
k = data.KeyBy(s, 'item')
a = k.aggregate(d=data.distinct(v='n', bits=8), l=data.last(v='n', n=2), h=data.histogram(v='n', low=0, high=4, bins=2))
data.store(feature='f', key='k', value=1, time=5)
said = []
for wrong in (lambda: data.Join(k, k, 5, size=1000), lambda: data.Join(k, k, 5, lateness=-1), lambda: data.Join(k, k, 5, many=1)):
    try:
        wrong()
    except (ValueError, TypeError) as e:
        said.append(str(e))
try:
    k.late = 3
except AttributeError as e:
    said.append('no store')
walle.result([[a[0].d, a[0].l, a[0].h, a[0].complete], said])
"""


def world(rng):
    """Events and what the join is asked: mostly plain ones, some in disorder, some with a clock that was set back."""
    count = 1000
    keys = rng.choice((1, 3, 40))
    gap = rng.choice((1, 50, 2000))
    disorder = rng.choice((0, 0, 200, 20000))
    steps = rng.random() < 0.2
    events, now = [], START
    for n in range(count):
        now += rng.randrange(gap + 1)
        if steps and rng.random() < 0.003:
            now -= rng.randrange(3 * 3600 * 1000)
        events.append({"kind": rng.choice(("click", "exposure")), "page": "p", "item": f"i{rng.randrange(keys)}",
                       "t": now - rng.randrange(disorder + 1), "attrs": {"n": n % 50}})
    asked = {"within": rng.choice((0, 100, 5000, 10 ** 9)), "where": rng.choice((None, "n > other.n")),
             "size": rng.choice((None, None, 4096, 262144)), "lateness": rng.choice((0, disorder, disorder))}
    return events, asked, disorder <= asked["lateness"] and not steps and asked["size"] != 4096


def oracle(events, asked):
    """Every pair, by looking at all of them."""
    sums = {}
    clicks = [e for e in events if e["kind"] == "click"]
    for other in (e for e in events if e["kind"] == "exposure"):
        for own in clicks:
            if own["item"] != other["item"] or abs(own["t"] - other["t"]) > asked["within"]:
                continue
            a, b = own["attrs"]["n"], other["attrs"]["n"]
            if asked["where"] is None or a > b:
                n, total = sums.get(own["item"], (0, 0))
                sums[own["item"]] = (n + 1, total + a * 1000 + b)
    return sums


class Join(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def build(self, name, script):
        folder = self.stack.path(name)
        os.makedirs(folder)
        with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as file:
            json.dump({"name": name, "version": "1.0.0", "entry": "main", "heap_kib": 4096, "time_ms": 60000,
                       "files": ["main.py"]}, file)
        with open(os.path.join(folder, "main.py"), "w", encoding="utf-8") as file:
            file.write(script)
        self.stack.walle("task", "build", folder, "--out", folder + ".build")
        return folder + ".build"

    def play(self, build, events, given):
        with open(self.stack.path("events.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(event) + "\n" for event in events)
        with open(self.stack.path("input.json"), "w", encoding="utf-8") as file:
            json.dump(given, file)
        run = self.stack.walle("task", "run", build, "--events", self.stack.path("events.jsonl"), "--input",
                               self.stack.path("input.json"), "-o", "json", check=False)
        self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
        return json.loads(run.stdout)["runs"][0]

    def test_exact_or_counted(self):
        build = self.build("join", SCRIPT)
        rng = random.Random(SEED)
        whole, counted = 0, 0
        for number in range(WORLDS):
            events, asked, must = world(rng)
            run = self.play(build, events, asked)
            got, want = run["result"], oracle(events, asked)
            about = f"seed {SEED}, world {number}: {asked}, {got}"
            left = got["late"] + got["evicted"] + got["dropped"]
            self.assertEqual(got["before"], [0, 0, 0], about)
            self.assertEqual(run["left_out"], {name: got[name] for name in ("late", "evicted", "dropped")}, about)
            rows = {key: (n, total) for key, n, total, _ in got["rows"]}
            self.assertEqual({complete for *_, complete in got["rows"]} - {left == 0}, set(), about)
            if left == 0:
                self.assertEqual(rows, want, about)
                whole += 1
            else:
                self.assertFalse(must, about)
                for key, (n, _) in rows.items():
                    self.assertLessEqual(n, want.get(key, (0, 0))[0], about)
                counted += 1
        self.assertGreater(whole, WORLDS // 4)
        self.assertGreater(counted, 0)

    def test_one_key(self):
        """250 clicks and 250 exposures of one item are 62,500 pairs; in the room there was before, less than half, and that is said."""
        build = self.build("one", SCRIPT)
        events = [{"kind": kind, "page": "p", "item": "i", "t": START + n, "attrs": {"n": n}}
                  for n in range(250) for kind in ("click", "exposure")]
        given = {"within": 10 ** 6, "where": None, "size": None, "lateness": 0}
        got = self.play(build, events, given)["result"]
        self.assertEqual(got["rows"][0][1], 62500, got)
        self.assertTrue(got["rows"][0][3])
        got = self.play(build, events, {**given, "size": 16384})["result"]
        self.assertLess(got["rows"][0][1], 31250)
        self.assertGreater(got["dropped"], 300)
        self.assertFalse(got["rows"][0][3])

    def test_words(self):
        """Arguments by the names of the page; what is wrong is named."""
        build = self.build("words", WORDS)
        events = [{"kind": "click", "page": "p", "item": "i", "t": START + n, "attrs": {"n": n}} for n in range(4)]
        row, said = self.play(build, events, {})["result"]
        self.assertEqual(row, [4, [2, 3], [0, 2, 2, 0], True])
        self.assertIn("size of a join is not 4096 to 262144 bytes", said[0])
        self.assertIn("a time is negative", said[1])
        self.assertEqual(len(said), 4, said)


if __name__ == "__main__":
    unittest.main()
