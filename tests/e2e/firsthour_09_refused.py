#!/usr/bin/env python3
"""10,000 records that the gateway refuses, and valid ones of another task in the same class between them: each valid one is durable
before the next bad ones come, a batch of bad ones costs one round trip, and everybody says what was refused and why."""
import json
import os
import subprocess
import time
import unittest

from walle_stack import Stack, program, wait_until

DEVICE = "00000000000004d2"
STEPS = 20
RUNS = 4      # of the bad task before and behind each valid record: fewer than starts may wait
RECORDS = 64  # of a bad run
BAD = """import walle
from walle import data
for e in data.events():
    for n in range(64):
        data.upload('sold', {'item': {'id': n}, 'price': 'cheap' if n % 2 else None})
"""
GOOD = "import walle\nfrom walle import data\nfor e in data.events():\n    walle.result({'n': e.n})\n"
SCHEMA = {"fields": {"item": {"fields": {"id": "integer"}}, "price": {"type": "number", "min": 0}, "shop?": "string"}}


class Refused(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway("--workers", "1", "--set", "rollout.tick_ms=100")
        self.key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]
        self.release("bad", BAD, {"name": "sold", "class": "behaviour", "schema": SCHEMA})
        self.release("good", GOOD, {"name": "seen", "class": "behaviour"}, result="seen", events={"take": "matched", "attributes": ["n"]})

    def release(self, name, script, upload, **more):
        self.stack.release_to_all(name, script, self.stack.path("key"), triggers=[f"click({name})"], uploads=[upload], **more)

    def seen(self):
        return [row["record"]["n"] for row in self.stack.exported() if "record" in row]

    def test_between_refused_records(self):
        agent = self.stack.spawn_path(program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token,
                                      "--dir", self.stack.path("device"), "--id", DEVICE, "--trust", self.key, "--once", "--events",
                                      self.fifo(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        longest_s = 0
        with open(self.stack.path("events"), "w", encoding="utf-8") as events:
            for step in range(STEPS):
                click = [{"kind": "click", "page": "bad"}] * RUNS
                lines = [*click, {"kind": "click", "page": "good", "attrs": {"n": step}}, *click]
                events.writelines(json.dumps(line) + "\n" for line in lines)
                events.flush()
                since = time.monotonic()
                wait_until(lambda wanted=step: wanted in self.seen(), 120, f"valid record {step}")
                longest_s = max(longest_s, time.monotonic() - since)
        print(f"durable after {longest_s:.2f} s at most")
        said = agent.communicate(timeout=120)[1]
        self.assertEqual(agent.returncode, 0, said)
        self.assertEqual(self.seen(), list(range(STEPS)))  # in their order, each once
        rows = self.stack.exported()
        refused = sum(row["lost"] for row in rows if row.get("reason") == "rejected")
        dropped = sum(row["lost"] for row in rows if row.get("reason") == "starts")
        self.assertEqual(refused + RECORDS * dropped, STEPS * 2 * RUNS * RECORDS, said)
        self.assertGreaterEqual(refused, 10000)
        self.assertIn(f": {refused} refused by the gateway, {STEPS} durable there; now: 0 queued", said)
        stat = json.loads(self.stack.walle("tunnel", "stat", "-o", "json").stdout)
        counters = stat["counters"]
        self.assertLessEqual(counters["rejects_total"], refused // 30)  # several records a round trip
        self.assertEqual(counters["violations_total"], 0)
        self.assertEqual(counters["superseded_total"], 0)
        uploads = {row["upload"]: row for row in stat["uploads"]}
        self.assertEqual((uploads["sold"]["records"], uploads["sold"]["rejected"]), (0, refused))
        self.assertEqual({row["why"] for row in uploads["sold"]["refused"]}, {"price is no number"})
        shown = self.stack.walle("tunnel", "stat").stdout
        self.assertRegex(shown, rf"bad sold, schema 1, class 2: 0 records, {refused} refused\n    device {DEVICE}, \d+ bytes: .*, price is no number: ")

    def fifo(self):
        path = self.stack.path("events")
        os.mkfifo(path)
        return path


if __name__ == "__main__":
    unittest.main()
