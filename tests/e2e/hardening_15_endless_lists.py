"""Point 15: a gateway whose lists have no end keeps no command at it: a `next` that does not move on, or that came before, is an error
which says so."""
import itertools
import json
import subprocess
import unittest

import evil_gateway
from walle_stack import Stack, program

TIMEOUT_S = 10  # only ends a hang
ID = "00" * 8
NUMBERS = {"the same": [5], "back": [7, 5, 3, 1], "in turns": [5, 6], "none": [0], "below": [-1]}
PLACES = {"the same": ["0000000000000005.0"], "in turns": ["0000000000000005.0", "0000000000000006.0"],
          "later": [f"{number:016x}.0" for number in (1, 2, 3, 4, 5, 3, 4)]}
HASHES = {what: [place[:16] * 4 for place in places] for what, places in PLACES.items()}
BY_NUMBER = [("rollout", "explain", ID), ("rollout", "replay", ID)]
BY_TEXT = [("tunnel", "export"), ("tunnel", "tail", "--follow")]
BY_HASH = [("release", "kill", "abcdabcdabcd", "--reason", "x")]
STAGES = [{"name": "full", "kind": "full", "percent": 100, "rule": "threshold"}]


class EndlessLists(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.addClassCleanup(cls.stack.__exit__, None, None, None)
        cls.evil = evil_gateway.Evil(cls.stack)

    def run_command(self, command, places):
        """Of all lists but the innermost one, the answer is whole; that one goes on at `places`, again and again."""
        going = itertools.chain(places, itertools.cycle(places[-2:]))

        def hook(request, _):
            path = request.path.partition("?")[0]
            if path == "/api/v1/tasks":
                return 200, json.dumps({"items": [{"name": "shop/x"}], "next": None}).encode()
            if path.endswith(ID):
                return 200, json.dumps({"id": ID, "state": "running", "stages": STAGES, "counts": {}}).encode()
            return 200, json.dumps({"items": [], "next": next(going), "more": True}).encode()

        self.evil.requests.clear()
        self.evil.hook = hook
        return subprocess.run([program("walle"), *command, "--gateway", self.evil.url, "--token", "x" * 43], capture_output=True,
                              timeout=TIMEOUT_S, stdin=subprocess.DEVNULL, text=True, check=False)

    def ended(self, commands, kinds):
        for command in commands:
            for what, places in kinds.items():
                with self.subTest(command=command, next=what):
                    run = self.run_command(command, places)
                    self.assertEqual(run.returncode, 4, run)
                    self.assertIn(f"{self.evil.url} never ends this list: its \"next\" ", run.stderr)
                    self.assertLess(len(self.evil.requests), 40)

    def test_by_number(self):
        self.ended(BY_NUMBER, NUMBERS)

    def test_audit(self):
        run = self.run_command(("audit", "verify"), [5])
        self.assertEqual(run.returncode, 1, run)
        self.assertIn("the audit log is broken at entry 1: the list goes on and does not have it", run.stderr)

    def test_by_place(self):
        self.ended(BY_TEXT, PLACES)

    def test_by_hash(self):
        self.ended(BY_HASH, HASHES)


if __name__ == "__main__":
    unittest.main(verbosity=2)
