#!/usr/bin/env python3
"""`walle task run --events FILE` plays a recording as a device would: a run for each match, with its events, and what goes up."""
import json
import os
import subprocess
import unittest

from walle_stack import Stack, program

START = 1767225600000
TASK = {"name": "spent", "version": "1.0.0", "entry": "main", "files": ["main.py"], "triggers": ["enter(item) * exit(item) page"],
        "events": {"take": "visit", "attributes": ["price"]}, "uploads": [{"name": "spent", "class": "realtime"}], "result": "spent"}
SCRIPT = """
import walle
from walle import data
s = data.events()
if any(e.get('price') == 13 for e in s):
    1 // 0
total = sum(e.get('price', 0) for e in s)
earlier = [value for _, value in data.query('total', 'k')]
data.store('total', 'k', total, s[-1].time if len(s) else None)
walle.result({'total': total, 'kinds': [e.kind for e in s], 'colour': s[1].get('colour'), 'earlier': earlier})
"""


def visit(page, at, *prices):
    yield {"kind": "enter", "page": page, "t": START + at}
    for n, price in enumerate(prices):
        yield {"kind": "click", "page": page, "t": START + at + 10 + n, "attrs": {"price": price, "colour": "red"}}
    yield {"kind": "exit", "page": page, "t": START + at + 100}


class Play(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def build(self, name, script=SCRIPT, check=True, **changes):
        folder = self.stack.path(name)
        os.makedirs(folder)
        with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as file:
            json.dump({key: value for key, value in {**TASK, **changes}.items() if value is not None}, file)
        with open(os.path.join(folder, "main.py"), "w", encoding="utf-8") as file:
            file.write(script)
        run = self.stack.walle("task", "build", folder, "--out", folder + ".build", check=check)
        return folder + ".build" if check else run

    def play(self, build, lines, *more):
        path = self.stack.path("events.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        return self.stack.walle("task", "run", build, "--events", path, *more, check=False)

    def test_firsthour_records_against_their_schema(self):
        """What the gateway would refuse is an error here, and in a simulation: both hold a record against its upload's schema."""
        events = visit("item", 0, 5, 7)
        schema = {"fields": {"total": "string"}, "extra": True}
        script = "import walle\nwalle.result({'total': 1})\n"
        build = self.build("spent", script, uploads=[{"name": "spent", "class": "realtime", "schema": schema}])
        run = self.play(build, events)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertRegex(run.stdout, r"(?m)^upload spent: .*\n  the gateway would refuse it: total is no string$")
        self.assertRegex(run.stdout, r"(?m)^1 records are not as their schemas say: the gateway would refuse them$")
        played = json.loads(self.play(build, visit("item", 0, 5), "-o", "json").stdout)
        self.assertEqual(played["runs"][0]["uploads"][0]["refused"], "total is no string")

        def simulate(build):
            out = self.stack.path("fleet")
            said = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", build, "--devices", "20", "--no-live", "--out", out],
                                  capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
            with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
                return said, json.load(file)
        said, result = simulate(build)
        self.assertEqual((said.returncode, result["outcome"]), (1, "failed"), said.stdout)
        records = result["behaviour"]["totals"]["records"]
        self.assertEqual(result["behaviour"]["totals"]["records_against_schema"], records)
        self.assertRegex(said.stdout.strip().splitlines()[-1], rf"^FAILED: {records} of {records} records are not as their schemas say, and a gateway "
                         r"refuses them; the first: spent, spent: total is no string")
        good = self.build("good", script, uploads=[{"name": "spent", "class": "realtime", "schema": {"fields": {"total": "number"}, "extra": True}}])
        self.assertEqual(self.play(good, visit("item", 0, 5)).returncode, 0)
        said, result = simulate(good)
        self.assertEqual((said.returncode, result["behaviour"]["totals"]["records_against_schema"]), (0, 0), said.stdout)

    def test_firsthour_a_schema_that_is_none(self):
        """What the gateway would refuse at the push is refused when it is built, by the names of upload and field."""
        schema = {"fields": {"total": {"type": "int"}}}
        run = self.build("none", check=False, uploads=[{"name": "spent", "class": "realtime", "schema": schema}])
        self.assertEqual(run.returncode, 5, run.stdout)
        self.assertRegex(run.stderr, r"task\.json: upload spent: schema: byte \d+: the type of total is any, null, boolean, integer, number, string, "
                                     "list or object")

    def test_matches(self):
        """Three visits of the page, one of another: three runs, each with its visit; later runs find what earlier ones stored."""
        events = [*visit("item", 0, 5, 7), *visit("list", 1000, 1), *visit("item", 2000), "", *visit("item", 3000, 9)]
        run = self.play(self.build("spent"), events, "-o", "json")
        self.assertEqual(run.returncode, 0, run.stderr)
        played = json.loads(run.stdout)
        self.assertEqual((played["events"], played["matches"], len(played["runs"])), (len(events) - 1, 3, 3))
        results = [one["result"] for one in played["runs"]]
        self.assertEqual([one["total"] for one in results], [12, 0, 9])
        self.assertEqual([one["events"] for one in played["runs"]], [4, 2, 3])
        self.assertEqual(results[0]["kinds"], ["enter", "click", "click", "exit"])
        self.assertIsNone(results[0]["colour"])  # it was not declared, so no device records it
        self.assertEqual([one["earlier"] for one in results], [[], [12], [0, 12]])
        self.assertEqual([one["uploads"] for one in played["runs"]],
                         [[{"name": "spent", "bytes": len(json.dumps(result, separators=(",", ":"))), "record": result}]
                          for result in results])
        said = self.play(self.stack.path("spent.build"), events)
        self.assertIn("run 3, 3 events:\n", said.stdout)
        sent = [json.loads(line[14:]) for line in said.stdout.splitlines() if line.startswith("upload spent: ")]
        self.assertEqual(sent, results)
        self.assertIn(f"{len(events) - 1} events, 3 matches, 3 runs\n", said.stdout)

    def test_without_triggers(self):
        """A version without triggers runs once, with all of them, attributes and all."""
        build = self.build("plain", triggers=None, events=None)
        events = [*visit("item", 0, 5), *visit("list", 1000, 1)]
        played = json.loads(self.play(build, events, "-o", "json").stdout)
        self.assertEqual(len(played["runs"]), 1)
        self.assertEqual(played["runs"][0]["result"]["total"], 6)
        self.assertEqual(played["runs"][0]["result"]["colour"], "red")
        many = self.play(build, [{"kind": "click", "page": "p"}] * 4097)
        self.assertEqual(many.returncode, 5)
        self.assertIn("more than 4096 events", many.stderr)

    def test_what_is_wrong_is_named(self):
        build = self.build("spent")
        for lines, said in (([*visit("item", 0), '{"kind": "clack", "page": "p"}'], "line 3: "), ([""], "no event in it"),
                            (['{"kind": "click"'], "line 1: column 16"), (['{"kind": "click", "page": "' + "p" * 65 + '"}'], "line 1: ")):
            run = self.play(build, lines)
            self.assertEqual(run.returncode, 5, run.stdout)
            self.assertIn(said, run.stderr)
        run = self.play(build, visit("item", 0), "--repeat", "3")
        self.assertIn("--repeat", run.stderr)
        run = self.play(build, [*visit("item", 0, 13), *visit("item", 1000, 5)])
        self.assertEqual(run.returncode, 1)  # one run failed, the next was played all the same
        self.assertIn("ZeroDivisionError", run.stdout)
        self.assertIn("2 matches, 2 runs", run.stdout)


if __name__ == "__main__":
    unittest.main()
