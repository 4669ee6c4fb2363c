#!/usr/bin/env python3
"""The worked example at its smallest (`bench/highlights_bench.py --size test`): networks are trained, the threshold is chosen,
streamers run and replay, the cloud is asked, and every figure of the report follows from what lies beside it."""
import csv
import html
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from walle_stack import BIN, SOURCE

sys.path[:0] = [os.path.join(SOURCE, "bench"), os.path.join(SOURCE, "bench", "highlights")]
import numpy as np  # noqa: E402  pylint: disable=wrong-import-position
import figures  # noqa: E402  pylint: disable=wrong-import-position
from fleet import AGENT, AGENT_MOMENTS  # noqa: E402  pylint: disable=wrong-import-position
import models  # noqa: E402  pylint: disable=wrong-import-position
import world  # noqa: E402  pylint: disable=wrong-import-position


class Ends(unittest.TestCase):
    def test_what_a_moment_ends_with(self):
        """By hand: moments whose right answer is 3; over HTTP the cloud says 3 of moment 0 and 2 of moment 1."""
        def right(moment, replayed, by, answer):
            ends = figures.Ends()
            ends.add({"moment": moment, "own": 1, "replayed": replayed, "by": by, "answer": answer})
            return ends.right({0: 3, 1: 2}, [3, 3, 3, 3])
        self.assertEqual(right(0, True, "cloud", 1), 1)               # replayed and sent: HTTP's counts
        self.assertEqual(right(1, True, "cloud", 3), 0)
        self.assertEqual(right(0, False, "device, no answer", 1), 0)  # asked in vain: the device's own
        self.assertEqual(right(1, False, "cloud", 3), 1)              # what came, not what is scored elsewhere
        self.assertEqual(right(2, True, "device", 3), 1)              # sure: never asked
        self.assertEqual(right(0, True, "device", 1), 0)
        both = figures.Ends()
        for _ in range(2):
            both.add({"moment": 1, "replayed": False, "by": "device", "answer": 3})
        for _ in range(3):
            both.add({"moment": 0, "replayed": True, "by": "cloud", "answer": 1})
        self.assertEqual(both.right({0: 3}, [3, 3]), 5)


class Moments(unittest.TestCase):
    def test_processes_draw_what_one_does(self):
        count = world.BLOCK + 20
        alone, many = world.Moments(7, count), world.moments(7, count, world.FULL, 2)
        for (name, one), (_, other) in zip(alone.arrays(), many.arrays()):
            self.assertEqual(len(other), count)
            np.testing.assert_array_equal(one, other, name)
        np.testing.assert_array_equal(many.first(30).frame, alone.frame[:30])
        self.assertEqual(len(world.moments(7, 0, world.FULL, 2)), 0)

    def test_items_and_faces_are_apart_and_inside(self):
        random = np.random.default_rng(3)
        for _ in range(300):
            item, face = world.places(random, world.FULL)
            self.assertGreaterEqual(np.hypot(item[1] - face[1], item[2] - face[2]), 0.9 * (item[0] + face[0]))
            for r, cx, cy in (item, face):
                self.assertTrue(r <= min(cx, cy) and max(cx, cy) <= world.SIDE - r)

    def test_what_is_cut_out_is_inside_and_holds_the_place(self):
        for place, (x1, y1, x2, y2) in enumerate(world.boxes()):
            row, column = divmod(place % world.GRID ** 2, world.GRID)
            self.assertTrue(0 <= x1 < x2 <= world.SIDE and 0 <= y1 < y2 <= world.SIDE)
            self.assertTrue(x1 < (column + 0.5) * world.STRIDE < x2 and y1 < (row + 0.5) * world.STRIDE < y2)

    def test_what_is_right_for_a_detector_sums_up_to_one(self):
        moments = world.Moments(5, 60)
        shares = models.place_shares(moments.item_map, world.SIZES)
        np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-6)
        np.testing.assert_array_equal(shares[:, 0] == 1, moments.kind < 0)
        self.assertEqual(set(shares[:, 0]), {0, 1})


