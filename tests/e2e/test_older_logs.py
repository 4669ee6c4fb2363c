"""Logs of older gateways: a store whose rollouts and lines are those of before is served, and `walle rollout replay` finds every verdict
again by the rule that its rollouts keep."""
import json
import os
import shutil
import subprocess
import sys
import unittest

import raw_device
from walle_stack import SOURCE, Stack, program, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests"))
from hostile.invented_reports import CRASHED, RAN_WELL, report  # noqa: E402

SCRIPT = "import walle\nwalle.result(1)\n"
TASK = "older"
DEVICES = range(1, 9)
# Everybody is asked, so that who is under way decides nothing: that is what older rules did not know.
FULL = {"name": "full", "kind": "full", "min_sample": len(DEVICES), "max_failure": 0.2, "min_dwell_s": 0}
WENT_BACK = (4,)
VERSIONS = ((5, 11), (5, 10), (4, 9), (3, 8))  # of lines, and of the releases that were stored with them


class OlderLogs(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.seqs = {}
        self.stack.start_hasty_gateway()
        self.credentials = self.stack.enrol(DEVICES)
        for device in DEVICES:
            status, _ = self.stack.post("/v1/checkin", device, ("walle-credential", self.credentials[device]),
                                  ("walle-profile", raw_device.profile(os="android")))
            self.assertIn(status, (200, 204))

    def say(self, device, rollout, kinds):
        first = self.seqs.get(device, 1)
        status, _ = self.stack.post("/v1/report", device, ("walle-credential", self.credentials[device]),
                              body=report(device, int(rollout, 16), kinds, first=first))
        self.assertEqual(status, 204)
        self.seqs[device] = first + len(kinds)

    def wait_state(self, id_, *states):
        return wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{id_}")[1]["state"] in states, what=" or ".join(states))

    def replay(self, id_):
        return json.loads(self.stack.walle("rollout", "replay", id_, "-o", "json").stdout)

    def test_every_verdict_is_found_again(self):
        passed = self.stack.release(TASK, 1, SCRIPT, [FULL])
        for device in DEVICES:
            self.say(device, passed, RAN_WELL)
        self.wait_state(passed, "completed")
        failed = self.stack.release(TASK, 2, SCRIPT, [FULL])
        for device in DEVICES:
            self.say(device, failed, CRASHED if device > 5 else RAN_WELL)
        self.wait_state(failed, "rolling_back")
        for device in DEVICES:
            self.say(device, failed, WENT_BACK)
        self.wait_state(failed, "rolled_back")
        now = {id_: self.replay(id_) for id_ in (passed, failed)}
        for id_, found in now.items():
            self.assertEqual(found["differences"], [], id_)
            self.assertGreater(found["records"], 2)
        folder, kept = self.stack.path("gateway"), self.stack.path("kept")
        self.stack.gateway.kill()
        shutil.copytree(folder, kept)
        for lines, releases in VERSIONS:
            shutil.rmtree(folder)
            shutil.copytree(kept, folder)
            run = subprocess.run([program("older_store"), folder, str(lines), str(releases), TASK], capture_output=True, text=True,
                                 check=False)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.stack.start_hasty_gateway(again=True)
            for id_, was in now.items():
                found = self.replay(id_)
                self.assertEqual((found["differences"], found["records"]), ([], was["records"]), f"lines {lines}, {id_}")
            self.assertTrue(self.stack.api(f"/api/v1/rollouts/{failed}")[1]["state"] == "rolled_back")
            # Another limit gives another verdict: it is judged again, not read.
            run = self.stack.walle("rollout", "replay", failed, "--threshold", "0.9", "-o", "json", check=False)
            self.assertNotEqual(json.loads(run.stdout)["differences"], [])
            self.stack.gateway.kill()


if __name__ == "__main__":
    unittest.main()
