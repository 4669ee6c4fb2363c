"""The main job with real programs: a good version reaches every device, a bad one is stopped and taken back.

Eight walle-device agents of fixed ids; nothing is left to chance: the bad version's first stage is exactly the slice that
cannot run it.
"""
import json
import os
import re
import subprocess
import unittest

from walle_stack import SOURCE, Stack, program, wait_until

DEVICES = {f"{index:016x}": {"os": "android", "os_version": str(8 + index)} for index in range(1, 9)}  # Android 9 to 16
OLD = [device for device, attrs in DEVICES.items() if int(attrs["os_version"]) < 12]


class Release(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway("--set", "rollout.tick_ms=20")
        self.key = self.stack.path("key")
        self.public = self.stack.walle("key", "new", "--out", self.key).stdout.strip()

    def push(self, name):
        build = self.stack.path(name)
        self.stack.walle("task", "build", os.path.join(SOURCE, "conf/tasks", name), "--out", build)
        self.stack.walle("task", "push", build)
        with open(os.path.join(build, "build.json"), encoding="utf-8") as file:
            return build, json.load(file)["manifest"]

    def start(self, build, stages):
        path = self.stack.path("stages.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(stages, file)
        return json.loads(self.stack.walle("rollout", "start", "ipv", "--build", build, "--key", self.key, "--stages", path, "-o",
                                           "json").stdout)["id"]

    def wake(self, device, public=None):
        """Lets a device do what is to be done; returns (active, previous) version and the counters line."""
        arguments = [program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--dir", self.stack.path("d" + device), "--id",
                     device, "--trust", public or self.public, "--once"]
        for name, value in DEVICES[device].items():
            arguments += ["--attr", f"{name}={value}"]
        run = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        state = re.search(r"state ipv active ([0-9a-f]{64}) previous ([0-9a-f]{64})", run.stdout + run.stderr)
        return (state.groups() if state else (None, None)), run.stderr

    def status(self, rollout):
        return json.loads(self.stack.walle("rollout", "status", rollout, "-o", "json", check=False).stdout)

    def wait_for(self, rollout, what, test):
        return wait_until(lambda: next((r for r in [self.status(rollout)] if test(r)), None), what=what)

    def release_v1(self):
        build, v1 = self.push("ipv")
        rollout = self.start(build, [{"name": "gray", "kind": "gray", "percent": 50, "min_sample": 0, "max_failure": 0.1},
                                     {"name": "full", "kind": "full", "min_sample": 4, "max_failure": 0.1}])
        self.stack.walle("rollout", "promote", rollout, "--reason", "which devices are in the gray half is up to the salt")
        for device in DEVICES:
            self.assertEqual(self.wake(device)[0][0], v1)
        self.wait_for(rollout, "completion", lambda r: r["state"] == "completed")
        return v1, rollout

    def test_good_version_reaches_all_and_bad_one_is_taken_back(self):
        v1, first = self.release_v1()
        done = self.status(first)
        self.assertEqual((done["counts"]["succeeded"], done["counts"]["failed"]), (8, 0))
        task = json.loads(self.stack.walle("task", "get", "ipv").stdout)
        self.assertEqual(task["baseline"]["manifest"], v1)
        device = json.loads(self.stack.walle("device", "get", OLD[0]).stdout)
        self.assertEqual(device["attrs"], DEVICES[OLD[0]])
        self.assertEqual([(o["task"], o["last"]) for o in device["outcomes"]], [("ipv", "ran")])

        build, v2 = self.push("ipv_v2")
        old = [{"attr": "os_version", "op": "<", "value": "12", "type": "version"}]
        rollout = self.start(build, [{"name": "old", "kind": "beta", "audience": old, "min_sample": 3, "max_failure": 0.7},
                                     {"name": "full", "kind": "full", "min_sample": 1, "max_failure": 0.1}])
        self.assertEqual(len(OLD), 3)
        for device in OLD:
            (active, _), said = self.wake(device)
            self.assertEqual(active, v1, "the device went back by itself")
            self.assertIn("failures 1, rollbacks 1", said)
        self.assertEqual(self.stack.walle("rollout", "status", rollout, "--watch", "--timeout", "60", check=False).returncode, 1)
        after = self.wait_for(rollout, "rollback", lambda r: r["state"] == "rolled_back")
        self.assertEqual((after["verdict"], after["counts"]["failed"], after["counts"]["on_version"]), ("fail", 3, 0))
        cause = after["fingerprints"][0]
        self.assertEqual((cause["kind"], cause["devices"]), ("fail_exception", 3))
        self.assertRegex(cause["detail"], r"^KeyError: \d+ \(features\.py:\d+( < \w+\.py:\d+)+\)$")
        self.assertIn(("os_version", "9", 1, 1), [(s["attr"], s["value"], s["completed"], s["failed"]) for s in after["slices"]])
        for device in DEVICES:  # nobody is offered it again
            (active, _), said = self.wake(device)
            self.assertEqual(active, v1)
            self.assertIn("failures 0", said)
        self.assertNotEqual(v1, v2)

    def test_another_signer_moves_nobody(self):
        build, _ = self.push("ipv")
        self.start(build, [{"name": "full", "kind": "full", "min_sample": 1, "max_failure": 0.1}])
        stranger = self.stack.walle("key", "new", "--out", self.stack.path("stranger")).stdout.strip()
        (active, _), said = self.wake("0000000000000001", public=stranger)
        self.assertIsNone(active)
        self.assertIn("runs 0", said)
        self.assertIn("refused offers 1", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
