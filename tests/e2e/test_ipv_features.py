#!/usr/bin/env python3
"""Item-page-view features: what the device core computes is what a batch job finds in the raw logs, and that test can fail.

WALLE_IPV_VISITS asks for more visits than the default 2,000 (bench/ipv/oracle.py does a million).
"""
import json
import os
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

BIN = os.environ.get("WALLE_BIN", "build/dev/bin")
SOURCE = os.environ.get("WALLE_SOURCE", ".")
sys.path.insert(0, os.path.join(SOURCE, "bench", "ipv"))
import oracle  # noqa: E402

WORKER = os.path.join(BIN, "ipv_worker")
VISITS_A_DEVICE = 127  # about, at 40 sessions


def span(seed, visits):
    return [str(value) for value in (seed, 0, max(1, visits // VISITS_A_DEVICE + 1), 40)]


class Features(unittest.TestCase):
    def test_equal_to_the_batch(self):
        wanted = int(os.environ.get("WALLE_IPV_VISITS", "2000"))
        batch, given, differing, feature_bytes = oracle.compare(WORKER, span(20, wanted))
        print(f"seed 20: {batch.visits} visits, {batch.events / batch.visits:.2f} events and "
              f"{batch.raw_bytes / batch.visits:.0f} bytes each, features of {feature_bytes / given:.0f} bytes")
        self.assertEqual(differing, 0)
        self.assertEqual(batch.visits, given)
        self.assertGreaterEqual(given, wanted * 9 // 10)
        # What the generator is calibrated to.
        self.assertAlmostEqual(batch.events / batch.visits, 19.3, delta=1.0)
        self.assertAlmostEqual(batch.raw_bytes / batch.visits, 21200, delta=1200)
        self.assertAlmostEqual(feature_bytes / given, 1300, delta=80)

    def test_the_task_gives_the_same(self):
        task = ([os.path.join(BIN, "ipv_vm"), "features"], [os.path.join(SOURCE, "conf", "tasks", "ipv_events")])
        batch, given, differing, _ = oracle.compare(WORKER, span(22, 400), task)
        self.assertEqual((differing, batch.visits), (0, given))
        self.assertGreater(given, 300)

    def test_the_task_gives_the_encoding(self):
        task = [os.path.join(BIN, "ipv_vm"), "encodings", *span(25, 400), os.path.join(SOURCE, "conf", "tasks", "ipv_events")]
        core = [os.path.join(BIN, "ipv_encoder"), "pairs", "projection", *span(25, 400)]
        given, pairs = (subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout for command in (task, core))
        self.assertEqual(len(given) // 128, len(pairs) // (4 * (32 * 16 + 32)))
        self.assertGreater(len(given) // 128, 300)
        for i, (ours, line) in enumerate(zip(struct.iter_unpack("<32f", given), struct.iter_unpack("<544f", pairs))):
            for a, b in zip(ours, line[512:]):
                self.assertAlmostEqual(a, b, delta=2e-5 * max(1.0, *map(abs, line[512:])), msg=f"visit {i}")

    def test_stream_functions_give_the_same(self):
        run = subprocess.run([os.path.join(BIN, "ipv_streams"), *span(24, 1000)], stdout=subprocess.PIPE)
        found = json.loads(run.stdout)
        self.assertEqual((run.returncode, found["differing"]), (0, 0), found)
        self.assertGreater(found["times"]["visits"], 800)

    def test_the_encoding(self):
        script = os.path.join(SOURCE, "bench", "models", "ipv_gru.py")
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "ipv_gru.onnx")
            subprocess.run([sys.executable, script, model], check=True)
            encoder = [os.path.join(BIN, "ipv_encoder"), "pairs", model]
            pairs = subprocess.run([*encoder, *span(23, 150)], check=True, stdout=subprocess.PIPE).stdout
            checked = subprocess.run([sys.executable, script, "--check"], input=pairs, stdout=subprocess.PIPE)
        found = json.loads(checked.stdout)
        print(found)
        self.assertEqual(checked.returncode, 0, found)
        self.assertGreater(found["encodings"], 100)

    def test_a_wrong_feature_is_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            liar = os.path.join(folder, "liar")
            with open(liar, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\n"{os.path.abspath(WORKER)}" "$@" | if [ "$1" = log ]; then cat; '
                           'else sed \'7s/"turns":/"turns":9/; 9d\'; fi\n')
            os.chmod(liar, stat.S_IRWXU)
            _, given, differing, _ = oracle.compare(liar, span(21, 200), report=0)
        self.assertEqual(differing, 2, "one changed, one left out")
        self.assertGreater(given, 100)


if __name__ == "__main__":
    unittest.main()
