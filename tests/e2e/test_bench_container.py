#!/usr/bin/env python3
"""What `./bench/run container` prints is what both sides measured: every expression is played in the device's VM and in NumPy and
comes to the same, a group's line says the ratio of the medians, and a side that comes to something else fails the run. Few short
turns of small arrays; no time is judged."""
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["WALLE_SOURCE"], "bench"))
import container_bench  # noqa: E402  pylint: disable=wrong-import-position

BUILD = os.path.dirname(os.environ["WALLE_BIN"])


NP = container_bench.KINDS[0]


class Told:
    """A side whose calls take as long as is told, and come to `result`."""

    def __init__(self, spent, result=(3,)):
        self.spent, self.result = spent, [list(result), 1.0, 1.0]

    def load(self, source):
        self.source = source

    def run(self, calls):
        return self.spent * calls, self.result


class BenchContainer(unittest.TestCase):
    def run_of(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "container.jsonl")
            with contextlib.redirect_stdout(io.StringIO()):
                container_bench.main(["--build", BUILD, "--quick", "--out", out, *arguments])
            with open(out, encoding="utf-8") as file:
                return [json.loads(line) for line in file]

    def test_groups_are_measured(self):
        lines = self.run_of("--only", "np.arithmetic", "np.sort", "cv.levels", "--sizes", "10", "160x120")
        self.assertEqual([line["bench"] for line in lines],
                         ["container.np.arithmetic.10", "container.np.sort.10", "container.cv.levels.160x120"])
        groups = {kind.name: kind.groups for kind in container_bench.KINDS}
        for line in lines:
            _, kind, group, _ = line["bench"].split(".")
            calls = groups[kind][group]
            self.assertEqual(list(line["detail"]), list(calls))
            self.assertTrue(all(value > 0 for times in line["detail"].values() for value in times), line)
            self.assertLessEqual(line["spread"][0], line["spread"][1])
            wanted = container_bench.geometric([times[2] for times in line["detail"].values()])
            self.assertAlmostEqual(line["ratio"], wanted, delta=wanted * 0.02)

    def test_every_expression_comes_to_what_the_peer_says(self):
        sides = container_bench.Device(BUILD), container_bench.Peer()
        self.addCleanup(sides[0].close)
        for kind in container_bench.KINDS:
            for call in (call for calls in kind.groups.values() for call in calls):
                for size in list(kind.bars)[:2]:
                    for side in sides:
                        side.load(container_bench.source_of(call, kind.setup(size)))
                    self.assertIsNone(container_bench.differ(sides[0].run(2)[1], sides[1].run(2)[1], kind), call)

    def test_another_result_fails_the_run(self):
        with self.assertRaises(SystemExit):
            container_bench.measure((Told(10), Told(10, (4,))), NP, "a + b", 10, 1, 1000)

    def test_ratios_are_of_medians(self):
        times = container_bench.measure((Told(30), Told(20)), NP, "a + b", 10, 3, 1000)
        line = container_bench.line_of(NP, "container.np.arithmetic.10", {"a + b": times})
        self.assertEqual((line["ours"], line["theirs"], line["ratio"], line["spread"]), (30, 20, 1.5, [1.5, 1.5]))
        for ratio, verdict in ((0.9, "met"), (1.3, "missed")):
            every = container_bench.overall(NP, 1000, [dict(line, ratio=ratio), dict(line, ratio=ratio, bench="container.np.sort.1000")])
            self.assertEqual((every["ours"], every["theirs"], every["verdict"]), (ratio, 1.2, verdict))


if __name__ == "__main__":
    unittest.main()
