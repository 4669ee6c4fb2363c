#!/usr/bin/env python3
"""From behaviour to the gateway with real programs: events an app records start a task that was released, its results go up the
tunnel and out of `walle tunnel export`; nothing undeclared leaves; kills of device and gateway lose nothing that was recorded."""
import base64
import json
import os
import signal
import subprocess
import unittest

from walle_stack import Stack, program, wait_until

SOURCE = os.environ.get("WALLE_SOURCE", ".")
DEVICE = "00000000000004d2"
FULL = [{"name": "full", "kind": "full", "min_sample": 1, "min_dwell_s": 0}]
SCRIPT = """import walle
from walle import data
events = data.events()
if len(events) > 0:
    spent = sum([e.get("price", 0) for e in events if e.kind == "click"])
    before = len(data.query("spent", "", 0))
    data.store("spent", "", spent)
    data.upload("secret", "nobody asked for it")
    walle.result({"item": events[0].item, "events": len(events), "spent": spent, "before": before})
"""
TASK = {"name": "shop/spent", "version": "1.0.0", "entry": "spent", "files": ["spent.py"],
        "triggers": ["enter(item) * exit(item) page"],
        "events": {"take": "visit", "attributes": ["price"]},
        "uploads": [{"name": "spent", "class": "realtime", "schema": {"type": "object"}}],
        "result": "spent"}


def event(kind, page="item", item=None, **attrs):
    line = {"kind": kind, "page": page}
    if item:
        line["item"] = item
    if attrs:
        line["attrs"] = attrs
    return line


def visit(item, *prices):
    """A visit of its own second: features are rows by time."""
    lines = ([event("enter", item=item)] + [event("click", item=item, price=price, colour="red") for price in prices] +
             [event("exit", item=item)])
    begin = 1800000000000 + 1000 * int(item.split("-")[1])
    return [{**line, "t": begin + i} for i, line in enumerate(lines)]


