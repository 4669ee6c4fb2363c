#!/usr/bin/env python3
"""./demo on a small fleet, with the programs of this build: version 1 reaches everybody, version 2 nobody keeps."""
import csv
import json
import os
import subprocess
import tempfile
import unittest

SOURCE = os.environ["WALLE_SOURCE"]
DEVICES = 1000


class Demo(unittest.TestCase):
    def test_demo(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out")
            run = subprocess.run([os.path.join(SOURCE, "demo"), "--bin", os.environ["WALLE_BIN"], "--devices", str(DEVICES), "--dedicated",
                                  "10", "--out", out], capture_output=True, text=True, timeout=500, check=False)
            self.assertEqual(run.returncode, 0, run.stdout[-4000:] + run.stderr[-4000:])
            before, _, after = run.stdout.partition("== version 1: out in stages")
            self.assertIn(f"   {DEVICES} devices are online\n", before, "everybody is there before the release")
            self.assertRegex(after, rf"\d+ of {DEVICES} devices run version 1, \d failed")
            self.assertIn(f"report: {out}/report.html", run.stdout.splitlines())
            with open(os.path.join(out, "timeline.csv"), encoding="utf-8") as file:
                first = next(row for row in csv.DictReader(file) if int(row["v1_offered"]) + int(row["v2_offered"]) > 0)
            self.assertEqual(int(first["arrived"]), DEVICES, first)
            with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
                versions = json.load(file)["versions"]
            good, bad = (next(one for one in versions if one["bad"] is is_bad) for is_bad in (False, True))
            self.assertEqual((good["current"], bad["current"]), (DEVICES, 0), versions)
            self.assertGreater(bad["offered"], 0, "its stages were to find it, not the simulation alone")


if __name__ == "__main__":
    unittest.main()
