"""The shadow stage with real programs: a version that differs on some devices is stopped before it is in charge anywhere, one
that agrees goes on to everybody; what it costs is judged too; the command shows it."""
import json
import os
import signal
import subprocess
import unittest

from walle_stack import Stack, wait_until

DEVICES = 300
SCRIPT = """import walle
old = walle.device["os"] == "android" and int(walle.device["os_version"]) < 13
walle.result({{"score": sum(range(100)), "id": walle.device["id"]{more}}})
"""
FULL = {"name": "full", "kind": "full", "min_sample": 250, "min_dwell_s": 0, "max_failure": 0.05}
SHADOW = {"name": "shadow", "kind": "shadow", "percent": 40, "min_sample": 60, "min_dwell_s": 1, "max_failure": 0.02}


class Shadow(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway("--set", "rollout.tick_ms=100", "--set", "device.hint_rate_per_s=0", "--set", "device.hint_spread_ms=100")
        self.public_key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]

    def build(self, version, more="", before="", every_s=1):
        folder = self.stack.path("source" + version)
        os.mkdir(folder)
        task = {"name": "shop/score", "version": version, "entry": "score", "heap_kib": 256, "time_ms": 10000, "every_s": every_s, "config": {},
                "files": ["score.py"]}
        for name, text in (("task.json", json.dumps(task)), ("score.py", before + SCRIPT.format(more=more))):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        out = self.stack.path("build" + version)
        self.stack.walle("task", "build", folder, "--out", out)
        self.stack.walle("task", "push", out)
        with open(os.path.join(out, "build.json"), encoding="utf-8") as file:
            return out, json.load(file)["manifest"]

    def stages(self, *stages):
        path = self.stack.path("stages.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(list(stages), file)
        return path

    def release(self, folder, *stages):
        run = self.stack.walle("rollout", "start", "shop/score", "--build", folder, "--key", self.stack.path("key"), "--stages",
                               self.stages(*stages), "-o", "json")
        return json.loads(run.stdout)["id"]

    def start_fleet(self, *arguments):
        log = open(self.stack.path("fleet.log"), "wb")
        self.addCleanup(log.close)
        return self.stack.spawn("walle-fleet-sim", "run", "--devices", str(DEVICES), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--trust",
                                self.public_key, "--task", "shop/score", "--until-stopped", "--no-live", "--threads", "2", "--hints", "--per-carrier", "100",
                                "--checkin-interval", "2", "--out", self.stack.path("fleet"), *arguments, stdout=log, stderr=subprocess.STDOUT)

    def stop_fleet(self, fleet, status=0):
        fleet.send_signal(signal.SIGTERM)
        code = fleet.wait(60)
        with open(self.stack.path("fleet.log"), encoding="utf-8", errors="replace") as file:
            self.assertEqual(code, status, file.read()[-3000:])
        with open(self.stack.path("fleet", "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertTrue(all(oracle["holds"] for oracle in result["oracles"]), result["oracles"])
        return {version["manifest"]: version for version in result["versions"]}

    def await_rollout(self, rollout, what, test):
        def look():
            status, state = self.stack.api(f"/api/v1/rollouts/{rollout}")
            return state if status == 200 and test(state) else None
        return wait_until(look, timeout_s=180, what=f"{what}: {self.stack.api(f'/api/v1/rollouts/{rollout}')[1]}")

    def test_a_version_that_differs_is_in_charge_nowhere(self):
        good, good_hash = self.build("1.0.0")
        bad, bad_hash = self.build("2.0.0", more=', "odd": old')
        same, same_hash = self.build("3.0.0", before="# the same, said otherwise\n")
        self.assertEqual(len({good_hash, bad_hash, same_hash}), 3)
        fleet = self.start_fleet("--bad-version", "2.0.0")
        first = self.release(good, FULL)
        self.await_rollout(first, "version 1 everywhere", lambda r: r["counts"]["succeeded"] >= DEVICES and r["state"] == "completed")

        plan = self.stack.walle("rollout", "plan", "--stages", self.stages(dict(SHADOW, max_slowdown=20), FULL))
        self.assertIn("at most 20 times the time", plan.stdout)
        second = self.release(bad, SHADOW, FULL)
        state = self.await_rollout(second, "the end of version 2", lambda r: r["state"] == "rolled_back")
        self.assertEqual(state["stage"]["name"], "shadow")
        self.assertEqual((state["counts"]["activated"], state["counts"]["rolled_back"]), (0, 0))
        self.assertGreater(state["counts"]["failed"], 1)
        self.assertEqual(state["fingerprints"][0]["kind"], "fail_different")
        shown = self.stack.walle("rollout", "status", second, check=False)
        self.assertNotEqual(shown.returncode, 0)  # it failed: a pipeline stops here
        self.assertRegex(shown.stdout, r"shadow +40 %")

        third = self.release(same, dict(SHADOW, max_memory=3), FULL)
        state = self.await_rollout(third, "version 3 everywhere", lambda r: r["stages"][-1]["counts"]["succeeded"] >= DEVICES and r["state"] == "completed")
        stages = {stage["name"]: stage["counts"] for stage in state["stages"]}
        self.assertGreaterEqual(stages["shadow"]["succeeded"], 60)
        self.assertEqual((stages["shadow"]["activated"], stages["shadow"]["failed"]), (0, 0))
        self.assertEqual(stages["full"]["activated"], DEVICES)  # also those that had it as a shadow
        versions = self.stop_fleet(fleet)
        self.assertEqual(versions[bad_hash]["activated"] if bad_hash in versions else 0, 0)
        self.assertEqual(versions[bad_hash]["ran"] if bad_hash in versions else 0, 0)
        self.assertEqual(versions[same_hash]["current"], DEVICES)

    def test_a_version_that_is_heavy_or_slow(self):
        good, _ = self.build("1.0.0", every_s=0)
        heavy, _ = self.build("2.0.0", before="waste = bytearray(100000)\n", every_s=0)
        slow, _ = self.build("3.0.0", before="for i in range(300000): pass\n", every_s=0)
        fleet = self.start_fleet()
        first = self.release(good, FULL)
        self.await_rollout(first, "version 1 everywhere", lambda r: r["counts"]["succeeded"] >= DEVICES and r["state"] == "completed")
        for folder, bound, kind in ((heavy, {"max_memory": 2}, "fail_heavy"), (slow, {"max_slowdown": 2}, "fail_slow")):
            rollout = self.release(folder, dict(SHADOW, **bound), FULL)
            state = self.await_rollout(rollout, kind, lambda r: r["state"] == "rolled_back")
            self.assertEqual(state["counts"]["activated"], 0)
            self.assertEqual(state["fingerprints"][0]["kind"], kind)
        self.stop_fleet(fleet, status=1)  # what was rolled back did not pass

    def test_ladders_that_make_no_sense(self):
        folder, _ = self.build("1.0.0")
        for stages, text in (([{"name": "s", "kind": "shadow"}, FULL], "percent"),
                             ([dict(SHADOW, max_slowdown=0.5), FULL], "max_slowdown"),
                             ([dict(SHADOW, max_memory=101), FULL], "max_memory"),
                             ([dict(FULL, max_memory=2)], "max_memory"),
                             ([FULL, SHADOW], "stages"),
                             ([SHADOW], "stages")):
            run = self.stack.walle("rollout", "start", "shop/score", "--build", folder, "--key", self.stack.path("key"), "--stages",
                                   self.stages(*stages), check=False)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(text, run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
