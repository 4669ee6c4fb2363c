"""How much an agent holds, what it refuses and how often it asks, on real programs: no offer that does not fit, none twice that was
refused, and the gateway's interval when a reload changed it."""
import json
import os
import re
import signal
import subprocess
import time
import unittest

from test_device_agent import DEVICE, STAGES, Device
from walle_stack import Stack, program, wait_until

HELD, TASKS, LATER = 8, 60, 10


class DeviceLimits(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.number = 0

    def start_gateway(self, *arguments):
        self.stack.start_gateway("--set", "rollout.tick_ms=50", *arguments)
        self.stack.walle("key", "new", "--out", self.stack.path("release.key"))

    def release(self, task, priority=0, stages=STAGES):
        self.number += 1
        script = f"import walle\nwalle.result('{task} {self.number}')\n"
        return self.stack.release(task, self.number, script, stages, more=("--priority", str(priority)))

    def rollout(self, rollout):
        return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]

    def metric(self, name):
        return int(re.search(rf"^walle_{name} (\d+)", self.stack.api("/metrics")[1], re.M).group(1))

    def await_checkins(self, more):
        """So many more, which find nothing new."""
        before = self.metric("checkins_total")
        wait_until(lambda: self.metric("checkins_total") >= before + more, 120, "check-ins")

    def test_what_the_gateway_does_not_take_is_said(self):
        """By the device that waits, in the gateway's log and metrics, and by `device why`."""
        self.start_gateway("--set", "device.unproven_records=1")
        stages = [{**STAGES[0], "min_sample": 1000}]
        self.release("many/one", stages=stages)
        first = Device(self.stack, "first", "--once", "--id", "00000000000000b1", enroll=False)
        self.assertEqual(first.process.wait(60), 0)
        second = Device(self.stack, "second", "--once", "--id", "00000000000000b2", enroll=False)
        pattern = r"the gateway answered a report with 429; asks again in \d+\.\d s"
        wait_until(lambda: any(re.search(pattern, line) for line in second.log), 60, "the device to say it")
        second.stop()
        log = self.stack.gateway.log_text()
        self.assertRegex(log, "a report of device 00000000000000b2 is answered 429: no room for more devices that did not show who they are")
        seen = re.search(r'^walle_device_faults_total\{what="report",status="429"\} (\d+)', self.stack.api("/metrics")[1], re.M)
        self.assertGreaterEqual(int(seen.group(1)), 1)
        # One that is known is asked after: a report that is too long, in its name.
        run = subprocess.run(["curl", "-sk", "-o", os.devnull, "-w", "%{http_code}", "-H", "walle-device: 00000000000000b1", "--data-binary",
                              "@-", self.stack.gateway.tls_url + "/v1/report"], input=bytes(300000), capture_output=True, timeout=60)
        self.assertEqual(run.stdout, b"413", run.stderr)
        why = self.stack.walle("device", "why", "00000000000000b1", "--task", "many/one").stdout
        self.assertRegex(why, r"its last report that the gateway did not take, \d+ s ago: 413, request body")

    def test_what_fits_is_offered_and_nothing_else(self):
        self.start_gateway()
        tasks = [f"many/t-{number:02}" for number in range(TASKS)]
        first = [self.release(task) for task in tasks[:HELD]]
        second = int(time.time())  # signatures are dated in seconds
        wait_until(lambda: int(time.time()) > second, 10, "the next second")
        first += [self.release(task) for task in tasks[HELD:TASKS - LATER + 4]]
        device = Device(self.stack, "device", "--tasks", str(HELD), "--checkin-interval", "1")
        for task in tasks[:HELD]:  # those approved first
            device.wait_line(rf"^task {task} [0-9a-f]{{64}} ran")
        wait_until(lambda: all(self.rollout(one)["state"] == "completed" for one in first[:HELD]), 60, "the first to complete")
        later = [self.release(task) for task in tasks[:4]] + [self.release(task, 900) for task in tasks[TASKS - 6:]]
        for task, rollout in zip(tasks[:4], later):
            wait_until(lambda: self.rollout(rollout)["state"] == "completed", 60, f"{task} to complete")
        self.await_checkins(2)
        offers = self.metric("offers_total")
        self.await_checkins(3)
        self.assertEqual(self.metric("offers_total"), offers, "everything was said")
        for rollout in first + later:
            counts = self.rollout(rollout)["counts"]
            self.assertEqual(counts["not_applicable"], 0)
            self.assertEqual(counts["offered"], 1 if rollout in first[:HELD] + later[:4] else 0)
        why = self.stack.walle("device", "why", DEVICE, "--task", tasks[-1]).stdout
        self.assertIn("it holds 8 tasks at most", why)
        self.assertEqual(device.stop(), 0)
        self.assertEqual(sum(line.startswith("state ") for line in device.lines), HELD)
        self.assertTrue(any("refused offers 0" in line for line in device.log), device.log)

    def test_what_is_refused_is_refused_once(self):
        self.start_gateway()
        self.stack.walle("key", "new", "--out", self.stack.path("other.key"))
        rollout = self.release("keys/other", stages=[{**STAGES[0], "min_sample": 100}])
        for _ in range(2):  # and not after a restart either
            device = Device(self.stack, "device", "--checkin-interval", "1", trust=self.stack.path("other.key.pub"))
            wait_until(lambda: self.rollout(rollout)["counts"]["failed"] == 1, 60, "the refusal to be told")
            self.await_checkins(3)
            self.assertEqual(device.stop(), 0)
            self.assertEqual(self.metric("offers_total"), 1)
        _, view = self.stack.api(f"/api/v1/devices/{DEVICE}")
        self.assertEqual(len(view["outcomes"]), 1, json.dumps(view))
        self.assertEqual(self.rollout(rollout)["counts"]["failed"], 1)
        # With other settings it is another device: it is offered again.
        device = Device(self.stack, "device", "--checkin-interval", "1")
        device.wait_line(r"^task keys/other [0-9a-f]{64} ran")
        self.assertEqual(device.stop(), 0)

    def set_interval(self, seconds):
        with open(self.stack.path("gateway.conf"), "w", encoding="ascii") as file:
            file.write(f"device.checkin_interval_s = {seconds}\n")

    def reload(self, seconds):
        self.set_interval(seconds)
        before = self.stack.gateway.log_text().count("reloaded")
        os.kill(self.stack.gateway.pid, signal.SIGHUP)
        wait_until(lambda: self.stack.gateway.log_text().count("reloaded") > before, 60, "the reload")

    def kept_interval(self):
        run = subprocess.run([program("walle-device"), "--status", self.stack.path("device"), "--json"], capture_output=True, text=True,
                             timeout=60, check=True)
        return json.loads(run.stdout)["checkin_interval_s"]

    def test_a_reload_changes_the_interval(self):
        self.set_interval(1)
        self.start_gateway("--config", self.stack.path("gateway.conf"))
        own = Device(self.stack, "device", "--checkin-interval", "86400")
        wait_until(lambda: self.metric("checkins_total") >= 1, 60, "the first check-in")
        self.assertEqual(own.stop(), 0)
        self.assertEqual(self.metric("checkins_paced_total"), 0)
        device = Device(self.stack, "device")  # it would wait 300 s by itself
        self.await_checkins(4)
        self.assertEqual(self.metric("checkins_paced_total"), 1)
        self.reload(600)
        wait_until(lambda: self.metric("checkins_paced_total") == 2, 60, "the device to be told")
        wait_until(lambda: self.kept_interval() == 600, 60, "the device to have it: the gateway counts before the answer arrives")
        self.assertEqual(device.stop(), 0)
        before = self.metric("checkins_total")
        device = Device(self.stack, "device")  # it knows, and asks when it starts, once
        wait_until(lambda: self.metric("checkins_total") > before, 120, "its check-in")
        self.assertEqual(self.metric("checkins_paced_total"), 2)
        self.assertEqual(device.stop(), 0)
        self.reload(1)
        device = Device(self.stack, "device")
        self.await_checkins(4)
        self.assertEqual(self.metric("checkins_paced_total"), 3)
        self.assertEqual(device.stop(), 0)


if __name__ == "__main__":
    unittest.main()
