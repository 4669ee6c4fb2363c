#!/usr/bin/env python3
"""`walle-device --status DIR` says what a device's folder holds, while its agent runs or not, and changes nothing there; the agent does not say
the same thing each second; --tasks says how many tasks it holds."""
import hashlib
import json
import os
import re
import signal
import subprocess
import unittest

from page_commands import free_ports
from walle_stack import Stack, program, wait_until

DEVICE = "0123456789abcdef"
FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 1}]
GRAY = [{"name": "gray", "kind": "gray", "percent": 99.99, "min_sample": 100, "min_dwell_s": 0, "max_failure": 1}, *FULL]
GOOD = "import walle\nwalle.result(1)\n"
BAD = "import walle\nwalle.result(walle.device['nothing'])\n"


class Status(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)

    def agent(self, *arguments):
        log = open(self.stack.path("device.log"), "ab")
        self.addCleanup(log.close)
        return self.stack.spawn("walle-device", "--gateway", self.stack.gateway.tls_url, "--ca", self.stack.path("gateway", "cert.pem"), "--dir",
                                self.stack.path("device"), "--id", DEVICE, "--root", self.stack.path("root.1"), "--enroll-token",
                                self.stack.enroll_token, "--checkin-interval", "1", *arguments, stdout=log, stderr=subprocess.STDOUT)

    def log(self):
        with open(self.stack.path("device.log"), encoding="utf-8") as file:
            return file.read()

    def once(self):
        self.assertEqual(self.agent("--once").wait(120), 0, self.log())

    def look(self, *arguments, code=0):
        said = subprocess.run([program("walle-device"), "--status", self.stack.path("device"), *arguments], capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(said.returncode, code, said.stdout + said.stderr)
        return said.stdout if code == 0 else said.stderr

    def files(self):
        found = {}
        for folder, _, names in os.walk(self.stack.path("device")):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[path] = (os.stat(path).st_mtime_ns, hashlib.sha256(file.read()).hexdigest())
        return found

    def manifest(self, rollout):
        return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["manifest"]

    def brought(self, number, script):
        """A version that the device had, and whose rollout is over; returns its manifest."""
        rollout = self.stack.release("shop/score", number, script, FULL)
        self.once()
        wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["state"] != "running", what="the end of the rollout")
        return self.manifest(rollout)

    def test_a_folder_whose_name_is_no_utf8(self):
        """It is shown as far as it is text, and JSON stays JSON."""
        self.stack.start_rooted_gateway()
        self.brought(1, GOOD)
        for tail, shown in ((b"\xff!", "\\xff!"), (b"\xc3", "\\xc3")):  # the second ends within a character
            named = os.fsencode(self.stack.path("device")) + tail
            os.rename(self.stack.path("device"), named)
            for more in ((), ("--json",)):
                said = subprocess.run([program("walle-device"), "--status", named, *more], capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
                self.assertEqual(said.returncode, 0, said.stderr)
                text = said.stdout.decode()
                self.assertIn(self.stack.path("device") + shown, json.loads(text)["dir"] if more else text)
            os.rename(named, self.stack.path("device"))

    def test_what_a_folder_holds(self):
        self.stack.start_rooted_gateway()
        self.assertIn("No such file or directory", self.look(code=1))
        first = self.brought(1, GOOD)
        self.brought(2, BAD)
        third = self.manifest(self.stack.release("shop/score", 3, GOOD + "# 3\n", GRAY))
        self.once()
        before = self.files()
        status = json.loads(self.look("--json"))
        text = self.look()
        self.assertEqual(self.files(), before)
        self.assertEqual((status["device"], status["agent_runs"], status["root_version"]), (DEVICE, False, 1))
        self.assertEqual(len(status["tasks"]), 1, status)
        task = status["tasks"][0]
        self.assertEqual((task["task"], task["state"], task["shadow"]), ("shop/score", "settled", False))
        self.assertEqual((task["active"], task["active_version"], task["previous"], task["previous_version"]), (third, "1.0.3", first, "1.0.1"), task)
        self.assertGreater(task["release_counter"], 1)
        self.assertIsNotNone(task["lease_until"])
        self.assertGreater(task["lease_left_s"], -600)
        for name in ("floor", "runs", "crashes", "last_run", "newest_counter"):
            self.assertIn(name, task)
        self.assertIsNotNone(task["refused_version_id"], task)
        for words in (rf"device {DEVICE} in .*: no agent runs", r"task shop/score: settled", rf"active +1\.0\.3 {third}", rf"previous +1\.0\.1 {first}",
                      r"lease +(until|ran out) 20", r"refuses +(shop/score 1\.0\.2|a version), which failed here \(version id [0-9a-f]{16}\)", r"floor \d"):
            self.assertRegex(text, words)
        agent = self.agent()
        wait_until(lambda: json.loads(self.look("--json"))["agent_runs"], what="the agent")
        self.assertIn("its agent runs", self.look())
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(60), 0, self.log())
        for name in ("even", "odd"):
            with open(self.stack.path("device", "state", name), "wb") as file:
                file.write(b"something else")
        self.assertIn(self.stack.path("device"), self.look(code=1))
        with open(self.stack.path("device", "state", "odd"), "rb") as file:
            self.assertEqual(file.read(), b"something else")

    def test_a_folder_of_nobody(self):
        os.mkdir(self.stack.path("device"))
        self.assertIn("no device has kept its state here", self.look(code=1))
        self.assertEqual(os.listdir(self.stack.path("device")), [])
        said = subprocess.run([program("walle-device"), "--json"], capture_output=True, text=True, timeout=60)
        self.assertEqual((said.returncode, "--json goes with --status" in said.stderr), (2, True), said.stderr)

    def test_the_same_is_not_said_each_time(self):
        """Details are: so there were more failures than lines that told of them."""
        self.stack.start_rooted_gateway()
        self.stack.gateway.kill()
        log = open(self.stack.path("device.log"), "wb")
        self.addCleanup(log.close)
        agent = self.stack.spawn("walle-device", "--gateway", f"http://127.0.0.1:{free_ports(1)[0]}", "--dir", self.stack.path("device"), "--id",
                                 DEVICE, "--root", self.stack.path("root.1"), "--retry-base", "50", "--verbose", stdout=subprocess.DEVNULL, stderr=log)
        wait_until(lambda: len(re.findall("DEBUG device: connection to .* ended", self.log())) >= 6 and
                   len(re.findall("a check-in got no answer", self.log())) >= 2, 300, "failures, told of twice")
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(60), 0, self.log())
        said = re.findall("a check-in got no answer.*", self.log())
        ended = re.findall("DEBUG device: connection to .* ended", self.log())
        self.assertLess(len(said), len(ended) // 2, self.log())
        self.assertGreater(len(said), 1)
        self.assertNotIn("not told", said[0])
        for line in said[1:]:
            self.assertRegex(line, r"\(and \d+ times before, not told\)$")


if __name__ == "__main__":
    unittest.main()
