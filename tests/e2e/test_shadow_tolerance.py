"""A shadow whose numbers are off in the last digits agrees within the stage's tolerance, on real devices; one that is off by a
tenth does not, and the place is told; without a tolerance nothing may be off."""
import json
import os
import signal
import unittest

from walle_stack import Stack, wait_until

DEVICES = 3
TASK = "shop/score"
SCRIPT = """import walle
walle.result({{"id": walle.device["id"], "scores": [0.25, {value}, 3.0]}})
"""
FULL = {"name": "full", "kind": "full", "min_sample": DEVICES, "min_dwell_s": 0, "max_failure": 0}
SHADOW = {"name": "shadow", "kind": "shadow", "percent": 100, "min_sample": DEVICES, "min_dwell_s": 0, "max_failure": 0}
WITHIN = {"relative": 1e-6, "fields": {"id": {}}}


class ShadowTolerance(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway("--set", "rollout.tick_ms=100", "--set", "device.hint_rate_per_s=0", "--set", "device.hint_spread_ms=100")
        self.trust = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]

    def build(self, version, value):
        folder = self.stack.path("source" + version)
        os.mkdir(folder)
        task = {"name": TASK, "version": version, "entry": "score", "heap_kib": 256, "time_ms": 10000, "every_s": 1, "config": {},
                "files": ["score.py"]}
        for name, text in (("task.json", json.dumps(task)), ("score.py", SCRIPT.format(value=value))):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        out = self.stack.path("build" + version)
        self.stack.walle("task", "build", folder, "--out", out)
        self.stack.walle("task", "push", out)
        return out

    def stages(self, *stages):
        path = self.stack.path("stages.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(list(stages), file)
        return path

    def start(self, folder, *stages, check=True):
        return self.stack.walle("rollout", "start", TASK, "--build", folder, "--key", self.stack.path("key"), "--stages",
                                self.stages(*stages), "-o", "json", check=check)

    def release(self, folder, *stages):
        return json.loads(self.start(folder, *stages).stdout)["id"]

    def start_devices(self):
        for number in range(1, DEVICES + 1):
            log = open(self.stack.path(f"device{number}.log"), "wb")
            self.addCleanup(log.close)
            device = self.stack.spawn("walle-device", "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--dir", self.stack.path(f"device{number}"),
                                      "--id", f"{number:016x}", "--trust", self.trust, "--hints", "--checkin-interval", "2",
                                      stdout=log, stderr=log)
            self.addCleanup(device.send_signal, signal.SIGTERM)

    def ends(self, rollout, end):
        def look():
            state = self.stack.api(f"/api/v1/rollouts/{rollout}")[1]
            return state if state["state"] == end else None
        return wait_until(look, timeout_s=180, what=f"{end}: {self.stack.api(f'/api/v1/rollouts/{rollout}')[1]}")

    def test_what_is_off_and_by_how_much(self):
        good, rebuilt, other = self.build("1.0.0", "0.31"), self.build("2.0.0", "0.31 + 3.1e-8"), self.build("3.0.0", "0.341")
        self.start_devices()
        self.ends(self.release(good, FULL), "completed")

        exact = self.release(rebuilt, SHADOW, FULL)  # exact is what goes without saying
        state = self.ends(exact, "rolled_back")
        self.assertEqual(state["fingerprints"][0]["kind"], "fail_different")
        self.assertRegex(state["fingerprints"][0]["detail"], r"^differs at \.scores\[1\]: 0\.31 vs 0\.31000003")

        tolerant = dict(SHADOW, tolerance=WITHIN)
        plan = self.stack.walle("rollout", "plan", "--stages", self.stages(tolerant, FULL)).stdout
        self.assertIn('; numbers within 0.0001 %; those in "id" exactly', plan)
        off = self.release(other, tolerant, FULL)
        state = self.ends(off, "rolled_back")
        self.assertEqual(state["counts"]["activated"], 0)
        self.assertEqual(len(state["fingerprints"]), 1)  # one place, one cause
        self.assertEqual(state["fingerprints"][0]["detail"], "differs at .scores[1]: 0.31 vs 0.341")
        # The release may have ended before one of them had run it.
        why = [self.stack.walle("device", "why", f"{number:016x}", "--task", TASK).stdout for number in range(1, DEVICES + 1)]
        self.assertTrue(any("differs at .scores[1]: 0.31 vs 0.341" in text for text in why), why)
        self.assertIn("differs at .scores[1]: 0.31 vs 0.341", self.stack.walle("rollout", "status", off, check=False).stdout)
        self.assertIn("differs at .scores[1]: 0.31 vs 0.341", self.stack.walle("rollout", "explain", off, check=False).stdout)
        self.assertEqual(self.stack.walle("rollout", "replay", off, check=False).returncode, 0)

        again = self.build("2.0.1", "0.31 - 3.1e-8")
        close = self.release(again, tolerant, FULL)
        state = self.ends(close, "completed")
        self.assertEqual(state["stages"][0]["counts"]["failed"], 0)
        self.assertEqual(state["stages"][0]["tolerance"], {"absolute": 0.0, "relative": 1e-6,
                                                           "fields": {"id": {"absolute": 0.0, "relative": 0.0}}})

    def test_tolerances_that_make_no_sense(self):
        folder = self.build("1.0.0", "0.31")
        for stage, text in ((dict(FULL, tolerance={"relative": 0.1}), "shadow stage"),
                            (dict(SHADOW, tolerance={"relative": 1.5}), "0 to 1"),
                            (dict(SHADOW, tolerance={"absolute": -1}), "tolerance.absolute: not a number from 0 to"),
                            (dict(SHADOW, tolerance={"absolut": 1}), "tolerance.absolut: unknown field, did you mean absolute?"),
                            (dict(SHADOW, tolerance={"fields": {"a" * 25: {"absolute": 1}}}), "24 bytes"),
                            (dict(SHADOW, tolerance={"fields": {name: {} for name in "abcde"}}), "4 names with the rest"),
                            (dict(SHADOW, tolerance={"fields": {'a"b': {"absolute": 1}}}), "no quote"),
                            (dict(SHADOW, tolerance=1e-6), "tolerance: not an object")):
            run = self.start(folder, stage, FULL, check=False)
            self.assertNotEqual(run.returncode, 0, stage)
            self.assertIn(text, run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
