"""Random ONNX models through the engine in all its configurations, which must agree; and through ONNX Runtime
($WALLE_ORT_LIBRARY, or what .ci/fetch-onnxruntime brings). tests/differential says how to run more."""
import os
import re
import subprocess
import sys
import types
import unittest

import numpy as np
from walle_stack import BIN, SOURCE, program

sys.path.insert(0, os.path.join(SOURCE, "tests", "differential"))
import diff_cases  # noqa: E402
import diff_ops_math  # noqa: E402
import differential  # noqa: E402
from diff_engines import Ours, Outcome  # noqa: E402
from diff_model import Model, Node  # noqa: E402

WORKER = os.path.join(os.path.dirname(BIN), "tests", "diff_worker")
ORT_FOLDER = os.path.join(SOURCE, "build", "onnxruntime")
MODELS = int(os.environ.get("WALLE_DIFFERENTIAL_MODELS", "300"))
SEED = int(os.environ.get("WALLE_DIFFERENTIAL_SEED", "1"))


def ort_library():
    """The path, or why there is none."""
    given = os.environ.get("WALLE_ORT_LIBRARY")
    if given:
        return given, ""
    fetched = subprocess.run([os.path.join(SOURCE, ".ci", "fetch-onnxruntime"), ORT_FOLDER], capture_output=True, text=True, timeout=300)
    return os.path.join(ORT_FOLDER, "libonnxruntime.so.1"), fetched.stderr.strip() if fetched.returncode else ""


def options(**other):
    return types.SimpleNamespace(**dict({"worker": WORKER, "ort": None, "ops": None, "seconds": 1e9, "models": MODELS, "seed": SEED,
                                         "kind": "both", "each": 3, "out": None}, **other))


class Liar(Ours):
    """Adds one to what one configuration gives for a Relu."""

    def run(self, model, runs, configs):
        results = super().run(model, runs, configs)
        if b"Relu" in model:
            for i, config in enumerate(configs):
                if config == "isa=generic twice":
                    results[i] = [Outcome(o.status, o.text, [[np.asarray(a) + a.dtype.type(1) for a in items] for items in o.outputs])
                                  for o in results[i]]
        return results


class Differential(unittest.TestCase):
    def run_models(self, bench, what):
        differential.probe(bench)
        differential.loop(bench, what)
        code, text = bench.ours.close()
        print(f"\nseed {what.seed}, {MODELS} models, {dict(bench.counts)}")
        self.assertEqual(dict(bench.seen), {})
        self.assertEqual(code, 0, text)  # leaks are told at the end of the process

    def test_configurations_agree(self):
        what = options()
        bench = differential.Bench(what)
        self.run_models(bench, what)

    def test_beside_onnx_runtime(self):
        library, missing = ort_library()
        if missing:
            self.skipTest(missing)
        what = options(ort=library)
        bench = differential.Bench(what)
        self.run_models(bench, what)
        bench.ort.close()

    def test_a_difference_is_found_and_made_small(self):
        bench = differential.Bench(options())
        differential.probe(bench)
        bench.ours.close()
        bench.ours = Liar(WORKER)
        model = Model(13)
        model.inputs = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
        model.nodes = [Node("Neg", ["x"], ["a"], {}), Node("Abs", ["a"], ["b"], {}), Node("Relu", ["b"], ["c"], {}),
                       Node("Transpose", ["x"], ["d"], {})]
        model.outputs = ["c", "d"]
        model.values = {name: model.inputs["x"] for name in "abc"}
        findings = bench.check(model)
        self.assertEqual({f.kind for f in findings}, {"config"})
        self.assertIn("wanted 0.0", findings[0].text)
        small = bench.minimise(model, findings[0])
        self.assertEqual([node.op for node in small.nodes], ["Relu"])
        self.assertEqual(small.outputs, ["c"])
        bench.ours.close()

    def test_every_operator_is_made(self):
        listed = subprocess.run([program("walle-engine"), "info", "--counts"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(int(re.search(r"operators +(\d+) handled", listed).group(1)),
                         len(diff_ops_math.OPERATORS) + len(diff_cases.LATER))

    def test_differences(self):
        one = np.array([1, 2, np.nan, np.inf], np.float32)
        self.assertIsNone(differential.difference(one, one.copy(), False, False, 1))
        for other in (one.astype(np.float64), one.reshape(2, 2), np.array([1, 2, 0, np.inf], np.float32),
                      np.array([1, 2, np.nan, -np.inf], np.float32), np.array([1, 2.1, np.nan, np.inf], np.float32)):
            self.assertIsNotNone(differential.difference(one, other, False, False, 1))
        whole = np.array([1, 2], np.int64)
        self.assertIsNotNone(differential.difference(whole, whole + 1, False, False, 1))


if __name__ == "__main__":
    unittest.main()