class Behaviour(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway("--workers", "1", "--set", "rollout.tick_ms=100")
        self.key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]

    def build(self, task, check=True):
        folder = self.stack.path("source")
        os.makedirs(folder, exist_ok=True)
        for name, text in (("task.json", json.dumps(task)), ("spent.py", SCRIPT)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        return self.stack.walle("task", "build", folder, "--out", self.stack.path("build"), check=check)

    def release(self, task):
        self.build(task)
        self.start(task["name"])

    def start(self, name):
        self.stack.walle("task", "push", self.stack.path("build"))
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(FULL, file)
        self.stack.walle("rollout", "start", name, "--build", self.stack.path("build"), "--key", self.stack.path("key"),
                         "--stages", self.stack.path("stages.json"))

    def device(self, *arguments):
        return [program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--dir", self.stack.path("device"), "--id", DEVICE,
                "--trust", self.key, *arguments]

    def run_events(self, events):
        path = self.stack.path("events.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in events)
        run = subprocess.run(self.device("--once", "--events", path), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run

    def records(self):
        path = self.stack.path("records.jsonl")
        self.stack.walle("tunnel", "export", "--out", path)
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def values(self):
        return [record["record"] for record in self.records()]

    def test_a_visit_becomes_a_record(self):
        self.release(TASK)
        run = self.run_events([event("click", page="home", price=1000)] + visit("i-1", 3, 4) + visit("i-2", 5))
        self.assertIn("2 matches", run.stderr)
        self.assertIn("2 refused", run.stderr)  # of the upload nobody declared
        self.assertEqual(self.values(), [{"item": "i-1", "events": 4, "spent": 7, "before": 0},
                                         {"item": "i-2", "events": 3, "spent": 5, "before": 1}])
        for record in self.records():
            self.assertEqual((record["device"], record["task"], record["upload"], record["class"]), (DEVICE, "shop/spent", "spent", 1))
        run = self.run_events(visit("i-3", 1))  # another process: what was stored is there
        self.assertEqual(self.values()[2], {"item": "i-3", "events": 3, "spent": 1, "before": 2})

    def test_the_worked_example(self):
        self.stack.walle("task", "build", os.path.join(SOURCE, "conf", "tasks", "ipv_events"), "--out", self.stack.path("build"))
        self.start("ipv-events")
        self.run_events([{**line, "page": "item_detail"} for line in visit("i-1", 3)] + visit("i-2", 5))
        records = {record["upload"]: record for record in self.records()}
        self.assertEqual(sorted(records), ["ipv", "ipv_encoding"])
        row, encoding = records["ipv"]["record"], records["ipv_encoding"]
        self.assertEqual((row["item"], row["sequence"]), ("i-1", "ecq"))
        self.assertEqual((encoding["format"], len(base64.urlsafe_b64decode(encoding["record"] + "=="))), ("bytes", 128))

    def test_only_what_is_declared_is_kept(self):
        self.release({**TASK, "triggers": ["custom:like(item)"], "events": {"take": "matched"}})
        run = self.run_events(visit("i-1", 3, 4))
        self.assertEqual(self.values(), [])
        self.assertIn(" 0 matches", run.stderr)

    def test_bad_declarations_are_refused(self):
        for change, words in (({"triggers": ["enter(item) * exit(item"]}, "triggers[0]: column"),
                              ({"triggers": ["*"]}, "triggers[0]"),
                              ({"triggers": ["? ? ? ?"]}, "triggers[0]"),
                              ({"uploads": [{"name": "Spent"}]}, "uploads[0]"),
                              ({"uploads": [{"name": "spent", "class": "urgent"}]}, "uploads[0]"),
                              ({"result": "other"}, '"result"'),
                              ({"events": {"take": "all"}}, '"take"'),
                              ({"events": {"take": "visit", "seconds": 5}}, '"seconds"')):
            run = self.build({**TASK, **change}, check=False)
            self.assertNotEqual(run.returncode, 0, change)
            self.assertIn(words, run.stderr, change)

    def test_bad_lines_are_told(self):
        self.release(TASK)
        run = self.run_events([{"kind": "jump", "page": "x"}, {"kind": "click"}, {"kind": "click", "page": "x", "more": 1},
                               {"kind": "click", "page": "x", "name": "buy"}, {"kind": "custom", "page": "x"}] + visit("i-1", 3))
        for words in ("line 1:", 'line 2: no "page"', 'line 4: a custom event has a "name"', "line 5: a custom", "5 bad"):
            self.assertIn(words, run.stderr)
        self.assertEqual(len(self.values()), 1)

    def ran(self, item):
        with open(self.stack.path("device.log"), encoding="utf-8", errors="replace") as log:
            return f'"item":"{item}"' in log.read()

    @staticmethod
    def reads(device, path):
        folder = f"/proc/{device.pid}/fd"
        return any(os.path.realpath(os.path.join(folder, name)) == path for name in os.listdir(folder))

    def test_kills_lose_nothing_recorded(self):
        # Not realtime: what is realtime and older than 2 s, or than the process, is declared lost in its place.
        self.release({**TASK, "uploads": [{**TASK["uploads"][0], "class": "control"}]})
        self.run_events([])
        fifo = self.stack.path("fifo")
        os.mkfifo(fifo)
        visits = 0
        perhaps = set()  # seen by nobody when the kill came
        for life in range(6):
            log = open(self.stack.path("device.log"), "ab")
            self.addCleanup(log.close)
            device = self.stack.spawn_path(*self.device("--events", fifo), stdout=log, stderr=log)
            before = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # a child of the agent before may be the reader yet, and go
            with open(fifo, "w", encoding="utf-8") as pipe:
                wait_until(lambda: self.reads(device, fifo), what="the device to read")
                os.close(before)
                if life % 2 == 1:
                    self.stack.gateway.kill()
                for _ in range(3):
                    visits += 1
                    pipe.writelines(json.dumps(line) + "\n" for line in visit(f"i-{visits}", visits))
                    pipe.flush()
                # A page exit stores what was seen. The kill comes when the last visit's result is out, or into its middle.
                seen = visits - life % 3 // 2
                wait_until(lambda: self.ran(f"i-{seen}"), what=f"the run of visit {seen}")
                perhaps |= set(range(seen + 1, visits + 1))
                device.send_signal(signal.SIGKILL)
                device.wait()
                if life % 2 == 1:
                    self.stack.restart_gateway("--workers", "1", "--set", "rollout.tick_ms=100")
        run = self.run_events([])
        self.assertIn(" 0 queued", run.stderr)
        records = self.records()
        self.assertEqual(len({(r["class"], r["epoch"], r["seq"]) for r in records}), len(records))
        self.assertEqual([r for r in records if "record" not in r], [])
        spent = {record["record"]["spent"] for record in records}
        self.assertEqual(set(range(1, visits + 1)) - perhaps - spent, set())
        self.assertEqual(spent - set(range(1, visits + 1)), set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
