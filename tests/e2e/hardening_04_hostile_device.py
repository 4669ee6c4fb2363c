"""Hostile scripts (tests/hostile_scripts) as released tasks on the shipped agent, sanitised where the build is: signed, offered,
verified, started by events. The agent outlives them all, and each run has an end of those a run may have.

On a thread of the agent a fault of the VM is the agent's; behind the wall it is a `fail_crash`, and there is none. Runs the scripts
written by hand and 20 made ones on each; `WALLE_HOSTILE_SCRIPTS=1000` runs that many.
"""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import unittest

from walle_stack import SOURCE, Stack, program, wait_until

SCRIPTS = os.path.join(SOURCE, "tests", "hostile_scripts")
COUNT = int(os.environ.get("WALLE_HOSTILE_SCRIPTS", "20"))
BATCH = 200  # scripts of one version, which holds 272 files
WINDOW = 8  # starts under way; a device keeps 16
TASK = "hostile/corpus"
# The first run, at its activation, is of no event, and good: what fails later is reported, not replaced.
ENTRY = "from walle import data\nfor event in data.events():\n __import__(event.item)\n"
ENDS = {"ran", "fail_exception", "fail_timeout", "fail_memory"}
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 1.0}]


class Agent:
    """A walle-device that takes events from a pipe, and what it says of its runs."""

    def __init__(self, stack, number, isolation):
        self.ends = []
        self.log = []
        self.process = subprocess.Popen(
            [program("walle-device"), "--gateway", stack.gateway.tls_url, "--insecure", "--enroll-token", stack.enroll_token, "--dir",
             stack.path(f"device{number}"), "--id", f"{number:016x}", "--trust", stack.path("release.key.pub"), "--isolation",
             isolation, "--hints", "--checkin-interval", "86400", "--events", "-"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
        stack.children.append(self.process)
        self.readers = [threading.Thread(target=reader, daemon=True) for reader in (self.read_ends, self.read_log)]
        for reader in self.readers:
            reader.start()

    def read_ends(self):
        for line in self.process.stdout:
            found = re.match(rf"task {TASK} [0-9a-f]{{64}} (\w+) ?(.*)", line)
            if found and (found.group(1) == "ran" or found.group(1).startswith("fail_")):
                self.ends.append(found.groups())

    def read_log(self):
        for line in self.process.stderr:
            self.log.append(line)

    def wait_ends(self, count, what):
        wait_until(lambda: len(self.ends) >= count or self.process.poll() is not None, 240, what)
        if len(self.ends) < count:
            raise AssertionError(f"the agent ended at {what}: {''.join(self.log)[-4000:]}")

    def attack(self, script):
        self.process.stdin.write(json.dumps({"kind": "custom", "name": "attack", "page": "p", "item": script}) + "\n")
        self.process.stdin.flush()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        for reader in self.readers:
            reader.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        return status


class HostileDevice(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway("--set", "rollout.tick_ms=100")
        self.stack.walle("key", "new", "--out", self.stack.path("release.key"))
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(STAGES, file)

    def release(self, number, paths):
        """A version that holds these scripts and runs the one that an event names."""
        folder, build = self.stack.path(f"source{number}"), self.stack.path(f"build{number}")
        os.mkdir(folder)
        with open(os.path.join(folder, "entry.py"), "w", encoding="utf-8") as file:
            file.write(ENTRY)
        task = {"name": TASK, "version": f"1.0.{number}", "entry": "entry", "triggers": ["custom:attack"],
                "files": ["entry.py"] + [{"name": os.path.basename(path), "path": path} for path in paths],
                "time_ms": 500, "heap_kib": 256}
        with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as file:
            json.dump(task, file)
        self.stack.walle("task", "build", folder, "--out", build)
        self.stack.walle("task", "push", build)
        started = self.stack.walle("rollout", "start", TASK, "--build", build, "--key", self.stack.path("release.key"), "--stages",
                                   self.stack.path("stages.json"), "-o", "json")
        return json.loads(started.stdout)["id"]

    def all_end(self, number, isolation, paths):
        names = [os.path.basename(path)[:-3] for path in paths]
        rollout = self.release(number, paths)
        agent = Agent(self.stack, number, isolation)
        agent.wait_ends(1, "the run of its activation")
        self.assertEqual(agent.ends[0][0], "ran", agent.ends)
        for at, name in enumerate(names):
            agent.wait_ends(at + 2 - WINDOW, f"{names[max(0, at - WINDOW):at]}")
            agent.attack(name)
        agent.wait_ends(len(names) + 1, f"{names[-WINDOW:]}")
        ends = dict(zip(names, agent.ends[1:]))
        self.assertEqual({name: end for name, end in ends.items() if end[0] not in ENDS}, {})
        self.assertEqual(agent.stop(), 0, "".join(agent.log)[-4000:])
        self.assertNotIn("runtime error", "".join(agent.log))
        # The next release has its way back to this one.
        wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout}")[1].get("state") == "completed", 60, "the rollout to complete")
        return ends

    def test_the_agent_outlives_them(self):
        made = self.stack.path("made")
        os.mkdir(made)
        subprocess.run([sys.executable, "-B", "-W", "ignore", os.path.join(SCRIPTS, "generate.py"), "0", str(COUNT), made], check=True)
        paths = sorted(os.path.join(SCRIPTS, name) for name in os.listdir(SCRIPTS) if name.endswith(".py") and name != "generate.py")
        paths += [os.path.join(made, f"s{number}.py") for number in range(COUNT)]
        number, kinds = 0, set()
        for first in range(0, len(paths), BATCH):
            for isolation in ("thread", "process"):
                number += 1
                with self.subTest(f"{isolation}, {first} and on"):
                    ends = self.all_end(number, isolation, paths[first:first + BATCH])
                    kinds |= {end[0] for end in ends.values()}
        self.assertGreater(len(kinds), 1)  # they were run


if __name__ == "__main__":
    unittest.main()
