#!/usr/bin/env python3
"""What `./bench/run inference` counts is what the service counted: every call of the load generator, closed and open, is one
answer of the model; a model that is not there is no answer. A few calls of DIN; nothing is timed."""
import argparse
import os
import re
import sys
import tempfile
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.environ["WALLE_SOURCE"], "bench"))
import inference_bench  # noqa: E402  pylint: disable=wrong-import-position

RATE = 50


class BenchInference(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="walle-bench-inference-")
        self.addCleanup(folder.cleanup)
        options = argparse.Namespace(build=os.path.dirname(os.environ["WALLE_BIN"]), work=folder.name, out=os.devnull)
        self.bench = inference_bench.Bench(options)
        self.addCleanup(self.bench.close)
        self.server = self.bench.ours("din")
        self.call = self.bench.write_call("din")

    def answered(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        return int(re.search(r'^walle_infer_calls_total\{model="din",version="1",result="ok"\} (\d+)$', text, re.M).group(1))

    def test_calls_are_counted(self):
        outputs = self.bench.one_answer(self.server, "din", self.call)
        self.assertTrue(all(values.size > 0 for values in outputs.values()))
        for rate in (0, RATE):
            before = self.answered()
            result = self.bench.load(self.server, "din", self.call, 1, rate=rate, warm=0)
            self.assertEqual((result["shed"], result["unanswered"]), (0, 0), result)
            self.assertEqual(result["ok"], self.answered() - before, result)
            self.assertGreater(result["ok"], 0)
            self.assertLessEqual(result["p50_us"], result["p99_us"])

    def test_a_model_that_is_not_there(self):
        with self.assertRaises(SystemExit):
            self.bench.load(self.server, "none", self.call, 1, warm=0)


if __name__ == "__main__":
    unittest.main()
