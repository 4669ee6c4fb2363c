#!/usr/bin/env python3
"""What an app gives to a run as walle.input: the bytes that it hands over under the name `input`, JSON. In the agent, in both ways, in the simulator
and in `walle task run` it is the same; what is no JSON is an error where a script asks for it, and costs nobody else anything."""
import json
import os
import re
import subprocess
import unittest

from walle_stack import Stack, program

SCRIPT = "import walle\ntry:\n    walle.result([walle.input, len(walle.blobs())])\nexcept ValueError:\n    walle.result('no JSON')\n"
GIVEN = {"none": ({}, [None, 0]), "one": ({"input": '{"n": [1, 2.5, "\u00e9"]}'}, [{"n": [1, 2.5, "\u00e9"]}, 1]), "damaged": ({"input": "words"}, "no JSON"),
         "another": ({"camera": "1"}, [None, 1]), "large": ({"input": json.dumps("x" * 70000)}, [None, 1])}


class Input(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        folder, self.build = self.stack.path("task"), self.stack.path("build")
        os.makedirs(folder)
        task = {"name": "shop/given", "version": "1.0.0", "entry": "given", "files": ["given.py"], "heap_kib": 1024}
        for name, text in (("task.json", json.dumps(task)), ("given.py", SCRIPT)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", folder, "--out", self.build)

    def give(self, name):
        arguments = []
        for blob, text in GIVEN[name][0].items():
            path = self.stack.path(name + "." + blob)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            arguments += ["--give", f"{blob}={path}"]
        return arguments

    def test_in_the_agent(self):
        self.stack.start_hasty_gateway()
        public = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.split()[-1]
        stages = self.stack.path("stages.json")
        with open(stages, "w", encoding="utf-8") as file:
            json.dump([{"name": "full", "kind": "full", "min_sample": 100, "min_dwell_s": 0}], file)
        self.stack.walle("task", "push", self.build)
        self.stack.walle("rollout", "start", "shop/given", "--build", self.build, "--key", self.stack.path("key"), "--stages", stages)
        for number, (name, (_, wanted)) in enumerate(GIVEN.items(), 1):
            for isolation in ("process", "thread"):
                said = subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--dir",
                                       self.stack.path(name + isolation), "--id", f"{number:08x}{isolation == 'thread':08x}", "--trust", public,
                                       "--isolation", isolation, "--once", *self.give(name)], capture_output=True, text=True, timeout=120, check=False)
                self.assertEqual(said.returncode, 0, said.stderr)
                found = re.findall(r"^task shop/given [0-9a-f]{64} (\w+) \d+ us (.*)$", said.stdout, re.M)
                self.assertEqual([(outcome, json.loads(result)) for outcome, result in found], [("ran", wanted)], (name, isolation))

    def test_on_this_machine(self):
        for name, (_, wanted) in GIVEN.items():
            said = json.loads(self.stack.walle("task", "run", self.build, "-o", "json", *self.give(name)).stdout)
            self.assertEqual(said["result"], wanted, name)
        other = self.stack.path("other.json")
        with open(other, "w", encoding="utf-8") as file:
            file.write("7")
        said = json.loads(self.stack.walle("task", "run", self.build, "-o", "json", *self.give("one"), "--input", other).stdout)
        self.assertEqual(said["result"], [7, 1])

    def test_in_the_simulator(self):
        folder, build, out = self.stack.path("needs"), self.stack.path("needs.build"), self.stack.path("sim")
        os.makedirs(folder)
        for name, text in (("task.json", json.dumps({"name": "needs", "version": "1.0.0", "entry": "needs", "files": ["needs.py"]})),
                           ("needs.py", "import walle\nassert walle.input['n'][0] == 1\n")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", folder, "--out", build)
        for name, failed in (("one", 0), ("none", 10)):
            subprocess.run([program("walle-fleet-sim"), "simulate", "--task", build, "--devices", "10", "--no-live", "--behaviour", "none", "--out", out,
                            *self.give(name)], capture_output=True, timeout=200, check=False)
            with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["failed"], failed, name)
            subprocess.run(["rm", "-r", out], check=True)


if __name__ == "__main__":
    unittest.main()
