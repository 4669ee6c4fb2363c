"""walle-device as an operator meets it: arguments, signals, hints, a wrong key, a bad version that goes back."""
import os
import re
import resource
import signal
import subprocess
import threading
import unittest

from walle_stack import Stack, program, wait_until

TASK = "agent/score"
DEVICE = "00000000000000a1"
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.5}]


class Device:
    """A running walle-device whose output is collected."""

    def __init__(self, stack, name, *arguments, trust=None, enroll=True):
        self.process = stack.spawn(
            "walle-device", "--gateway", stack.gateway.tls_url, *(("--enroll-token", stack.enroll_token) if enroll else ()), "--ca", os.path.join(stack.gateway.folder, "cert.pem"),
            "--dir", stack.path(name), "--id", DEVICE, "--attr", "os=android", "--attr", "ram_mb=4096",
            "--trust", trust or stack.path("release.key.pub"), *arguments,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.log = []
        self.readers = [threading.Thread(target=self._read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.lines), (self.process.stderr, self.log))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def _read(stream, lines):
        with stream:
            for line in stream:
                lines.append(line.rstrip("\n"))

    def wait_line(self, pattern, timeout_s=60):
        return wait_until(lambda: next((line for line in self.lines if re.search(pattern, line)), None), timeout_s,
                          f"'{pattern}' in {self.lines} {self.log[-5:]}")

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        status = self.process.wait(60)
        for reader in self.readers:
            reader.join()
        return status


class DeviceAgent(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway()
        self.stack.walle("key", "new", "--out", self.stack.path("release.key"))

    def release(self, number, script):
        return self.stack.release(TASK, number, script, STAGES)

    def wait_state(self, rollout, *states):
        return wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout}")[1].get("state") in states, 60,
                          f"rollout to be one of {states}")

    def test_hints_bring_updates_and_failures_go_back(self):
        device = Device(self.stack, "device", "--hints", "--checkin-interval", "86400")
        wait_until(lambda: any("connected" in line for line in device.log) or
                   self.stack.api(f"/api/v1/devices/{DEVICE}")[0] == 200, 60, "the first check-in")
        first = self.release(1, "import walle\nwalle.result({'sum': 40 + 2})\n")
        device.wait_line(rf"^task {TASK} [0-9a-f]{{64}} ran \d+ us .*42")
        self.wait_state(first, "completed")
        second = self.release(2, "prices = [1, 'x']\nprint(sum(prices))\n")
        device.wait_line(r"fail_exception .*TypeError.*task.py:2")
        self.wait_state(second, "rolled_back", "rolling_back")
        self.assertEqual(device.stop(), 0)
        state = device.wait_line(r"^state ")
        self.assertRegex(state, r"active [0-9a-f]{64} previous 0{64}$")
        self.assertNotRegex(state, r"active 0{64}")

    def test_wrong_key_runs_nothing(self):
        self.stack.walle("key", "new", "--out", self.stack.path("other.key"))
        self.release(1, "import walle\nwalle.result(1)\n")
        device = Device(self.stack, "device", "--once", trust=self.stack.path("other.key.pub"))
        self.assertEqual(device.process.wait(60), 0)
        for reader in device.readers:
            reader.join()
        self.assertEqual([line for line in device.lines if line.startswith("task ")], [])
        self.assertTrue(any("refused offers 1" in line for line in device.log), device.log)

    def checkins(self):
        return int(re.search(r"^walle_checkins_total (\d+)", self.stack.api("/metrics")[1], re.M).group(1))

    def test_ends_in_order(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            before = self.checkins()
            device = Device(self.stack, "device", "--checkin-interval", "1")
            wait_until(lambda: self.checkins() > before, 60, "the first check-in")
            self.assertEqual(device.stop(number), 0)

    def test_no_gateway_is_said_once(self):
        for url, text in (("http://127.0.0.1:1", "no answer from 127.0.0.1 port 1: Connection refused"),
                          ("https://" + self.stack.gateway.url.removeprefix("http://"), "the TLS handshake failed")):
            device = self.stack.spawn("walle-device", "--gateway", url, "--insecure", "--dir", self.stack.path("lost"), "--id", DEVICE,
                                      "--trust", "00" * 32, "--verbose", stderr=subprocess.PIPE, text=True)
            log = []
            while sum("connection to" in line for line in log) < 1: # the second time, for those who ask
                line = device.stderr.readline()
                self.assertTrue(line, log)
                log.append(line)
            device.terminate()
            self.assertEqual(device.wait(60), 0)
            warned = [line for line in log if "WARN" in line]  # first that it is nobody known, which is said once, too
            self.assertEqual(["not enrolled" in line for line in warned], [True, False], log)
            self.assertIn(text, warned[1])

    def test_a_first_start_without_room(self):
        """The key of the enrolment is cut short: the log says for want of what."""
        token = self.stack.path("some.token")
        with open(token, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("wet_" + "a" * 43 + "\n")
        run = subprocess.run([program("walle-device"), "--gateway", "http://127.0.0.1:1", "--dir", self.stack.path("small"), "--once", "--trust",
                              "00" * 32, "--enroll-token", token], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16)))
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("small/enrolment.key: File too large", run.stderr)
        self.assertEqual(os.listdir(self.stack.path("small")), [])

    def test_bad_arguments_say_what_is_wrong(self):
        good = {"--gateway": "https://127.0.0.1:1", "--insecure": None, "--dir": self.stack.path("x"), "--id": DEVICE,
                "--trust": "00" * 32}
        cases = [({"--gateway": "ftp://x"}, "must start with"), ({"--gateway": "https://:1"}, "host"),
                 ({"--gateway": "https://a:99999"}, "port"), ({"--id": "123"}, "16"), ({"--trust": "abc"}, "64 hex"),
                 ({"--attr": "novalue"}, "NAME=VALUE"), ({"--checkin-interval": "0"}, "number"),
                 ({"--runs": "65"}, "--runs: '65' is not a number from 1 to 64"), ({"--run-memory": "0"}, "number"),
                 ({"--trust": None}, "--trust is needed"), ({"--dir": None}, "needed"),
                 ({"--insecure": False}, "--ca or --insecure")]
        for change, text in cases:
            arguments = []
            for name, value in {**good, **change}.items():
                if name == "--insecure":
                    arguments += [name] if value is None else []
                elif value is not None:
                    arguments += [name, value]
            run = subprocess.run([program("walle-device"), *arguments], capture_output=True, text=True, timeout=60,
                                 stdin=subprocess.DEVNULL)
            self.assertEqual(run.returncode, 2, f"{arguments}: {run.stderr}")
            self.assertIn(text, run.stderr)


if __name__ == "__main__":
    unittest.main()
