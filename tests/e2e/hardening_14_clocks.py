"""Clocks that are wrong, with the shipped programs: a gateway that jumps 300 days ahead while it runs, and back; one that starts so;
devices with a clock in 1970 and one years ahead. The clocks are moved by a preloaded library (tests/support/wrong_clock.c)."""
import collections
import contextlib
import json
import os
import re
import struct
import subprocess
import unittest

from walle_stack import BIN, Stack, program, wait_until

SHIM = os.path.join(os.path.dirname(os.path.abspath(BIN)), "tests", "libwrong_clock.so")
TASK = "shop/score"
DAY = 86400
FLEET = 80
FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.5}]
OPEN = [{**FULL[0], "min_sample": 1000000, "max_failure": 1}]  # stays open, whatever is reported


class Clock:
    """A wall clock for the programs that start inside `with clock.worn():`; it goes on being theirs."""

    def __init__(self, path):
        self.path = path
        self.move(0)

    def move(self, seconds):
        with open(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(struct.pack("=q", seconds))

    @contextlib.contextmanager
    def worn(self):
        options = os.environ.get("ASAN_OPTIONS", "")
        worn = {"LD_PRELOAD": SHIM, "WRONG_CLOCK": self.path, "ASAN_OPTIONS": options + ":verify_asan_link_order=0"}
        before = {name: os.environ.get(name) for name in worn}
        os.environ.update(worn)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


class Clocks(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.clock = Clock(self.stack.path("gateway.clock"))
        self.number = 0

    def start(self, again=False):
        with self.clock.worn():
            (self.stack.restart_gateway if again else self.stack.start_gateway)("--set", "rollout.tick_ms=50")

    def root(self):
        path = self.stack.path
        for name in ("a", "ci", "cj"):
            self.stack.walle("key", "new", "--out", path(name + ".key"))
        self.stack.walle("root", "init", "--out", path("root.1"), "--key", path("a.key"), "--release", path("ci.key.pub"),
                         "--release", path("cj.key.pub"), "--wide", "2")
        self.stack.walle("root", "push", path("root.1"))

    def release(self, check=True, signed_at=None, stages=None):
        """The next version of the task, started; by a signer whose clock is `signed_at`. Returns the run of `walle rollout start`."""
        self.number += 1
        source, build, path = (self.stack.path(f"{what}{self.number}") for what in ("source", "build", "stages"))
        os.mkdir(source)
        with open(os.path.join(source, "task.json"), "w", encoding="utf-8") as file:
            json.dump({"name": TASK, "version": f"1.0.{self.number}", "entry": "task", "files": ["task.py"]}, file)
        with open(os.path.join(source, "task.py"), "w", encoding="utf-8") as file:
            file.write(f"import walle\nwalle.result({self.number})\n")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(stages or FULL, file)
        self.stack.walle("task", "build", source, "--out", build)
        self.stack.walle("task", "push", build)
        with (signed_at.worn() if signed_at else contextlib.nullcontext()):
            return self.stack.walle("rollout", "start", TASK, "--build", build, "--key", self.stack.path("ci.key"), "--key",
                                    self.stack.path("cj.key"), "--stages", path, check=check)

    @staticmethod
    def id_of(run):
        return re.match(r"[0-9a-f]{16}", run.stdout).group(0)

    def device(self, name, clock=None, tls=False):
        """One visit of a device: what it ran, or None."""
        to = (self.stack.gateway.tls_url, "--ca", self.stack.path("gateway", "cert.pem")) if tls else (self.stack.gateway.url,)
        trust = ("--root", self.stack.path("root.1")) if os.path.exists(self.stack.path("root.1")) else ("--trust", self.stack.path("ci.key.pub"))
        with (clock.worn() if clock else contextlib.nullcontext()):
            run = subprocess.run([program("walle-device"), "--gateway", *to, "--enroll-token", self.stack.enroll_token, "--dir",
                                  self.stack.path(name), *trust, "--once", "-v"], capture_output=True, text=True, timeout=120,
                                 stdin=subprocess.DEVNULL)
        self.assertIn(run.returncode, (0, 1), run.stderr)
        found = re.findall(r"ran \d+ us (\d+)$", run.stdout, re.M)
        return int(found[-1]) if found else None

    def told(self):
        return self.stack.api("/api/v1/clock")[1]

    def wait_state(self, state):
        wait_until(lambda: self.told()["state"] == state, what=f"the clock to be {state}")

    def metric(self, name):
        text = self.stack.api("/metrics")[1]
        return int(re.search(rf"^walle_{name} (\d+)$", text, re.M).group(1))

    def failures(self, rollout):
        """Devices by what failed on them."""
        devices = collections.Counter()
        for one in self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["fingerprints"]:
            devices[one["kind"]] += one["devices"]
        return dict(devices)

    def test_a_jump_while_it_runs(self):
        self.start()
        self.root()
        self.release()
        self.assertEqual(self.device("ours"), 1)
        self.wait_state("sure")
        signed = self.stack.api("/api/v1/trust")[1]["timestamp_version"]
        self.clock.move(300 * DAY)
        self.wait_state("ahead")
        told = self.told()
        self.assertGreater(told["wall_s"] - told["signed_s"], 299 * DAY)
        self.assertEqual(self.metric("clock_doubt"), 1)
        self.assertIn("the wall clock is", self.stack.gateway.log_text())
        # It says so once, starts nothing, and serves what was signed, also to who never came before.
        refused = self.release(check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("clock is in doubt", refused.stdout + refused.stderr)
        self.assertEqual(self.device("new"), 1)
        self.assertEqual(self.stack.api("/api/v1/trust")[1]["timestamp_version"], signed)
        self.assertEqual(self.stack.gateway.log_text().count("the wall clock is"), 1)
        # Where people and balancers look: it is ready, and says so.
        self.assertEqual(self.stack.api("/readyz"), (200, "ready; clock in doubt (ahead): see /api/v1/clock\n"))
        # It turns again, and is behind now: the reason is the one of today.
        self.clock.move(-20 * DAY)
        self.wait_state("behind")
        self.assertEqual(self.stack.api("/readyz")[1], "ready; clock in doubt (behind): see /api/v1/clock\n")
        self.assertEqual(self.stack.gateway.log_text().count("the wall clock is"), 2)
        self.assertEqual(self.metric("clock_doubts_total"), 1)
        # Back by itself: the next release reaches both.
        self.clock.move(0)
        self.wait_state("sure")
        self.assertEqual(self.stack.api("/readyz"), (200, "ready\n"))
        self.release()
        self.assertEqual((self.device("ours"), self.device("new")), (3, 3))

    def test_devices_find_back(self):
        """The gateway was ahead when it first started, and the signer, and devices took what they said."""
        self.clock.move(300 * DAY)
        self.start()
        self.root()  # whose owners have their own clocks
        self.release(signed_at=self.clock)
        self.assertEqual(self.device("ours"), 1)
        self.clock.move(0)
        self.wait_state("behind")
        self.assertIn("moved by -", self.stack.walle("clock", "accept", "--reason", "NTP was off").stdout)
        self.wait_state("sure")
        self.release()
        self.assertEqual(self.device("ours"), 2)
        entries = self.stack.api("/api/v1/audit?limit=50")[1]["items"]
        self.assertTrue(any("clock/accept" in json.dumps(entry) for entry in entries))

    def test_a_start_with_a_wrong_clock(self):
        self.start()
        self.root()
        self.release()
        self.assertEqual(self.device("ours"), 1)
        wait_until(lambda: self.metric("timestamp_version") > 0, what="a timestamp")
        for moved, state in ((300 * DAY, "ahead"), (-20 * DAY, "behind"), (-56 * 365 * DAY, "unset")):
            self.stack.gateway.kill()
            self.clock.move(moved)
            self.start(again=True)
            self.assertEqual(self.told()["state"], state)
            self.assertEqual(self.device("visitor" + state), 1)
            self.clock.move(0)
            self.wait_state("sure")
        self.stack.gateway.kill()
        self.clock.move(300 * DAY)
        self.start(again=True)
        self.assertIn("moved by 25", self.stack.walle("clock", "accept", "--reason", "it was off for long").stdout)
        self.assertEqual(self.told()["state"], "sure")
        self.stack.gateway.kill()
        self.start(again=True)
        self.assertEqual(self.told()["state"], "sure")

    def test_devices_with_wrong_clocks(self):
        self.start()
        self.root()
        self.release()
        never_set, ahead = Clock(self.stack.path("never.clock")), Clock(self.stack.path("ahead.clock"))
        never_set.move(-56 * 365 * DAY)
        ahead.move(3 * 365 * DAY)
        self.assertEqual(self.device("never", never_set), 1)
        rollout = self.id_of(self.release())
        self.assertEqual(self.device("never", never_set), 2)
        # Also where the certificate of the gateway is not valid yet by it. One that ran out is held against the gateway.
        self.assertEqual(self.device("over tls", never_set, tls=True), 2)
        self.assertIsNone(self.device("ahead", ahead, tls=True))
        # Years ahead: refused, which is a failure of the release, for its gates and for people.
        self.assertIsNone(self.device("ahead", ahead))
        wait_until(lambda: self.failures(rollout).get("fail_clock") == 1, what="its report")
        explained = self.stack.walle("rollout", "status", rollout).stdout
        self.assertIn("fail_clock", explained)
        ahead.move(0)
        self.assertEqual(self.device("ahead", ahead), 2)

    def test_a_fleet_with_wrong_clocks(self):
        """Of 80 virtual devices about a third has a wrong clock. Whose is behind, or was never set, takes the release; whose is ahead
        refuses it for that and nothing else, and the gates see both."""
        self.start()
        self.root()
        rollout = self.id_of(self.release(stages=OPEN))
        with open(self.stack.path("fleet.log"), "wb") as log:
            self.stack.spawn("walle-fleet-sim", "run", "--devices", str(FLEET), "--gateway", self.stack.gateway.url, "--root",
                             self.stack.path("root.1"), "--task", TASK, "--enroll-token", self.stack.enroll_token, "--threads", "1",
                             "--no-live", "--checkin-interval", "1", "--seed", "14", "--wrong-clocks", "40%", "--clock-off", "900", "--out",
                             self.stack.path("fleet"), stdout=log, stderr=subprocess.STDOUT)

        def counts():
            return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["counts"]
        counted = wait_until(lambda: (lambda now: now if now["succeeded"] + now["failed"] == FLEET else None)(counts()), what="the fleet")
        self.assertGreater(counted["failed"], FLEET // 20)
        self.assertGreater(counted["succeeded"], FLEET * 2 // 3)
        wait_until(lambda: self.failures(rollout) == {"fail_clock": counted["failed"]}, what="all of them to be clocks")


if __name__ == "__main__":
    unittest.main()
