"""A version that is the one before, through real sockets: one rollout of each cell of bench/rollout_sockets.py goes on, although a tenth of
all runs fails and when that is heard of depends on the outcome; and a version that fails more is stopped."""
import os
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

from walle_stack import BIN, SOURCE

sys.path.insert(0, os.path.join(SOURCE, "bench"))
import rollout_sockets  # noqa: E402

# At a level at which chance stops nobody. With these the rule `sequential` stops the cell `late`.
KIND = {"devices": 300, "failing": 0.1, "alpha": 0.001, "max_failure": 0.3, "window_s": 30}


class NullSockets(unittest.TestCase):
    def test_one_of_each(self):
        with ThreadPoolExecutor(len(rollout_sockets.CELLS)) as pool:
            ends = dict(zip(rollout_sockets.CELLS, pool.map(
                lambda cell: rollout_sockets.play(os.path.dirname(os.path.abspath(BIN)), cell, "logrank", 1, **KIND), rollout_sockets.CELLS)))
        for cell, end in ends.items():
            self.assertFalse(end["stopped"], f"{cell}: {end}")
            trial = end["trial"]
            if trial:  # it has not gone on to the next stage
                self.assertGreater(trial["compared"], 50, cell)
                self.assertGreater(trial["updated"]["failed"] + trial["control"]["failed"], 5, cell)


if __name__ == "__main__":
    unittest.main(verbosity=2)
