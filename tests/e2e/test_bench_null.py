#!/usr/bin/env python3
"""What `./bench/run rollout --only null` makes of counts: a quick run says of too few rollouts that they are too few, a full one takes
them for a failure, and both fail where a level is exceeded. The rollouts are told, not played."""
import argparse
import contextlib
import io
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["WALLE_SOURCE"], "bench"))
import rollout_null  # noqa: E402  pylint: disable=wrong-import-position

LARGE = {cell for cell, devices in rollout_null.cells() if devices == 20000}


class Told(rollout_null.Pieces):
    """Pieces whose rollouts were stopped as `share(cell, how)` says; `left` is what is due of a stop by now."""
    share = staticmethod(lambda cell, how: 0.0)
    held = staticmethod(lambda cell: 0.0)
    differ = 0

    def count(self, key, more):
        """Whole ones of what is due by now."""
        self.due = getattr(self, "due", {})
        self.due[key] = self.due.get(key, 0.0) + more
        whole = int(self.due[key])
        self.due[key] -= whole
        return whole

    def play(self, how, cell, first, runs):
        stopped = self.count((how, cell), self.share(cell, how) * runs)
        return {"build": self.build, "cell": cell, "name": f"cell {cell}", "how": how, "first": first, "runs": runs, "stopped": stopped,
                "held": self.count((how, cell, "held"), self.held(cell) * runs if how == "core" else 0), "passed": 0, "differ": self.differ}


class BenchNull(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.makedirs(os.path.join(self.folder, "bin"))
        os.makedirs(os.path.join(self.folder, "out"))
        with open(os.path.join(self.folder, "bin", "gate_null"), "w", encoding="ascii") as file:
            file.write("told")
        for name, value in (("HERE", rollout_null.HERE), ("Pieces", rollout_null.Pieces)):
            self.addCleanup(setattr, rollout_null, name, value)
        rollout_null.HERE = self.folder

    def run_of(self, quick, share, differ=0, held=lambda cell: 0.0):
        class These(Told):
            pass
        These.held = staticmethod(held)
        These.share, These.differ = staticmethod(share), differ
        rollout_null.Pieces = These
        said = io.StringIO()
        args = argparse.Namespace(quick=quick, build=self.folder, jobs=1, null_out=os.path.join(self.folder, f"{len(os.listdir(self.folder))}.jsonl"))
        with contextlib.redirect_stdout(said):
            result = rollout_null.run(args)
        return result, said.getvalue()

    def test_nothing_is_wrong(self):
        for quick in (True, False):
            result, said = self.run_of(quick, lambda cell, how: 0.01 if rollout_null.has_failures(cell) else 0.0)
            self.assertEqual(result, 0, said)
            self.assertNotIn("NOT SHOWN", said)
            self.assertNotIn("WORSE", said)

    def test_too_few_to_say(self):
        def some(cell, how):  # pylint: disable=unused-argument
            return 0.049 if cell in LARGE and rollout_null.has_failures(cell) else 0.0
        result, said = self.run_of(True, some)
        self.assertEqual(result, 0, said)
        self.assertIn("too few runs to say", said)
        result, said = self.run_of(False, some)
        self.assertEqual(result, 1, said)
        self.assertIn("NOT SHOWN", said)

    def test_more_evidence(self):
        """What a cell's own rollouts leave open its 10,000 on the blocks decide."""
        def few(cell, how):
            return 0.0 if cell not in LARGE or not rollout_null.has_failures(cell) else 0.03 if how == "core" else 0.01
        result, said = self.run_of(False, few)
        self.assertEqual(result, 0, said)
        self.assertEqual(said.count("gate.null.worst."), len([cell for cell in LARGE if rollout_null.has_failures(cell)]))
        result, said = self.run_of(False, lambda cell, how: 0.03 if few(cell, how) else 0.0)
        self.assertEqual(result, 0, said)
        result, said = self.run_of(False, lambda cell, how: (0.03 if how == "core" else 0.06) if few(cell, how) else 0.0)
        self.assertEqual(result, 1, said)

    def test_worse(self):
        for quick in (True, False):
            result, said = self.run_of(quick, lambda cell, how: 0.3 if rollout_null.has_failures(cell) else 0.0)
            self.assertEqual(result, 1, said)
            self.assertIn("WORSE", said)

    def test_segments_that_are_held(self):
        large = min(LARGE)
        one = 1 / rollout_null.RUNS[20000] + 1e-6
        for held, result in ((lambda cell: one if cell == large else 0.0, 0), (lambda cell: 10 * one if cell == large else 0.0, 1),
                             (lambda cell: one if cell in LARGE else 0.0, 1)):
            self.assertEqual(self.run_of(False, lambda cell, how: 0.0, held=held)[0], result)

    def test_a_piece_is_known_by_its_rollouts(self):
        pieces = Told(os.path.join(self.folder, "some.jsonl"), os.path.join(self.folder, "bin", "gate_null"), self.folder, 1)
        pieces.play_all([("core", 0, 0, 10)])
        self.assertTrue(pieces.has("core", 0, 0, 10))
        self.assertFalse(pieces.has("core", 0, 0, 100))

    def test_both_ways_differ(self):
        for quick in (True, False):
            self.assertEqual(self.run_of(quick, lambda cell, how: 0.0, differ=1)[0], 1)


if __name__ == "__main__":
    unittest.main()
