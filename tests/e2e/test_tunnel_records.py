#!/usr/bin/env python3
"""What devices sent, for operators: tail, export with its place, CSV, stat, across a kill and with old segments gone."""
import csv
import json
import os
import subprocess
import unittest

from walle_stack import Stack, program, wait_until


UNKNOWN = ("--set", "tunnel.unknown_uploads=accept")  # tunnel_load sends what no task declares


class Records(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.first = 1000

    def load(self, count, size=500):
        """`count` samples of each of two new devices; returns how many batches became durable."""
        before = self.durable()
        run = subprocess.run([program("tunnel_load"), f"127.0.0.1:{self.stack.gateway.ports['h2c']}", "--clear", "--mode", "latency",
                              "--count", str(count), "--connections", "2", "--bytes", str(size), "--gap-ms", "0", "--gap-to-ms", "1",
                              "--first-device", str(self.first)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.first += 10
        return self.durable() - before

    def durable(self):
        _, text = self.stack.api("/metrics")
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("walle_tunnel_batches_total "))

    def export(self, path, *arguments):
        self.stack.walle("tunnel", "export", "--out", path, *arguments)
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_exports_go_on(self):
        self.stack.start_gateway("--workers", "1", *UNKNOWN)
        path = self.stack.path("records.jsonl")
        self.assertEqual(self.export(path), [])
        first = self.load(5)
        self.assertEqual(len(self.export(path)), first)
        self.assertEqual(len(self.export(path)), first)  # nothing twice
        self.stack.gateway.kill()
        self.stack.restart_gateway("--workers", "1", *UNKNOWN)
        second = self.load(3)
        records = self.export(path)
        self.assertEqual(len(records), first + second)
        ids = {(r["device"], r["class"], r["epoch"], r["seq"]) for r in records}
        self.assertEqual(len(ids), len(records))
        for record in records:
            self.assertEqual(record["format"] in ("json", "bytes"), True)
        tail = self.stack.walle("tunnel", "tail", "--limit", "4", "-o", "json").stdout.splitlines()
        self.assertEqual([json.loads(line)["at"] for line in tail], [record["at"] for record in records[:4]])
        after = self.stack.walle("tunnel", "tail", "--limit", "2", "-o", "json", "--after", records[3]["at"]).stdout.splitlines()
        self.assertEqual(json.loads(after[0])["at"], records[3]["at"])
        one = records[0]["device"]
        only = self.export(self.stack.path("one.jsonl"), "--device", one)
        self.assertEqual(len(only), sum(record["device"] == one for record in records))
        table = self.stack.path("records.csv")
        self.stack.walle("tunnel", "export", "--out", table)
        self.stack.walle("tunnel", "export", "--out", table)
        with open(table, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), len(records))
        self.assertEqual([row["device"] for row in rows], [record["device"] for record in records])
        stat = json.loads(self.stack.walle("tunnel", "stat", "-o", "json").stdout)
        self.assertFalse(stat["refusing"])
        refused = self.stack.walle("tunnel", "tail", "--after", "nonsense", check=False)
        self.assertIn("after is a place", refused.stderr)

    def test_old_segments_go(self):
        self.stack.start_gateway("--workers", "1", *UNKNOWN, "--set", "tunnel.segment_bytes=1048576", "--set", "tunnel.retain_bytes=2097152",
                                 "--set", "tunnel.device_batches_per_s=100000", "--set", "tunnel.unproven_percent=100")
        path = self.stack.path("records.jsonl")
        self.load(1)
        early = len(self.export(path))
        folder = self.stack.path("gateway", "tunnel")
        for _ in range(12):
            self.load(20, 30000)
        wait_until(lambda: "segment-" + 16 * "0" not in os.listdir(folder), what="the oldest segment to go")
        run = self.stack.walle("tunnel", "export", "--out", path)
        self.assertIn("passed over", run.stderr)
        self.assertGreater(len(self.export(path)), early)

    def test_a_stray_file_hides_nothing(self):
        """A file with a segment's name that is none: the gateway names it and does not start."""
        self.stack.start_gateway("--workers", "1", *UNKNOWN)
        path = self.stack.path("records.jsonl")
        first = self.load(5)
        self.assertEqual(self.stack.gateway.stop(), 0)
        stray = self.stack.path("gateway", "tunnel", "segment-0000000000000001")
        with open(stray, "wb"):
            pass
        with self.assertRaisesRegex(AssertionError, "segment-0000000000000001 is no part of the log"):
            self.stack.restart_gateway("--workers", "1", *UNKNOWN)
        os.remove(stray)
        self.stack.restart_gateway("--workers", "1", *UNKNOWN)
        self.assertEqual(len(self.export(path)), first)


if __name__ == "__main__":
    unittest.main()
