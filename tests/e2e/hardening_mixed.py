"""All attacks at once beside a fleet that takes releases, for a minute: tests/soak/mixed_hostility.py, which runs for an hour as well."""
import os
import sys
import tempfile
import unittest

from walle_stack import SOURCE

sys.path[:0] = [os.path.join(SOURCE, "tests"), os.path.join(SOURCE, "tests", "soak")]
import mixed_hostility  # noqa: E402
from attackers import names  # noqa: E402
from findings import Findings  # noqa: E402

MINUTES, DEVICES = 1, 300


class Mixed(unittest.TestCase):
    def test_a_minute(self):
        folder = tempfile.TemporaryDirectory(prefix="walle-mixed-")
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.environ.pop, "WALLE_TOKEN", None)
        soak = mixed_hostility.Soak(mixed_hostility.options_of(
            ["--minutes", str(MINUTES), "--devices", str(DEVICES), "--build", "asan" if os.environ.get("WALLE_SANITIZE") else "dev", "--out", os.path.join(folder.name, "result.json")]))
        result = soak.run()
        self.assertEqual(result["findings"], [], f"seed {result['seed']}")
        # That it ran at all: each part did its work.
        self.assertEqual([rollout["kind"] for rollout in result["rollouts"][:3]], ["good", "bad", "good"])
        self.assertEqual((result["kills"], result["jumps"]), (1, 1))
        self.assertGreater(result["scripts"]["reported"], 0)
        self.assertGreater(result["healthy"]["answers"]["/v1/checkin 204"], 0)
        self.assertEqual(sorted(result["attacks"]), names())
        for name, counts in result["attacks"].items():
            self.assertGreater(sum(value for key, value in counts.items() if key not in ("starts", "failed")), 0, name)

    def test_a_lost_report_is_found(self):
        row = {"failed": 0, "ran": 9, "downloaded": 9, "activated": 9, "current": 9}
        counts = {"failed": 0, "succeeded": 9, "downloaded": 9, "activated": 9}
        state = {"state": "completed", "counts": counts}
        self.assertEqual(mixed_hostility.differences("good", state, row, 9, True), [])
        for key in counts:
            wrong = {"state": "completed", "counts": {**counts, key: counts[key] + 1}}
            self.assertEqual(len(mixed_hostility.differences("good", wrong, row, 9, True)), 1, key)
        self.assertEqual(len(mixed_hostility.differences("good", {**state, "state": "running"}, row, 9, True)), 1)
        self.assertEqual(len(mixed_hostility.differences("good", state, {**row, "current": 8}, 9, True)), 1)
        bad = {"state": "rolled_back", "counts": {"failed": 3, "succeeded": 2}}
        self.assertEqual(mixed_hostility.differences("bad", bad, {"failed": 3, "ran": 2}, 9, False), [])
        self.assertEqual(len(mixed_hostility.differences("bad", bad, {"failed": 4, "ran": 2}, 9, False)), 1)
        self.assertEqual(len(mixed_hostility.differences("bad", bad, {"failed": 3, "ran": 1}, 9, False)), 1)

    def test_what_sanitizers_say_is_found(self):
        findings = Findings()
        with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
            file.write("fine\n==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x1\n    #0 in f\nb.c:7:1: runtime error: load\n")
            file.flush()
            findings.scan(file.name)
            findings.scan(file.name)
        self.assertEqual([item["count"] for item in findings.items], [2])
        self.assertIn("heap-use-after-free", findings.items[0]["what"])


if __name__ == "__main__":
    unittest.main()
