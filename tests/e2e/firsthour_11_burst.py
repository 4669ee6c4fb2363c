#!/usr/bin/env python3
"""A burst of matches: what found no place to wait is declared lost up the tunnel, so that matches = records + what is declared lost,
and the operator sees it."""
import json
import os
import re
import subprocess
import unittest

from walle_stack import Stack, program

DEVICE = "00000000000004d2"
EVENTS = int(os.environ.get("WALLE_BURST", "20000"))
SCRIPT = "import walle\nfrom walle import data\nif len(data.events()) > 0:\n    walle.result({'seq': data.events()[0].seq})\n"


class Burst(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway("--workers", "1", "--set", "rollout.tick_ms=100")
        self.key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]

    def release(self, name, **more):
        self.stack.release_to_all(name, SCRIPT, self.stack.path("key"), triggers=["click(item)"], events={"take": "matched"}, **more)

    def burst(self, count):
        """Matches of a device that is given so many events at once."""
        path = self.stack.path("events.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"kind": "click", "page": "item", "t": 1800000000000 + n}) + "\n" for n in range(count))
        run = subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token,
                              "--dir", self.stack.path("device"), "--id", DEVICE, "--trust", self.key, "--once", "--events", path],
                             capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return int(re.search(r"(\d+) matches, \d+ starts", run.stderr).group(1)), run.stderr

    def law(self, matches):
        """Returns how many of the matches are declared lost as starts."""
        rows = self.stack.exported()
        records = [row for row in rows if "record" in row]
        lost = sum(row["lost"] for row in rows if row.get("reason") == "starts")
        self.assertEqual(sum(row.get("lost", 0) for row in rows), lost)
        self.assertEqual(len(records) + lost, matches)
        self.assertEqual(len({row["record"]["seq"] for row in records}), len(records))
        counters = json.loads(self.stack.walle("tunnel", "stat", "-o", "json").stdout)["counters"]
        self.assertEqual(counters["dropped_starts_total"], lost)
        self.assertEqual(counters["lost_records_total"], lost)
        return lost

    def test_a_burst_is_accounted_for(self):
        self.release("clicks", uploads=[{"name": "seen", "class": "behaviour"}], result="seen")
        matches, said = self.burst(EVENTS)
        self.assertEqual(matches, EVENTS, said)
        lost = self.law(matches)
        self.assertGreater(lost, 0)
        self.assertRegex(said, r"task clicks: \d+ matches start nothing: 16 starts wait already; declared lost")
        self.assertRegex(self.stack.walle("tunnel", "tail").stdout, r"lost \d+: starts\n")
        self.burst(1)  # the next one goes on behind them
        self.assertEqual(self.law(matches + 1), lost)

    def test_without_uploads(self):
        """A task that sends nothing: what it did not run for is told in the class of behaviour."""
        self.release("quiet")
        matches, _ = self.burst(2000)
        rows = self.stack.exported()
        self.assertEqual({row["class"] for row in rows}, {2})
        lost = sum(row["lost"] for row in rows)
        self.assertTrue(0 < lost < matches, (lost, matches))


if __name__ == "__main__":
    unittest.main()
