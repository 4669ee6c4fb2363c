"""Roots, leases and the kill list with real programs: a device in a gray stage goes back by itself when the gateway falls
silent, a killed version stops at once, and a reboot forgets neither."""
import json
import os
import re
import signal
import subprocess
import threading
import time
import unittest

from walle_stack import Stack, program, wait_until

TASK = "shop/score"
DEVICE = "00000000000000a1"
FULL = {"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.5}
GRAY = [{"name": "gray", "kind": "gray", "percent": 99.99, "min_sample": 1000, "max_failure": 0.5}, FULL]
LEASE_S = 5  # renewed at half of it: a loaded machine must not lose one


class Device:
    def __init__(self, stack, *arguments):
        self.process = stack.spawn(
            "walle-device", "--gateway", stack.gateway.url, "--enroll-token", stack.enroll_token, "--dir", stack.path("device"), "--id", DEVICE, "--attr",
            "os=android", "--root", stack.path("root.1"), "--checkin-interval", "86400", "-v", *arguments,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines, self.log = [], []
        self.readers = [threading.Thread(target=self._read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.lines), (self.process.stderr, self.log))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def _read(stream, lines):
        with stream:
            for line in stream:
                lines.append(line.rstrip("\n"))

    def wait_line(self, pattern, count=1):
        return wait_until(lambda: len([line for line in self.lines if re.search(pattern, line)]) >= count, 60,
                          f"{count} of '{pattern}' in {self.lines} {self.log[-5:]}")

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(60)
        for reader in self.readers:
            reader.join()

    def state(self):
        """(active, previous) as told at the end."""
        found = re.search(rf"^state {TASK} active ([0-9a-f]{{64}}) previous ([0-9a-f]{{64}})", "\n".join(self.lines), re.M)
        return found.groups()


class Trust(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway("--set", f"trust.lease_s={LEASE_S}")
        path = self.stack.path
        for name in ("a", "b", "c", "ci", "cj"):
            self.stack.walle("key", "new", "--out", path(name + ".key"))
        self.stack.walle("root", "init", "--out", path("root.1"), "--key", path("a.key"), "--key", path("b.key"),
                         "--member", path("c.key.pub"), "--release", path("ci.key.pub"), "--release", path("cj.key.pub"))
        self.stack.walle("root", "push", path("root.1"))

    def release(self, number, stages):
        source, build = self.stack.path(f"source{number}"), self.stack.path(f"build{number}")
        os.mkdir(source)
        with open(os.path.join(source, "task.json"), "w", encoding="utf-8") as file:
            json.dump({"name": TASK, "version": f"1.0.{number}", "entry": "task", "every_s": 1, "files": ["task.py"]}, file)
        with open(os.path.join(source, "task.py"), "w", encoding="utf-8") as file:
            file.write(f"import walle\nwalle.result({number})\n")
        self.stack.walle("task", "build", source, "--out", build)
        self.stack.walle("task", "push", build)
        with open(self.stack.path(f"stages{number}.json"), "w", encoding="utf-8") as file:
            json.dump(stages, file)
        run = self.stack.walle("rollout", "start", TASK, "--build", build, "--key", self.stack.path("ci.key"), "--key",
                               self.stack.path("cj.key"), "--stages", self.stack.path(f"stages{number}.json"))
        return re.match(r"[0-9a-f]{16}", run.stdout).group(0)

    def wait_state(self, rollout, state):
        wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout}")[1].get("state") == state, 60, f"state {state}")

    def last_outcome(self, rollout):
        status, device = self.stack.api(f"/api/v1/devices/{DEVICE}")
        return next((o for o in device.get("outcomes", []) if o["rollout"] == rollout), None) if status == 200 else None

    def test_lease_is_renewed_and_ends_with_the_gateway(self):
        device = Device(self.stack, "--hints")
        first = self.release(1, [FULL])
        device.wait_line(r"ran \d+ us 1$")
        self.wait_state(first, "completed")
        second = self.release(2, GRAY)
        device.wait_line(r"ran \d+ us 2$")
        # Renewed: it runs on, longer than one lease lasts.
        device.wait_line(r"ran \d+ us 2$", LEASE_S + 3)
        self.assertNotIn("rolled_back", (self.last_outcome(second) or {}).get("states", []))
        # The gateway falls silent: back to version 1, without a download.
        self.stack.gateway.kill()
        before = len([line for line in device.lines if line.endswith(" 1")])
        device.wait_line(r"ran \d+ us 1$", before + 1)
        self.assertTrue(any("lease ran out (LEASE)" in line for line in device.log), device.log[-5:])
        # Killed and started again in the silence: it stays there.
        device.stop(signal.SIGKILL)
        device = Device(self.stack, "--hints")
        device.wait_line(r"ran \d+ us 1$")
        self.assertEqual([line for line in device.lines if line.endswith("us 2")], [])
        # The gateway is back, and the rollout is healthy: version 2 again.
        self.stack.restart_gateway("--set", f"trust.lease_s={LEASE_S}")
        device.wait_line(r"ran \d+ us 2$")
        wait_until(lambda: self.last_outcome(second) is not None, 60, "the report")
        device.stop()

    def test_stage_full_ends_the_lease(self):
        device = Device(self.stack, "--hints")
        first = self.release(1, GRAY)
        device.wait_line(r"ran \d+ us 1$")
        self.stack.walle("rollout", "promote", first, "--reason", "seen enough")
        self.stack.walle("rollout", "promote", first, "--reason", "seen enough")
        self.wait_state(first, "completed")
        time.sleep(LEASE_S)  # a check-in that renews comes before the lease ends, and brings the statement of stage full
        self.stack.gateway.kill()
        runs = len([line for line in device.lines if line.endswith("us 1")])
        device.wait_line(r"ran \d+ us 1$", runs + LEASE_S + 2)
        device.stop()

    def test_killed_version_stops(self):
        device = Device(self.stack, "--hints")
        first = self.release(1, [FULL])
        device.wait_line(r"ran \d+ us 1$")
        self.wait_state(first, "completed")
        second = self.release(2, [FULL])
        device.wait_line(r"ran \d+ us 2$")
        self.wait_state(second, "completed")
        manifest = self.stack.api(f"/api/v1/rollouts/{second}")[1]["manifest"]
        self.stack.walle("release", "kill", manifest, "--reason", "leaks addresses")
        self.assertIn(manifest, self.stack.api("/api/v1/trust")[1]["kills"])
        before = len([line for line in device.lines if line.endswith(" 1")])
        device.wait_line(r"ran \d+ us 1$", before + 1)  # the kept version
        device.stop()
        active, previous = device.state()
        self.assertNotEqual(active, manifest)
        self.assertNotEqual(previous, manifest)
        again = self.stack.walle("rollout", "start", TASK, "--manifest", manifest, "--key", self.stack.path("ci.key"), "--key",
                                 self.stack.path("cj.key"), "--stages", self.stack.path("stages2.json"), check=False)
        self.assertEqual(again.returncode, 4, again.stderr)
        self.assertIn("kill list", again.stderr)
        # A gateway that starts anew still says so.
        self.stack.gateway.stop()
        self.stack.restart_gateway("--set", f"trust.lease_s={LEASE_S}")
        self.assertIn(manifest, self.stack.api("/api/v1/trust")[1]["kills"])
        # Off the list its rollout is the baseline again, on the device that was taken off it as well.
        device = Device(self.stack, "--hints")
        self.stack.walle("release", "unkill", manifest, "--reason", "the wrong one")
        self.assertNotIn(manifest, self.stack.api("/api/v1/trust")[1]["kills"])
        device.wait_line(r"ran \d+ us 2$")
        device.stop()
        gone = self.stack.walle("release", "unkill", manifest, "--reason", "again", check=False)
        self.assertIn("not on the kill list", gone.stderr)

    def test_metrics_and_bad_roots(self):
        text = self.stack.api("/metrics")[1]
        self.assertRegex(text, r"(?m)^walle_root_version 1$")
        self.assertRegex(text, r"(?m)^walle_root_expires_timestamp_seconds [1-9]\d+$")
        path = self.stack.path
        self.assertNotIn("runs out", self.stack.gateway.log_text())
        self.stack.walle("root", "rotate", path("root.1"), "--out", path("root.2"), "--key", path("a.key"), "--key",
                         path("b.key"), "--expires", "20")
        self.stack.walle("root", "push", path("root.2"))
        self.stack.gateway.stop()
        self.stack.restart_gateway()
        wait_until(lambda: re.search(r"WARN trust: the root runs out in (19|20) days", self.stack.gateway.log_text()), 30,
                   "the warning in the log")
        run = self.stack.walle("root", "init", "--out", path("other.1"), "--key", path("c.key"), "--release",
                               path("ci.key.pub"))
        self.assertEqual(run.returncode, 0)
        for name, text in (("other.1", "refused"), ("ci.key.pub", "not a root")):
            run = self.stack.walle("root", "push", path(name), check=False)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(text, run.stderr)
        run = subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", path("x"), "--id", DEVICE,
                              "--root", path("ci.key.pub")], capture_output=True, text=True, timeout=60,
                             stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, 2)
        self.assertIn("does not hold a root", run.stderr)


if __name__ == "__main__":
    unittest.main()
