"""The ONNX project's own test cases through `walle-engine check --onnx-cases`: none may fail, and a named number passes."""
import os
import re
import subprocess
import unittest

from walle_stack import program

DATA = os.environ.get("WALLE_ONNX_CASES", "/usr/share/libonnx-testdata/data")
# Cases whose data contradict their model: run as they are, and when results differ, again with the attribute the data
# were made with (the list is in engine_cases.c, with the reasons). They must pass then.
AMENDED = {"node": ["test_adam_multiple"]}
COUNTS = {"node": 932, "simple": 23, "pytorch-operator": 35, "pytorch-converted": 82}
# Cases that pass at least. The rest is refused with an error that names the operator.
PASSED = {"node": 931, "simple": 21, "pytorch-operator": 35, "pytorch-converted": 82}


class Cases(unittest.TestCase):
    def run_folder(self, folder, *options):
        run = subprocess.run([program("walle-engine"), "check", "--onnx-cases", *options,
                              os.path.join(DATA, folder)], capture_output=True, text=True, timeout=500)
        totals = re.search(r"(\d+) cases: (\d+) passed .* (\d+) amended, (\d+) unsupported, (\d+) failed, (\d+) skipped", run.stdout)
        self.assertIsNotNone(totals, run.stdout[-2000:] + run.stderr[-4000:])
        count, passed, amended, unsupported, failed, skipped = map(int, totals.groups())
        print(f"\n{folder} {' '.join(options)}: {totals.group(0)}")
        refused = re.findall(r"^unsupported (\S+): (.*)$", run.stdout, re.M)
        self.assertEqual(failed, 0, "\n".join(re.findall(r"^failed .*$", run.stdout, re.M)))
        self.assertEqual(run.returncode, 0)
        self.assertEqual(skipped, 0)
        self.assertEqual(count, COUNTS[folder])
        self.assertEqual(count, passed + amended + unsupported)
        self.assertEqual(re.findall(r"^amended (\S+): ", run.stdout, re.M), AMENDED.get(folder, []))
        self.assertEqual(amended, len(AMENDED.get(folder, [])))
        self.assertEqual(len(refused), unsupported)
        for case, text in refused:  # the error says which operator it is about
            self.assertRegex(text, r"\(\w[\w.:]*, opset \d+\)|operator|input '|type", case)
        self.assertGreaterEqual(passed, PASSED[folder])
        return passed

    def test_reference_backend(self):
        for folder in PASSED:
            with self.subTest(folder):
                self.run_folder(folder, "--isa", "ref")

    def test_best_instruction_set(self):
        for folder in PASSED:
            with self.subTest(folder):
                self.run_folder(folder)

    def test_generic_instruction_set(self):
        self.run_folder("node", "--isa", "generic")

    def test_two_threads_without_merging_and_fusion(self):
        self.run_folder("node", "--threads", "2", "--no-merge", "--no-fuse")


if __name__ == "__main__":
    unittest.main()
