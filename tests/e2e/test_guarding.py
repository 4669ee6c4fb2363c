"""A rollout's life behind its last stage, over real sockets: devices that fail late take it back, who is under way is no failure, a failed
stage is held, a passed one waits for a person, and a guard ends."""
import json
import os
import subprocess
import sys
import unittest

import raw_device
from walle_stack import SOURCE, Stack, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests"))
from hostile.invented_reports import CRASHED, RAN_WELL, report  # noqa: E402

SCRIPT = "import walle\nwalle.result(1)\n"
FULL = {"name": "full", "kind": "full", "min_sample": 1, "max_failure": 0.2, "min_dwell_s": 0}
DOWNLOADED, WENT_BACK = (1,), (4,)
DEVICES = range(1, 9)


class Guarding(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_hasty_gateway()
        self.releases = 0
        self.seqs = {}
        self.credentials = self.stack.enrol(DEVICES)
        for device in DEVICES:
            self.come(device)

    def come(self, device):
        status, _ = self.stack.post("/v1/checkin", device, ("walle-credential", self.credentials[device]),
                              ("walle-profile", raw_device.profile(os="android")))
        self.assertIn(status, (200, 204))

    def say(self, device, rollout, kinds):
        first = self.seqs.get(device, 1)
        status, _ = self.stack.post("/v1/report", device, ("walle-credential", self.credentials[device]),
                              body=report(device, int(rollout, 16), kinds, first=first))
        self.assertEqual(status, 204)
        self.seqs[device] = first + len(kinds)

    def release(self, *more, stages=(FULL,)):
        self.releases += 1
        return self.stack.release(f"late-{self.releases}", self.releases, SCRIPT, list(stages), more=more)

    def rollout(self, id_):
        return self.stack.api(f"/api/v1/rollouts/{id_}")[1]

    def wait_state(self, id_, *states):
        return wait_until(lambda: (lambda now: now if now["state"] in states else None)(self.rollout(id_)), what=" or ".join(states))

    def watch(self, id_, *more):
        run = self.stack.walle("rollout", "status", id_, "--watch", "--timeout", "120", *more, check=False)
        return run.returncode, run.stdout

    def replays(self, id_):
        self.assertIn(" 0 differ", self.stack.walle("rollout", "replay", id_).stdout)

    def metric(self, name):
        text = self.stack.api("/metrics")[1]
        return float(next(line for line in text.splitlines() if line.startswith(name + " ")).split()[1])

    def test_failures_behind_the_last_stage_take_the_rollout_back(self):
        """One of eight ran well, so that the last stage passed; seven failed later. That was `pass`, 0.00 %, exit 0, and no page."""
        id_ = self.release("--guard", "86400")
        self.say(1, id_, RAN_WELL)
        self.wait_state(id_, "guarding")
        wait_until(lambda: self.rollout(id_)["reason"] == "guarding", what="a look")
        wait_until(lambda: self.rollout(id_)["guard"]["outstanding"] == len(DEVICES) - 1, what="the others")
        self.assertEqual(self.watch(id_)[0], 0)  # the last stage passed
        watched = self.stack.spawn("walle", "rollout", "status", id_, "--gateway", self.stack.gateway.url,
                                   "--watch", "--until", "completed", "--timeout", "120", stdout=subprocess.PIPE, text=True)
        self.assertIn("guarding: 7 devices outstanding, about 24 hours left at most", self.stack.walle("rollout", "status", id_).stdout)
        self.stack.gateway.kill()  # it is guarded over a crash
        self.stack.start_hasty_gateway(again=True)
        for device in DEVICES[1:]:
            self.say(device, id_, CRASHED)
        self.wait_state(id_, "rolling_back")
        self.say(1, id_, WENT_BACK)
        state = self.wait_state(id_, "rolled_back")
        self.assertEqual((state["verdict"], state["paged"], state["guard"]), ("fail", True, None))
        self.assertEqual(watched.wait(60), 1, watched.stdout.read())
        self.assertEqual((self.metric("walle_pages_total"), self.metric("walle_rollouts_rolled_back_total")), (1, 1))
        log = [(line["what"], line["state"]) for line in json.loads(self.stack.walle("rollout", "log", id_, "-o", "json").stdout)["items"]]
        self.assertIn(("guard", "guarding"), log)
        self.assertIn(("roll_back", "rolling_back"), log)
        self.assertIn(f"rollout {id_} is rolling_back", self.stack.gateway.log_text())
        self.replays(id_)

    def test_failures_behind_the_guard_are_said(self):
        """A person ended the guard; seven of eight fail after it: in the status, the log and a metric, until it is taken back."""
        id_ = self.release("--guard", "86400")
        self.say(1, id_, RAN_WELL)
        self.wait_state(id_, "guarding")
        self.stack.walle("rollout", "promote", id_)
        self.wait_state(id_, "completed")
        self.assertIsNone(self.rollout(id_)["late"])
        self.assertEqual(self.metric("walle_rollouts_failing_late"), 0)
        for device in DEVICES[1:]:
            self.come(device)
            self.say(device, id_, CRASHED)
        wait_until(lambda: self.metric("walle_rollouts_failing_late") == 1, what="the metric")
        self.assertEqual(self.rollout(id_)["late"], {"failed": 7, "completed": 8})
        self.assertIn("FAILS LATE: 7 of 8 that ran it failed", self.stack.walle("rollout", "status", id_, check=False).stdout)
        self.assertRegex(self.stack.gateway.log_text(), rf"rollout {id_}: it is completed, and [1-7] of [2-8] devices failed")
        self.stack.walle("rollout", "undo", id_, "--reason", "it fails")
        wait_until(lambda: self.metric("walle_rollouts_failing_late") == 0, what="the end of it")

    def test_promoted_with_devices_under_way(self):
        """They were said to be silent, and failed, as soon as nobody judged them any more."""
        id_ = self.release(stages=[{**FULL, "min_sample": 100}])
        for device in DEVICES:
            self.say(device, id_, DOWNLOADED)
        wait_until(lambda: self.rollout(id_)["counts"]["downloaded"] == len(DEVICES), what="their reports")
        self.stack.walle("rollout", "promote", id_)
        state = self.wait_state(id_, "completed")
        self.assertEqual((state["counts"]["under_way"], state["counts"]["timed_out"]), (len(DEVICES), 0))
        text = self.stack.walle("rollout", "status", id_).stdout
        self.assertIn(f"{len(DEVICES)} under way", text)
        self.assertNotIn("not answered in time", text)
        self.replays(id_)

    def test_a_pass_waits_for_answers(self):
        id_ = self.release()
        for device in DEVICES[1:]:
            self.say(device, id_, DOWNLOADED)
        self.say(1, id_, RAN_WELL)
        wait_until(lambda: self.rollout(id_)["reason"] == "under_way", what="under_way")
        for device in DEVICES[1:]:
            self.say(device, id_, RAN_WELL[1:])
        self.wait_state(id_, "completed")
        self.replays(id_)

    def test_a_failed_stage_is_held(self):
        id_ = self.release("--guard", "86400", "--on-fail", "hold")
        self.say(1, id_, RAN_WELL)
        self.wait_state(id_, "guarding")
        for device in DEVICES[1:]:
            self.say(device, id_, CRASHED)
        state = self.wait_state(id_, "paused")
        self.assertEqual((state["stage_failed"], state["paged"], state["verdict"]), (True, True, "fail"))
        self.assertEqual(self.watch(id_)[0], 1)  # it waits for a person
        self.assertEqual((self.metric("walle_pages_total"), self.metric("walle_rollouts_held_total")), (1, 1))
        self.assertEqual(self.stack.walle("rollout", "resume", id_, check=False).returncode, 4)
        self.stack.walle("rollout", "abort", id_, "--reason", "enough")
        self.wait_state(id_, "rolling_back", "rolled_back")
        self.replays(id_)

    def test_a_passed_stage_waits_for_a_person(self):
        id_ = self.release(stages=[{**FULL, "kind": "gray", "percent": 100, "name": "gray", "on_pass": "pause"}, FULL])
        for device in DEVICES:
            self.say(device, id_, RAN_WELL)
        state = self.wait_state(id_, "paused")
        self.assertEqual((state["passed"], state["reason"]), (True, "stage_passed"))
        self.assertIn(f"walle rollout promote {id_}", self.stack.walle("rollout", "explain", id_).stdout)
        refused = self.stack.walle("rollout", "resume", id_, check=False)
        self.assertEqual(refused.returncode, 4)
        self.assertIn("promote goes on", refused.stderr)
        self.stack.walle("rollout", "promote", id_)
        state = self.rollout(id_)
        self.assertEqual((state["state"], state["stage"]["name"]), ("running", "full"))
        self.replays(id_)

    def test_a_guard_ends(self):
        """With the last answer, when it is over, or when a person says so."""
        ids = [self.release("--guard", guard) for guard in ("86400", "2", "86400")]
        for id_ in ids:
            self.say(1, id_, RAN_WELL)
        self.wait_state(ids[0], "guarding")
        for device in DEVICES[1:]:
            self.say(device, ids[0], RAN_WELL)
        self.wait_state(ids[2], "guarding")
        self.stack.walle("rollout", "promote", ids[2])
        for id_, reason in zip(ids, ("nobody_outstanding", "guard_over", "promoted")):
            code, text = self.watch(id_, "--until", "completed")
            self.assertEqual((code, self.rollout(id_)["reason"]), (0, reason), text)
            self.replays(id_)
        self.assertEqual((self.metric("walle_rollouts_completed_total"), self.metric("walle_guards_over_total")), (3, 1))


if __name__ == "__main__":
    unittest.main()
