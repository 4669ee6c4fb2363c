"""A module patched in its bytecode, in a build whose hashes are right: `walle task verify` and `push` refuse it with file, byte,
function, instruction and reason, and a device that is offered it nevertheless, signed, reports `fail_load` with the same and keeps
what it has."""
import hashlib
import json
import os
import re
import shutil
import subprocess
import unittest

from test_device_agent import STAGES, TASK, Device
from walle_stack import Stack, program, wait_until

SCRIPT = "import walle\ndef score(a, b):\n    return a + b\nwalle.result(score(1, 2))\n"
SOUND = bytes.fromhex("b0b1f263")  # LOAD_FAST 0, LOAD_FAST 1, BINARY_OP +, RETURN_VALUE: the end of score
PATCHES = {  # what the instructions become, and what is said of them
    "59b1f263": r"operand stack underflows, in score at byte 0, POP_TOP",
    "b059f263": r"operand stack underflows, in score at byte 2, BINARY_OP",
    "b0b7f263": r"bytecode: \w[\w ]*, in score at byte 1, LOAD_FAST",
    "b0b1f2f2": r"function without an end, in score at byte 3, BINARY_OP",
    "b0b14263": r"bytecode: \w[\w ]*, in score at byte 2, JUMP",
}


class Patched(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway()
        self.stack.walle("key", "new", "--out", self.stack.path("release.key"))
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(STAGES, file)

    def build(self, number):
        source, build = self.stack.path(f"source{number}"), self.stack.path(f"build{number}")
        os.mkdir(source)
        task = {"name": TASK, "version": f"1.0.{number}", "entry": "task", "files": ["task.py"]}
        for name, text in (("task.json", json.dumps(task)), ("task.py", SCRIPT)):
            with open(os.path.join(source, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", source, "--out", build)
        return build

    def forge(self, build, patch):
        """The build with score's instructions replaced and every hash made right again. Returns the manifest's."""
        with open(os.path.join(build, "build.json"), encoding="utf-8") as file:
            text = file.read()
        root = json.loads(text)
        module = self.rewrite(build, root["files"][0]["sha256"], lambda code: self.patched(code, bytes.fromhex(patch)))
        old = root["files"][0]["sha256"]
        manifest = self.rewrite(build, root["manifest"], lambda body: body.replace(bytes.fromhex(old), bytes.fromhex(module)))
        shutil.copyfile(os.path.join(build, "blobs", manifest), os.path.join(build, "manifest"))
        with open(os.path.join(build, "build.json"), "w", encoding="utf-8") as file:
            file.write(text.replace(old, module).replace(root["manifest"], manifest))
        return manifest

    def patched(self, code, patch):
        self.assertEqual(code.count(SOUND), 1, code.hex())
        return code.replace(SOUND, patch)

    @staticmethod
    def rewrite(build, digest, change):
        path = os.path.join(build, "blobs", digest)
        with open(path, "rb") as file:
            content = change(file.read())
        os.remove(path)
        name = hashlib.sha256(content).hexdigest()
        with open(os.path.join(build, "blobs", name), "wb") as file:
            file.write(content)
        return name

    def test_verify_and_push_refuse(self):
        for number, (patch, words) in enumerate(PATCHES.items(), 1):
            build = self.build(number)
            self.assertEqual(self.stack.walle("task", "verify", build).returncode, 0)
            manifest = self.forge(build, patch)
            for command in ("verify", "push"):
                with self.subTest(f"{command} of {patch}"):
                    run = self.stack.walle("task", command, build, check=False)
                    self.assertEqual(run.returncode, 5, run.stdout + run.stderr)
                    self.assertRegex(run.stderr, r"task\.mpy: byte \d+: ")
                    self.assertRegex(run.stderr, words)
            versions = self.stack.api(f"/api/v1/tasks/{self.stack.quoted(TASK)}/versions/{manifest}")
            self.assertEqual(versions[0], 404, versions)

    def put(self, build):
        """By the API, as somebody would who has no use for the command's advice."""
        for name in os.listdir(os.path.join(build, "blobs")):
            subprocess.run(["curl", "-sSf", "--http2-prior-knowledge", "-T", os.path.join(build, "blobs", name),
                            "-H", self.stack.bearer, f"{self.stack.gateway.url}/api/v1/blobs/{name}"], check=True, capture_output=True, timeout=60)
        with open(os.path.join(build, "build.json"), encoding="utf-8") as file:
            manifest = json.load(file)["manifest"]
        self.stack.api("/api/v1/tasks", "POST", {"name": TASK})
        status, answer = self.stack.api(f"/api/v1/tasks/{self.stack.quoted(TASK)}/versions", "POST", {"manifest": manifest})
        self.assertIn(status, (200, 201), answer)

    def test_a_device_refuses(self):
        self.stack.release(TASK, 1, "import walle\nwalle.result('good')\n", STAGES)
        device = Device(self.stack, "device", "--hints", "--checkin-interval", "86400")
        device.wait_line(r"ran .*good")
        build = self.build(2)
        self.forge(build, next(iter(PATCHES)))
        self.put(build)
        self.stack.walle("rollout", "start", TASK, "--build", build, "--key", self.stack.path("release.key"), "--stages",
                         self.stack.path("stages.json"))
        line = device.wait_line(r"fail_load")
        self.assertRegex(line, r"operand stack underflows, in score at byte 0, POP_TOP")
        self.assertEqual(device.stop(), 0)
        self.assertNotRegex(device.wait_line(r"^state "), r"active 0{64}")  # the version that was good


if __name__ == "__main__":
    unittest.main()
