"""A thousand virtual devices under a root: a healthy release converges, the root is rotated in the middle of a run, and a release
that a revoked key signed reaches nobody.

Every device verifies by itself, with the device runtime's own trust code and its own stored state."""
import json
import os
import signal
import subprocess
import unittest

from walle_stack import Stack, wait_until

DEVICES = 1000
FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 50, "min_dwell_s": 0, "max_failure": 0.05}]
GRAY = [{"name": "gray", "kind": "gray", "percent": 4, "min_sample": 10, "min_dwell_s": 0, "max_failure": 0.05}, *FULL]
OPEN = [{**FULL[0], "min_sample": 100000, "max_failure": 1}]  # stays open, whatever is reported
PEOPLE = ("a", "b", "c", "ci", "lead", "new")


class FleetRoot(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway("--set", "rollout.tick_ms=100", "--set", "device.hint_rate_per_s=0", "--set", "device.hint_spread_ms=100")
        path, walle = self.path, self.stack.walle
        for name in PEOPLE:
            walle("key", "new", "--out", path(name + ".key"))
        walle("root", "init", "--out", path("root.1"), "--key", path("a.key"), "--key", path("b.key"), "--member", path("c.key.pub"),
              "--release", path("ci.key.pub"), "--release", path("lead.key.pub"))
        walle("root", "push", path("root.1"))

    def path(self, *names):
        return self.stack.path(*names)

    def start_fleet(self, *arguments, devices=DEVICES, url=None):
        log = open(self.path("fleet.log"), "wb")
        self.addCleanup(log.close)
        self.fleet = self.stack.spawn(
            "walle-fleet-sim", "run", "--devices", str(devices), "--gateway", url or self.stack.gateway.url, "--root",
            self.path("root.1"), "--task", "shop/score", "--hints", "--per-carrier", "100", "--no-live", "--threads", "2", "--out",
            self.path("fleet"), *arguments, stdout=log, stderr=subprocess.STDOUT)

    def log_text(self):
        with open(self.path("fleet.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def stop_fleet(self):
        """Ends the run in order; every oracle must hold. Returns run.json."""
        self.fleet.send_signal(signal.SIGTERM)
        self.assertEqual(self.fleet.wait(60), 0, self.log_text()[-3000:])
        with open(self.path("fleet", "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertTrue(all(oracle["holds"] for oracle in result["oracles"]), result["oracles"])
        return result

    def release(self, number, stages, keys):
        """Builds version 1.0.NUMBER and starts its rollout, signed with these keys. (rollout, manifest)"""
        source, build, file = self.path(f"source{number}"), self.path(f"build{number}"), self.path(f"stages{number}.json")
        os.mkdir(source)
        for name, text in ((os.path.join(source, "task.py"), f"import walle\nwalle.result({number})\n"), (file, json.dumps(stages)),
                           (os.path.join(source, "task.json"),
                            json.dumps({"name": "shop/score", "version": f"1.0.{number}", "entry": "task", "files": ["task.py"]}))):
            with open(name, "w", encoding="utf-8") as out:
                out.write(text)
        self.stack.walle("task", "build", source, "--out", build)
        self.stack.walle("task", "push", build)
        signers = [part for key in keys for part in ("--key", self.path(key + ".key"))]
        run = self.stack.walle("rollout", "start", "shop/score", "--build", build, "--stages", file, *signers, "-o", "json")
        with open(os.path.join(build, "build.json"), encoding="utf-8") as out:
            return json.loads(run.stdout)["id"], json.load(out)["manifest"]

    def counts(self, rollout):
        return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["counts"]

    def await_counts(self, rollout, test, what):
        return wait_until(lambda: test(self.counts(rollout)), 90, f"{what}: {self.counts(rollout)} {self.log_text()[-600:]}")

    def await_everybody(self, rollout):
        self.await_counts(rollout, lambda c: c["succeeded"] >= DEVICES, "every device")

    def version(self, result, manifest):
        """What the ledger has of a version."""
        return next(v for v in result["versions"] if v["manifest"] == manifest)

    def test_a_release_a_rotation_and_a_revoked_key(self):
        self.start_fleet()
        first, one = self.release(1, GRAY, ("ci", "lead"))
        self.await_everybody(first)
        # ci is revoked in the middle of the run. Its release starts at the gateway, which holds no opinion; no device follows.
        self.stack.walle("root", "rotate", self.path("root.1"), "--out", self.path("root.2"), "--key", self.path("a.key"), "--key",
                         self.path("b.key"), "--release", self.path("lead.key.pub"), "--release", self.path("new.key.pub"))
        self.stack.walle("root", "push", self.path("root.2"))
        second, two = self.release(2, OPEN, ("ci", "lead"))
        self.await_counts(second, lambda c: c["failed"] >= DEVICES, "refused by every device")
        self.assertEqual(self.counts(second)["succeeded"], 0)
        self.stack.walle("rollout", "abort", second, "--reason", "signed with a revoked key")
        # The holders of the new root's keys release to everybody.
        third, three = self.release(3, FULL, ("lead", "new"))
        self.await_everybody(third)
        result = self.stop_fleet()
        self.assertEqual(result["trust"]["newest"], 2)
        self.assertEqual(result["trust"]["devices"], [{"root": 2, "devices": DEVICES}])
        # Devices looked at it under root 1, then at the timestamp and so at root 2; they went no further.
        reached = self.version(result, two)
        self.assertEqual((reached["downloaded"], reached["activated"], reached["ran"]), (0, 0, 0), reached)
        for manifest in (one, three):
            self.assertEqual(self.version(result, manifest)["ran"], DEVICES)
        self.assertEqual(self.version(result, three)["current"], DEVICES)
        self.assertIn("root 2 (born with 1) on 1000 of 1000 devices", self.log_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
