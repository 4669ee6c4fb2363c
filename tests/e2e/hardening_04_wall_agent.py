"""The shipped agent with task processes: what tasks come to is what they come to on a thread, and neither a task that
would take the agent down nor a signal from outside keeps it from going on."""
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from test_device_agent import DEVICE, STAGES, TASK, Device
from walle_stack import SOURCE, Stack, program, wait_until

UNPROVEN = ("--trust-unproven", "--reason", "a fleet without credentials")
WORK_TICKS = os.sysconf("SC_CLK_TCK") // 2  # of processor time
LOOP = "while True:\n    pass\n"
# Scripts that took the agent down or held it for ever. Whether the VM itself now stops one of them or the wall does, the
# agent reports a failure and goes on.
HOSTILE = {
    "an endless step in C": "import struct\nstruct.calcsize('4611686018427387905q')\nwhile True:\n    pass\n",
    "an allocation that wraps": "x = [0] * ((1 << 61) + 1)\nfor i in range(1 << 20):\n    x[i] = i\n",
    "a queue that wraps": "from collections import deque\nd = deque((), 1 << 61)\nfor i in range(1 << 16):\n    d.append(i)\nraise ValueError\n",
}


def stat_of(pid):
    """(name, fields behind it) of a process; None: it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            name, rest = re.match(r"\d+ \((.*)\) (.*)", file.read(), re.S).groups()
        return name, rest.split()
    except OSError:
        return None


def state_of(pid):
    """R at work, S asleep, Z ended and not yet reaped; empty: gone."""
    stat = stat_of(pid)
    return stat[1][0] if stat else ""


def children_of(pid):
    stats = {int(entry): stat_of(entry) for entry in os.listdir("/proc") if entry.isdigit()}
    return [child for child, stat in stats.items() if stat and int(stat[1][1]) == pid]


def running_child(pid):
    """The task process that is at work: one that only starts, ahead of its run, has used no half second yet."""
    for child in children_of(pid):
        stat = stat_of(child)
        if stat and stat[1][0] == "R" and int(stat[1][11]) >= WORK_TICKS:
            return child
    return None


class Wall(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway()
        self.stack.walle("key", "new", "--out", self.stack.path("release.key"))

    def once(self, name, *arguments):
        # The same device twice, whose input depends on its id: neither enrols.
        device = Device(self.stack, name, "--once", *arguments, enroll=False)
        self.assertEqual(device.process.wait(120), 0, device.log)
        for reader in device.readers:
            reader.join()
        return device

    def lines_of(self, manifest, name, kind):
        """What a fresh device says that runs this version; a moment after its release it may still be offered the last one."""
        tries = itertools.count()

        def attempt():
            device = self.once(f"{name}-{next(tries)}", "--attr", "os_version=14", "--isolation", kind)
            lines = [re.sub(r" \d+ us ", " ", line) for line in device.lines]
            return lines if any(manifest in line for line in lines) else None
        return wait_until(attempt, what=f"a run of {manifest}")

    def test_the_tasks_of_conf_come_to_the_same(self):
        for number, task in enumerate(("ipv", "ipv_v2")):
            source = self.stack.path(task)
            shutil.copytree(os.path.join(SOURCE, "conf", "tasks", "ipv"), source)
            shutil.copytree(os.path.join(SOURCE, "conf", "tasks", task), source, dirs_exist_ok=True)
            build = self.stack.path("build-" + task)
            self.stack.walle("task", "build", source, "--out", build)
            self.stack.walle("task", "push", build)
            with open(os.path.join(source, "task.json"), encoding="utf-8") as file:
                name = json.load(file)["name"]
            with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
                json.dump(STAGES, file)
            started = self.stack.walle("rollout", "start", name, "--build", build, "--key", self.stack.path("release.key"), "--stages",
                                       self.stack.path("stages.json"), *UNPROVEN, "-o", "json")
            rollout = json.loads(started.stdout)
            manifest = rollout["manifest"]
            lines = [self.lines_of(manifest, f"{kind}{number}", kind) for kind in ("thread", "process")]
            self.assertTrue(any(line.startswith("task ") and " ran " in line for line in lines[0]), lines)
            self.assertEqual(lines[0], lines[1])
            # The next release has its way back to this one, once this one is the task's baseline.
            wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout['id']}")[1].get("state") == "completed",
                       what="the rollout to complete")

    def test_hostile_tasks_leave_the_agent_running(self):
        self.stack.release(TASK, 1, "import walle\nwalle.result('good')\n", STAGES, more=UNPROVEN)
        device = Device(self.stack, "device", "--hints", "--checkin-interval", "86400")
        device.wait_line(r"ran .*good")
        for number, (what, script) in enumerate(HOSTILE.items(), 2):
            with self.subTest(what):
                before = len(device.lines)
                self.stack.release(TASK, number, script, STAGES, more=UNPROVEN)
                wait_until(lambda: any(" fail_" in line for line in device.lines[before:]) or device.process.poll() is not None,
                           60, f"the end of {what} in {device.lines}")
                self.assertIsNone(device.process.poll(), device.lines)
        before = len(device.lines)
        self.stack.release(TASK, 90, "import walle\nwalle.result('good again')\n", STAGES, more=UNPROVEN)
        device.wait_line(r"ran .*good again")
        self.assertEqual(device.stop(), 0)

    def test_a_killed_task_is_reported_and_the_agent_goes_on(self):
        self.stack.release(TASK, 1, "import walle\nwalle.result('good')\n", STAGES, more=UNPROVEN)
        device = Device(self.stack, "device", "--hints", "--checkin-interval", "86400")
        device.wait_line(r"ran .*good")
        for number, name in enumerate(("SIGKILL", "SIGSEGV"), 2):
            before = len(device.lines)
            self.release_loop(number)
            child = wait_until(lambda: running_child(device.process.pid), 60, "the task's process at work")
            os.kill(child, getattr(signal, name))
            line = wait_until(lambda: next((line for line in device.lines[before:] if "fail_" in line), None), 60, "the report")
            self.assertRegex(line, rf"fail_crash .*died of {name}")
        self.stack.release(TASK, 90, "import walle\nwalle.result('good again')\n", STAGES, more=UNPROVEN)
        device.wait_line(r"ran .*good again")
        detail = wait_until(lambda: "died of SIG" in json.dumps(self.stack.api(f"/api/v1/devices/{DEVICE}")[1]) or
                            "fail_crash" in self.stack.api("/metrics")[1], 60, "the gateway to hear of it")
        self.assertTrue(detail)
        self.assertEqual(device.stop(), 0)

    def release_loop(self, number):
        """A version that runs until it is stopped; 60 s are more than the test takes."""
        source, build = self.stack.path(f"source{number}"), self.stack.path(f"build{number}")
        os.mkdir(source)
        task = {"name": TASK, "version": f"1.0.{number}", "entry": "task", "files": ["task.py"], "time_ms": 60000}
        for name, text in (("task.json", json.dumps(task)), ("task.py", LOOP), ("../stages.json", json.dumps(STAGES))):
            with open(os.path.join(source, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", source, "--out", build)
        self.stack.walle("task", "push", build)
        self.stack.walle("rollout", "start", TASK, "--build", build, "--key", self.stack.path("release.key"), "--stages",
                         self.stack.path("stages.json"), *UNPROVEN)

    def test_task_processes_end_with_the_agent(self):
        self.stack.release(TASK, 1, "import walle\nwalle.result('good')\n", STAGES, more=UNPROVEN)
        for number, how in ((2, signal.SIGKILL), (3, signal.SIGTERM)):
            device = Device(self.stack, "device", "--checkin-interval", "86400", "--hints", "--crash-limit", "9")
            self.release_loop(number)
            child = wait_until(lambda: running_child(device.process.pid), 60, "the task's process at work")
            children = children_of(device.process.pid)
            self.assertIn(child, children)
            device.process.send_signal(how)
            device.process.wait(60)
            for pid in children:
                wait_until(lambda pid=pid: state_of(pid) in ("", "Z"), 60, f"{pid} to end")

    def test_what_cannot_be_kept_apart_is_an_error(self):
        arguments = ["--gateway", self.stack.gateway.tls_url, "--insecure", "--dir", self.stack.path("none"), "--id", DEVICE,
                     "--trust", self.stack.path("release.key.pub"), "--once"]
        run = subprocess.run([program("walle-device"), *arguments, "--task-runner", "/nonexistent"], capture_output=True, text=True,
                             timeout=60)
        self.assertEqual(run.returncode, 1)
        self.assertIn("/nonexistent: No such file", run.stderr)
        self.assertIn("--isolation thread", run.stderr)
        run = subprocess.run([program("walle-device"), *arguments, "--isolation", "maybe"], capture_output=True, text=True,
                             timeout=60)
        self.assertEqual(run.returncode, 2)
        run = subprocess.run([program("walle-task-runner")], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, 2)
        self.assertIn("started by walle-device", run.stderr)


if __name__ == "__main__":
    unittest.main()
