"""What ./test says at its end: programs that passed and failed, and the cases that those which passed left out."""
import os
import subprocess
import sys
import tempfile
import unittest

COUNTS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), ".ci", "junit-counts")
REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="x" tests="5" failures="1" disabled="0" skipped="1">
 <testcase name="whole" status="run"><system-out>Ran 2 tests in 0.1s

OK
</system-out></testcase>
 <testcase name="python" status="run"><system-out>Ran 7 tests in 0.1s

OK (expected failures=1, skipped=2)
</system-out></testcase>
 <testcase name="cmocka" status="run"><system-out>[  PASSED  ] 4 test(s).
[  SKIPPED ] 3 test(s), listed below:
[  SKIPPED ] narrow
</system-out></testcase>
 <testcase name="red" status="fail"><system-out>FAILED (failures=1, skipped=1)
</system-out></testcase>
 <testcase name="absent" status="notrun"><system-out></system-out></testcase>
</testsuite>
"""


class ClosingLine(unittest.TestCase):
    def test_left_out_cases_are_counted(self):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(REPORT)
            file.flush()
            run = subprocess.run([sys.executable, COUNTS, file.name], capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(run.stdout, "3 1 6\n")
        self.assertIn("failed: red", run.stderr)
        self.assertIn("skipped: 3 of cmocka", run.stderr)

    def test_no_report_is_an_error(self):
        run = subprocess.run([sys.executable, COUNTS, "/nonexistent.xml"], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(run.returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
