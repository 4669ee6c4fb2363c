"""A thousand virtual devices under a root: a healthy release converges, the root is rotated in the middle of a run, a release
that a revoked key signed reaches nobody, and an attacker's expired timestamp or repeated answer stops the release and nothing else.

Every device verifies by itself, with the device runtime's own trust code and its own stored state."""
import hashlib
import json
import os
import signal
import subprocess
import threading
import time
import unittest

import evil_gateway as evil
from walle_stack import Stack, program, wait_until

DEVICES = 1000
FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 50, "min_dwell_s": 0, "max_failure": 0.05}]
GRAY = [{"name": "gray", "kind": "gray", "percent": 4, "min_sample": 10, "min_dwell_s": 0, "max_failure": 0.05}, *FULL]
OPEN = [{**FULL[0], "min_sample": 100000, "max_failure": 1}]  # stays open, whatever is reported
FRESHNESS, FROZEN = 209, 211
PEOPLE = ("a", "b", "c", "ci", "lead", "new")


class FleetRoot(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway("--set", "rollout.tick_ms=100", "--set", "device.hint_rate_per_s=0", "--set", "device.hint_spread_ms=100",
                                 "--set", "device.checkin_interval_s=2")
        path, walle = self.path, self.stack.walle
        for name in PEOPLE:
            walle("key", "new", "--out", path(name + ".key"))
        walle("root", "init", "--out", path("root.1"), "--key", path("a.key"), "--key", path("b.key"), "--member", path("c.key.pub"),
              "--release", path("ci.key.pub"), "--release", path("lead.key.pub"))
        walle("root", "push", path("root.1"))

    def path(self, *names):
        return self.stack.path(*names)

    def start_fleet(self, *arguments, devices=DEVICES, url=None, interval=300):
        log = open(self.path("fleet.log"), "wb")
        self.addCleanup(log.close)
        self.fleet = self.stack.spawn(
            "walle-fleet-sim", "run", "--devices", str(devices), "--gateway", url or self.stack.gateway.url, "--root",
            self.path("root.1"), "--task", "shop/score", "--hints", "--per-carrier", "100", "--checkin-interval", str(interval),
            "--retry-base", "100", "--until-stopped", "--no-live", "--threads", "2", "--out", self.path("fleet"), *arguments, stdout=log, stderr=subprocess.STDOUT)

    def log_text(self):
        with open(self.path("fleet.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def stop_fleet(self, status=0):
        """Ends the run in order; every oracle must hold. Returns run.json."""
        self.fleet.send_signal(signal.SIGTERM)
        self.assertEqual(self.fleet.wait(60), status, self.log_text()[-3000:])
        with open(self.path("fleet", "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertTrue(all(oracle["holds"] for oracle in result["oracles"]), result["oracles"])
        return result

    def release(self, number, stages, keys, more=()):
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
        run = self.stack.walle("rollout", "start", "shop/score", "--build", build, "--stages", file, *signers,
                               "--trust-unproven", "-o", "json", *more)
        with open(os.path.join(build, "build.json"), encoding="utf-8") as out:
            return json.loads(run.stdout)["id"], json.load(out)["manifest"]

    def counts(self, rollout):
        return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["counts"]

    def public(self, name):
        with open(self.path(name + ".key.pub"), encoding="ascii") as file:
            return file.read().strip()

    def key_id(self, name):
        """How signatures name a key: the SHA-256 of its public half."""
        return hashlib.sha256(bytes.fromhex(self.public(name))).hexdigest()

    def await_counts(self, rollout, test, what):
        try:
            wait_until(lambda: test(self.counts(rollout)), 90, what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.counts(rollout)} {self.log_text()[-600:]}") from error

    def await_everybody(self, rollout):
        self.await_counts(rollout, lambda c: c["succeeded"] >= DEVICES, "every device")

    def version(self, result, manifest):
        """What the ledger has of a version."""
        return next(v for v in result["versions"] if v["manifest"] == manifest)

    def refused_by(self, attacker, code):
        """Devices that reported the code of this check."""
        return len({outcome["device"] for outcome in list(attacker.reports) if outcome["code"] == code})

    def await_running(self, devices):
        """Waits for a line of the log, from now on, that says so."""
        before = len(self.log_text())
        wait_until(lambda: f"1.0.1: {devices} run it" in self.log_text()[before:], 90, "every device")

    def test_an_expired_timestamp_stops_the_release(self):
        key = evil.Key(self.path("gateway", "keys", "timestamp.key"), self.stack.folder)
        served = []

        def hook(request, forward):
            if request.path == "/v1/checkin":
                status, _, body = forward()
                front, brought = evil.split_metadata(body) if status == 200 else (body, b"")
                return status, evil.with_metadata(front, evil.next_answer(served[-1], b"")) if brought else body
            if request.path.startswith(evil.NEXT):
                return 200, evil.next_answer(served[-1], b"")
            return (204, b"") if request.path == "/v1/report" else (200, served[-1])

        devices = 25  # every check-in goes through the attacker
        attacker = evil.Evil(self.stack, only=("/v1/checkin", "/v1/meta/timestamp", evil.NEXT, "/v1/report"))
        attacker.hook, attacker.brings = hook, True
        # The thief has the timestamp's key and the moment he stole it: nothing he signs is from now.
        _, fields, _ = evil.open_envelope(self.current("/v1/meta/timestamp"))
        fields = evil.open_timestamp(fields)
        now = int(time.time())
        served.append(key.envelope(evil.TIMESTAMP, evil.timestamp({**fields, "version": fields["version"] + 1000, "issued_s": now - 7200,
                                                                   "expires_s": now - 3600})))
        self.start_fleet(devices=devices, url=attacker.url, interval=2)
        _, one = self.release(1, OPEN, ("ci", "lead"))
        wait_until(lambda: self.refused_by(attacker, FROZEN) >= devices, 90, f"{self.refused_by(attacker, FROZEN)} devices refused")
        self.assertNotIn("1.0.1: ", self.log_text(), "nobody runs it")
        served.append(self.current("/v1/meta/timestamp"))  # the attack ends: nothing is broken, everybody gets the release
        self.await_running(devices)
        result = self.stop_fleet()
        self.assertGreaterEqual(result["trust"]["refused_metadata"], devices)
        self.assertEqual(self.version(result, one)["ran"], devices)

    def test_a_repeated_directors_answer_stops_the_release(self):
        devices = 25  # every check-in goes through the attacker
        answers, lock, over = {}, threading.Lock(), []

        def hook(request, forward):
            if request.path == "/v1/report":
                return 204, b""
            device = request.headers.get("walle-device")
            with lock:
                kept = answers.get(device)
            if over or kept:
                return None if over else (200, kept)
            status, _, body = forward()
            if status != 200:
                return status, body
            with lock:
                answers[device] = body  # signed for this device, and kept until another question
            return 204, b""

        attacker = evil.Evil(self.stack, only=("/v1/checkin", "/v1/report"))
        attacker.hook = hook
        self.start_fleet(devices=devices, url=attacker.url, interval=2)
        _, one = self.release(1, OPEN, ("ci", "lead"))
        wait_until(lambda: self.refused_by(attacker, FRESHNESS) >= devices, 90, f"{len(answers)} answers kept")
        self.assertNotIn("1.0.1: ", self.log_text(), "nobody runs it")
        over.append(True)
        self.await_running(devices)
        self.assertEqual(self.version(self.stop_fleet(), one)["ran"], devices)

    def test_the_simulate_stage_under_a_root(self):
        source, build = self.path("source"), self.path("build")
        os.mkdir(source)
        for name, text in (("task.py", "import walle\nwalle.result(1)\n"),
                           ("task.json", json.dumps({"name": "shop/score", "version": "1.0.0", "entry": "task", "files": ["task.py"]}))):
            with open(os.path.join(source, name), "w", encoding="utf-8") as out:
                out.write(text)
        self.stack.walle("task", "build", source, "--out", build)
        self.stack.walle("root", "init", "--out", self.path("other.1"), "--key", self.path("a.key"), "--release", self.path("ci.key.pub"),
                         "--prefix", "games/")
        with open(self.path("root.1"), "rb") as file:
            damaged = bytearray(file.read())
        damaged[20] ^= 1
        with open(self.path("damaged.1"), "wb") as file:
            file.write(damaged)
        for root, code, said in (("root.1", 0, f"root 1 (born with 1) on {DEVICES} of {DEVICES} devices"),
                                 ("other.1", 4, "it lets nobody release shop/score"), ("damaged.1", 2, "not a root"),
                                 ("none", 2, "No such file")):
            run = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", build, "--root", self.path(root), "--devices",
                                  str(DEVICES), "--real-every", "10", "--kills", "6%", "--threads", "2", "--no-live", "--out",
                                  self.path("simulated")], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
            self.assertEqual(run.returncode, code, run.stdout + run.stderr)
            self.assertIn(said, run.stdout + run.stderr)
        with open(self.path("simulated", "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual((result["completed"], result["failed"], result["totals"]["refused_offers"]), (DEVICES, 0, 0))
        self.assertGreater(result["totals"]["crashes"], DEVICES // 40)
        self.assertEqual(result["trust"]["refused_metadata"], 0)

    def current(self, path):
        run = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", self.stack.gateway.url + path], capture_output=True, check=True,
                             timeout=90)
        return run.stdout

    def test_rotation_revoked_key_and_kill_list(self):
        self.start_fleet()
        first, one = self.release(1, GRAY, ("ci", "lead"))
        self.await_everybody(first)
        # ci is revoked in the middle of the run. What it signed before, and what it signs now, is offered to nobody.
        second, two = self.release(2, OPEN, ("ci", "lead"), ("--no-start",))
        self.stack.walle("root", "rotate", self.path("root.1"), "--out", self.path("root.2"), "--key", self.path("a.key"), "--key",
                         self.path("b.key"), "--release", self.path("lead.key.pub"), "--release", self.path("new.key.pub"))
        self.stack.walle("root", "push", self.path("root.2"))
        ci = self.key_id("ci")[:16]
        lacks = f"signed by 1 of the 2 release keys that root 2 asks for; the key with the SHA-256 {ci} is not of its release role"
        with self.assertRaisesRegex(AssertionError, lacks):
            self.release(4, OPEN, ("ci", "lead"))
        status, problem = self.stack.api(f"/api/v1/rollouts/{second}/start", "POST", {})
        self.assertEqual((status, lacks in problem["detail"]), (403, True), problem)
        self.assertEqual(self.stack.api(f"/api/v1/rollouts/{second}")[1]["state"], "draft")
        # A key of another role is no release key, nor is a stranger's.
        with self.assertRaisesRegex(AssertionError, f"signed by 0 of .* key {self.public('a')[:16]} is of its root role, not the release role"):
            self.release(5, FULL, ("a",))
        with self.assertRaisesRegex(AssertionError, f"signed by 1 of the 2 .* key {self.public('new')[:16]} of the release role did not"):
            self.release(6, FULL, ("lead",))
        self.assertEqual(len(self.stack.api("/api/v1/rollouts")[1]["items"]), 2, "a refused rollout is not there")
        self.stack.walle("rollout", "abort", second, "--reason", "signed with a revoked key")
        # Enough keys of both roots release to everybody: devices look for the new one when they take a release.
        third, three = self.release(3, OPEN, ("ci", "lead", "new"))  # not over yet when it is killed
        self.await_everybody(third)
        # Killed: everybody is back on version 1 at once, which they kept.
        self.stack.walle("release", "kill", three, "--reason", "a leak")
        self.await_running(DEVICES)
        wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{third}")[1]["state"] == "rolled_back", what="the end of what was killed")
        result = self.stop_fleet(status=1)  # a release that was taken back is none that passed
        self.assertIn("the release of shop/score 1.0.3 was rolled back", result["failed_because"])
        self.assertEqual(result["trust"]["newest"], 2)
        self.assertEqual(result["trust"]["devices"], [{"root": 2, "devices": DEVICES}])
        self.assertFalse(any(v["manifest"] == two for v in result["versions"]), "no device heard of it")
        for manifest in (one, three):
            self.assertEqual(self.version(result, manifest)["ran"], DEVICES)
        self.assertEqual((self.version(result, one)["current"], result["trust"]["killed"]), (DEVICES, DEVICES))
        self.assertIn("root 2 (born with 1) on 1000 of 1000 devices", self.log_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