class Highlights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="walle-highlights-")
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.out = os.path.join(folder, "out")
        cls.said = cls.run_bench(cls.out)
        cls.result = json.loads(cls.text("result.json"))
        cls.records = [json.loads(line) for line in cls.text("records.jsonl").splitlines()]
        cls.test = list(csv.DictReader(cls.text("test.csv").splitlines()))
        cls.threshold = cls.result["threshold"]["value"]

    @staticmethod
    def run_bench(out, *words):
        run = subprocess.run([sys.executable, os.path.join(SOURCE, "bench", "highlights_bench.py"), "--build", os.path.dirname(BIN), "--size",
                              "test", "--out", out, *words], capture_output=True, text=True, timeout=560, stdin=subprocess.DEVNULL, check=False)
        print(run.stdout)
        if run.returncode != 0:
            raise AssertionError(run.stdout + run.stderr)
        return run.stdout

    @classmethod
    def text(cls, name):
        with open(os.path.join(cls.out, name), encoding="utf-8") as file:
            return file.read()

    def test_networks_learnt(self):
        """Of the highlights, that an answer of "no highlight" never finds, devices find and name some; the cloud's networks, wider and
        trained on more, find more; both together lie between. The shares are counted here, from the scores."""
        of_highlights = [row for row in self.test if row["label"] != "0"]
        self.assertGreater(len(of_highlights), len(self.test) // 3)
        sent = {id(row): float(row["confidence"]) < self.threshold for row in of_highlights}
        found = {"device": [row["device"] == row["label"] for row in of_highlights],
                 "cloud": [row["cloud"] == row["label"] for row in of_highlights],
                 "both": [row["cloud" if sent[id(row)] else "device"] == row["label"] for row in of_highlights]}
        shares = {who: sum(hits) / len(hits) for who, hits in found.items()}
        for who, value in shares.items():
            self.assertAlmostEqual(self.result["test"]["found"][who][0], value, places=9)
        self.assertGreater(shares["device"], 0.15, shares)
        self.assertGreater(shares["cloud"], shares["device"] + 0.05, shares)
        self.assertGreater(shares["both"], shares["device"], shares)
        kinds = {row["device"] for row in of_highlights if row["device"] == row["label"]}
        self.assertEqual(kinds, {str(1 + kind) for kind in world.EASY.kinds})

    def test_figures_follow_from_the_scores(self):
        sent = [float(row["confidence"]) < self.threshold for row in self.test]
        right = {"device": [row["device"] == row["label"] for row in self.test], "cloud": [row["cloud"] == row["label"] for row in self.test]}
        right["both"] = [cloud if is_sent else own for is_sent, own, cloud in zip(sent, right["device"], right["cloud"])]
        judged = self.result["test"]
        self.assertAlmostEqual(judged["sent"][0], sum(sent) / len(sent), places=9)
        for who, hits in right.items():
            self.assertAlmostEqual(judged["accuracy"][who][0], sum(hits) / len(hits), places=9)
            self.assertLess(judged["accuracy"][who][1], judged["accuracy"][who][0])
            self.assertLess(judged["accuracy"][who][0], judged["accuracy"][who][2])
        self.assertAlmostEqual(judged["within"][0], (sum(right["both"]) - sum(right["cloud"])) / len(sent), places=9)
        self.assertAlmostEqual(self.result["cloud_load_saved"], 1 - sum(sent) / len(sent), places=9)

    def test_scored_again_without_a_fleet(self):
        """--reuse trains nothing again and comes to the same answers; --no-fleet ends with them."""
        out = os.path.join(os.path.dirname(self.out), "again", "out")
        shutil.copytree(os.path.join(self.out, "work"), os.path.join(out, "work"))
        said = self.run_bench(out, "--reuse", "--no-fleet")
        self.assertIn("examples, epoch", self.said)
        self.assertNotIn("examples, epoch", said)
        with open(os.path.join(out, "test.csv"), encoding="ascii") as file:
            again = list(csv.DictReader(file))
        self.assertEqual(len(again), len(self.test))
        for row, before in zip(again, self.test):
            self.assertAlmostEqual(float(row.pop("confidence")), float(before["confidence"]), places=4)
            self.assertEqual(row, {name: before[name] for name in row})
        with open(os.path.join(out, "result.json"), encoding="ascii") as file:
            result = json.load(file)
        for who in ("device", "cloud"):
            self.assertEqual(result["test"]["accuracy"][who], self.result["test"]["accuracy"][who])
        self.assertNotIn("fleet", result)
        self.assertFalse(os.path.exists(os.path.join(out, "report.html")))

    def test_test_moments_are_others(self):
        """The labels of test.csv are those of the test's own seed, and its pictures are in no other set."""
        moments = {which: world.Moments(1000 + which, 40, world=world.EASY) for which in (1, 2, 3)}
        self.assertEqual([int(row["label"]) for row in self.test[:40]], moments[3].answer.tolist())
        pictures = np.concatenate([of.frame.reshape(40, -1) for of in moments.values()])
        self.assertEqual(len(np.unique(pictures, axis=0)), 120)

    def test_the_fleet_does_what_was_scored(self):
        tiers = self.result["tiers"]
        self.assertEqual((tiers["real"]["streamers"], tiers["replay"]["streamers"]), (10, 50))
        self.assertEqual(self.result["fleet"]["lost"], 0)
        agent = [record for record in self.records if record["device"] == AGENT]
        self.assertEqual(len(agent), AGENT_MOMENTS)
        self.assertEqual(len(self.records) - len(agent), tiers["real"]["runs"] + tiers["replay"]["runs"])
        for record in self.records:
            row = self.test[record["moment"]]
            self.assertAlmostEqual(record["confidence"], float(row["confidence"]), places=4)
            self.assertEqual(record["own"], int(row["device"]))
            self.assertEqual(record["by"] == "device", record["confidence"] >= self.threshold, record)
        real = [record for record in self.records if not record["replayed"]]
        self.assertGreater(len(real), 300)
        self.assertEqual(self.result["fleet"]["same_answers"], len(real))

    def test_the_cloud_answers_as_scored(self):
        cloud = self.result["cloud"]
        self.assertEqual(cloud["calls"], len({record["moment"] for record in self.records if record["by"] != "device" and record["device"] != AGENT}))
        self.assertEqual(cloud["other_answers"], 0)
        self.assertGreater(cloud["bytes_a_call"], 3 * world.SIDE ** 2)

    def test_right_counts_what_moments_end_with(self):
        """From the records, which are all there at this size: a replayed moment that was sent ends with the answer over HTTP."""
        over_http = {int(row["moment"]): int(row["answer"]) for row in csv.DictReader(self.text("cloud.csv").splitlines())}
        ends = [(over_http[record["moment"]] if record["replayed"] and record["by"] != "device" else record["answer"],
                 int(self.test[record["moment"]]["label"])) for record in self.records if record["device"] != AGENT]
        self.assertEqual(len(ends), self.result["fleet"]["moments"])
        self.assertAlmostEqual(self.result["fleet"]["right"][0], sum(answer == label for answer, label in ends) / len(ends), places=9)

    def test_rows_without_a_peer(self):
        with open(os.path.join(os.path.dirname(self.out), "highlights.jsonl"), encoding="ascii") as file:
            rows = {row["bench"]: row for row in map(json.loads, file)}
        self.assertEqual(len(rows), 5)
        for name, row in rows.items():
            self.assertEqual(row["peer"], "cloud alone" if name == "highlights.accuracy" else None, row)
            self.assertEqual((row["theirs"] is None, row["ratio"] is None), (row["peer"] is None,) * 2, row)

    def test_the_report_says_it(self):
        report = self.text("report.html")
        self.assertEqual(report.count("<svg"), 6)
        self.assertIn("All data is synthetic", report)
        warning = "The size 'test' only shows that the machinery works"
        self.assertEqual(self.said.splitlines()[0][:len("warning: " + warning)], "warning: " + warning)
        self.assertIn(html.escape(warning), report[:report.index("<h2>")])
        self.assertIn(world.words(world.EASY), report)
        for bar in ("at most 15 % sent", "within a point of the cloud alone", "at least 85 %", "under 150 ms"):
            self.assertIn(bar, report)
        self.assertIn(f"{100 * self.result['test']['sent'][0]:.2f} %", report)


if __name__ == "__main__":
    unittest.main()
