"""The ONNX project's own test cases through `walle-engine check --onnx-cases`: none may fail, and a named number passes.

By hand, on the cases of another release: `test_engine_cases.py --cases FOLDER [--opsets 18-22]`, FOLDER being
onnx/backend/test/data/node of a checkout, counts them and prints what is refused, why, and what is wrong."""
import argparse
import collections
import os
import re
import subprocess
import sys
import unittest

import onnx

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


def opset_of(folder, name):
    model = onnx.load(os.path.join(folder, name, "model.onnx"), load_external_data=False)
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)


def measure(folder, first, last):
    """Prints what became of the cases of these opsets; the number of wrong ones."""
    run = subprocess.run([program("walle-engine"), "check", "--onnx-cases", "--verbose", folder], capture_output=True,
                         text=True, timeout=1000)
    outcomes = re.findall(r"^(passed|amended|unsupported|failed) ([^\s:]+):?(?: (.*))?$", run.stdout, re.M)
    counts, why = collections.Counter(), collections.defaultdict(list)
    for outcome, name, said in outcomes:
        if first <= opset_of(folder, name) <= last:
            counts[outcome] += 1
            reason = re.sub(r"^(node|value|output) '[^']*'", r"\1", said)
            why[outcome, reason if outcome != "failed" else said].append(name)
    print(f"{folder}, opsets {first} to {last}: {sum(counts.values())} cases: {counts['passed']} passed, "
          f"{counts['amended']} amended, {counts['unsupported']} refused, {counts['failed']} wrong")
    for (outcome, reason), names in sorted(why.items(), key=lambda item: -len(item[1])):
        if outcome != "passed":
            print(f"{len(names):4} {outcome}: {reason} ({names[0]}{', ...' if len(names) > 1 else ''})")
    return counts["failed"]


def measure_asked():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", required=True)
    parser.add_argument("--opsets", default="0-1000")
    asked = parser.parse_args()
    first, _, last = asked.opsets.partition("-")
    return measure(asked.cases, int(first), int(last or first))


if __name__ == "__main__":
    if any(word.startswith("--cases") for word in sys.argv[1:]):
        sys.exit(measure_asked() > 0)
    unittest.main()
