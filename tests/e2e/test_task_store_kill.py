#!/usr/bin/env python3
"""kill -9 of a process that saves a task's store, at random moments, 60 times, on the LMDB store: what the next start finds is one
save, whole; none older than what was durable, none that was not about to be made. WALLE_TEST_SEED changes the draw."""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

CHILD = os.path.join(os.environ["WALLE_BIN"], "..", "tests", "store_child")
SEED = int(os.environ.get("WALLE_TEST_SEED", "20261130"))
KILLS = int(os.environ.get("WALLE_TEST_KILLS", "60"))


class TestTaskStoreKill(unittest.TestCase):
    def life(self, folder, seconds):
        """What one process said until it was killed: found, about to be saved, durable."""
        found, begun, durable = None, 0, 0
        process = subprocess.Popen([CHILD, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        timer = None
        for line in process.stdout:
            kind, *numbers = line.split()
            if not line.endswith(b"\n"):
                break
            number = int(numbers[0])
            if kind == b"F":  # it is up: the clock runs from here
                found, begun, durable = number, number, number
                timer = threading.Timer(seconds, process.kill)
                timer.start()
            elif kind == b"P":
                begun = number
            elif kind == b"A":
                durable = number
        said = process.stderr.read().decode()
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.wait(), -9, said)
        timer.cancel()
        return found, begun, durable

    def test_what_is_found_is_one_save_whole(self):
        print("seed", SEED, file=sys.stderr)
        draw = random.Random(SEED)
        folder = tempfile.mkdtemp(prefix="walle-store-kill-")
        self.addCleanup(shutil.rmtree, folder)
        begun, durable, cut = 0, 0, 0
        for _ in range(KILLS):
            found, next_begun, next_durable = self.life(folder, draw.uniform(0.002, 0.1))
            self.assertLessEqual(durable, found)
            self.assertLessEqual(found, begun)
            cut += begun > durable
            begun, durable = next_begun, next_durable
        self.assertGreater(durable, KILLS)  # it did save
        self.assertGreater(cut, 0)  # and kills fell between


if __name__ == "__main__":
    unittest.main()
