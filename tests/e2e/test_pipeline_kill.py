#!/usr/bin/env python3
"""kill -9 of a process that records, at random moments, 200 times, on the LMDB store.

The child says what it does through a pipe before it can be durable, and what is durable after it is (the log is ours,
not the store's). The next start of it reads the store. For every kill:
- what is stored is a prefix of what was recorded, at least as long as what was acknowledged;
- what is lost came within DEV_COLLECT_AGE_MS before the last step the child finished, by its own clock;
- every lost event lies in a gap that the next start declares, and no stored one does;
- a feature of a high class that was acknowledged is there.
WALLE_TEST_SEED changes the draw, WALLE_TEST_KILLS the number.
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

CHILD = os.path.join(os.environ["WALLE_BIN"], "..", "tests", "pipeline_child")
SEED = int(os.environ.get("WALLE_TEST_SEED", "20261121"))
KILLS = int(os.environ.get("WALLE_TEST_KILLS", "200"))
AGE_US = 2000 * 1000  # DEV_COLLECT_AGE_MS
LANES = 4


class Life:
    """One process: what it said until it was killed."""

    def __init__(self, folder, first, pause_us, seconds):
        self.gaps, self.stored, self.events = [], [], []
        self.acknowledged, self.step_us, self.high, self.feature = 0, 0, 0, None
        self.process = subprocess.Popen([CHILD, folder, str(first), str(pause_us)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        timer = None
        for line in self.process.stdout:
            self.take(line)
            if timer is None and self.feature is not None:  # it is up: the clock runs from here
                timer = threading.Timer(seconds, self.process.kill)
                timer.start()
        self.errors = self.process.stderr.read().decode()
        self.process.stdout.close()
        self.process.stderr.close()
        self.code = self.process.wait()
        if timer is not None:
            timer.cancel()

    def take(self, line):
        if not line.endswith(b"\n"):
            return  # cut by the kill
        kind, *numbers = line.split()
        numbers = [int(n) for n in numbers]
        if kind == b"G":
            self.gaps.append(numbers[:2])
        elif kind == b"B":
            self.stored.append(numbers[:3])
        elif kind == b"F":
            self.feature = numbers[0]
        elif kind == b"E":
            self.events.append(numbers)
        elif kind == b"A":
            self.acknowledged = max(self.acknowledged, numbers[0])
            self.step_us = numbers[1]
        elif kind == b"H":
            self.high = numbers[0]


class Lane:
    """Lives in one folder, one after the other."""

    def __init__(self, number, kills):
        self.random = random.Random("%d %d" % (SEED, number))
        self.folder = tempfile.mkdtemp(prefix="walle-pipeline-kill-")
        self.kills = kills
        self.wrong, self.lost, self.recorded, self.oldest_us = [], 0, 0, 0

    def run(self):
        try:
            before = None
            for _ in range(self.kills + 1):
                first = before.events[0][0] if before is not None and before.events else 2 ** 63
                pause = self.random.choice([200, 1000, 5000, 20000])
                now = Life(self.folder, first, pause, self.random.uniform(0.002, 0.25))
                if now.code != -9 or now.feature is None:
                    self.wrong.append("the child ended with %d: %s" % (now.code, now.errors[-2000:]))
                    return
                if before is not None:
                    self.compare(before, now)
                before = now
        finally:
            shutil.rmtree(self.folder)

    def compare(self, before, now):
        said = [event[:3] for event in before.events]
        kept = now.stored
        if kept != said[:len(kept)]:
            self.wrong.append("stored is no prefix of recorded: %s, %s" % (kept[-3:], said[len(kept) - 3:len(kept) + 1]))
        durable = sum(1 for event in said if event[0] <= before.acknowledged)
        if len(kept) < durable:
            self.wrong.append("%d events acknowledged, %d stored" % (durable, len(kept)))
        for seq, _, _, arrived in before.events[len(kept):]:
            self.oldest_us = max(self.oldest_us, before.step_us - arrived)
            if arrived <= before.step_us - AGE_US:
                self.wrong.append("event %d came %d us before the last step and is lost" % (seq, before.step_us - arrived))
            if not any(gap[0] <= seq < gap[0] + gap[1] for gap in now.gaps):
                self.wrong.append("event %d is lost and in no gap of %s" % (seq, now.gaps))
        if kept and any(gap[0] <= kept[-1][0] for gap in now.gaps):
            self.wrong.append("a gap covers stored events: %s, %s" % (now.gaps, kept[-1]))
        if now.feature < before.high:
            self.wrong.append("feature %d acknowledged, %d stored" % (before.high, now.feature))
        self.lost += len(said) - len(kept)
        self.recorded += len(said)


class TestPipelineKill(unittest.TestCase):
    def test_nothing_acknowledged_is_lost(self):
        print("seed", SEED, file=sys.stderr)
        started = time.time()
        lanes = [Lane(number, KILLS // LANES) for number in range(LANES)]
        threads = [threading.Thread(target=lane.run) for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wrong = [text for lane in lanes for text in lane.wrong]
        recorded, lost = sum(lane.recorded for lane in lanes), sum(lane.lost for lane in lanes)
        print("%d kills in %.0f s: %d events recorded, %d lost, the oldest %.0f ms before the last step (limit %d)"
              % (KILLS, time.time() - started, recorded, lost, max(lane.oldest_us for lane in lanes) / 1000, AGE_US // 1000),
              file=sys.stderr)
        self.assertEqual(wrong[:5], [])
        self.assertGreater(recorded, 10 * KILLS)
        self.assertGreater(lost, 0)  # kills did fall between commits


if __name__ == "__main__":
    unittest.main()
