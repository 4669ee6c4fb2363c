"""The simulate stage of a version with exclusive files: virtual devices have theirs, those of nobody run without or are not
concerned, and what is wrong in one user's files is seen before any device has them."""
import json
import os
import shutil
import subprocess
import unittest

from walle_stack import Stack, program

DEVICES = 300
ONE, TWO = "00000000000000aa", "fedcba9876543210"
SCRIPT = """import walle
try:
    import own
    walle.result(own.value)
except ImportError:
    walle.result(0)
"""


class SimulateExclusive(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def build(self, exclusive, required=False, script=SCRIPT):
        source, build = self.stack.path("source"), self.stack.path("build")
        for folder in (source, build):
            shutil.rmtree(folder, ignore_errors=True)
        files = {"task.json": json.dumps({"name": "taste", "version": "1.0.0", "entry": "task", "files": ["task.py"],
                                          "exclusive": {"path": "exclusive", "required": required}}),
                 "task.py": script, **{f"exclusive/{subject}/own.py": text for subject, text in exclusive.items()}}
        for name, text in files.items():
            path = os.path.join(source, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", source, "--out", build)
        return build

    def simulate(self, build, *arguments, code=0):
        run = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", build, "--devices", str(DEVICES), "--no-live", "--threads", "2",
                              "--out", self.stack.path("sim"), *arguments], capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        if code > 1:
            return run.stdout + run.stderr
        with open(self.stack.path("sim", "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertTrue(all(oracle["holds"] for oracle in result["oracles"]), result["oracles"])
        return result

    def test_devices_have_theirs(self):
        build = self.build({f"device/{ONE}": "value = 1\n", f"device/{TWO}": "value = 2\n", "user/ana": "value = 3\n", "user/ben": "value = 4\n"})
        result = self.simulate(build)
        self.assertEqual((result["completed"], result["failed"]), (DEVICES, 0))
        self.assertTrue(0.3 * DEVICES < result["totals"]["exclusive_runs"] < 0.7 * DEVICES, result["totals"])
        self.assertEqual(self.simulate(build, "--exclusive", "0")["totals"]["exclusive_runs"], 2)  # these have them by their ids
        result = self.simulate(build, "--exclusive", "100%", "--kills", "20%", "--seed", "7")  # in the middle of pulling them, too
        self.assertEqual(result["completed"], DEVICES)
        self.assertGreaterEqual(result["totals"]["exclusive_runs"], DEVICES)

    def test_who_has_none_of_what_is_required(self):
        build = self.build({f"device/{ONE}": "value = 1\n", "user/ana": "value = 3\n"}, required=True)
        result = self.simulate(build, "--exclusive", "0")
        self.assertEqual((result["completed"], result["totals"]["runs"], result["totals"]["exclusive_runs"]), (1, 1, 1))
        result = self.simulate(build, "--exclusive", "100%")
        self.assertEqual((result["completed"], result["failed"]), (DEVICES, 0))
        result = self.simulate(build)
        self.assertTrue(0.3 * DEVICES < result["completed"] < 0.7 * DEVICES, result["completed"])

    def test_one_user_whose_files_are_wrong(self):
        build = self.build({"user/ana": "value = 3\n", "user/ben": "value = 1 // 0\n"})
        result = self.simulate(build, "--exclusive", "100%", code=1)
        self.assertEqual(result["completed"], DEVICES)
        self.assertTrue(0.3 * DEVICES < result["failed"] < 0.7 * DEVICES, result["failed"])
        self.assertFalse(result["passed"])

    def test_folders_that_are_not_whole(self):
        build = self.build({f"device/{ONE}": "value = 1\n", "user/ana": "value = 3\n"})
        blobs = os.path.join(build, "blobs")
        with open(os.path.join(build, "build.json"), encoding="utf-8") as file:
            shared = {item["sha256"] for item in json.load(file)["files"]}
        own = sorted(set(os.listdir(blobs)) - shared)
        self.assertGreaterEqual(len(own), 4)  # two exclusive manifests, two files
        for name in own:
            path = os.path.join(blobs, name)
            with open(path, "rb") as file:
                content = file.read()
            os.remove(path)
            if content[:4] not in (b"WLXL", b"WLM2"):  # list and manifest are read from beside the folder
                self.assertIn(name, self.simulate(build, code=4))
            with open(path, "wb") as file:
                file.write(content)
        path = os.path.join(build, "exclusive")
        with open(path, "rb") as file:
            content = bytearray(file.read())
        content[-1] ^= 1
        with open(path, "wb") as file:
            file.write(content)
        self.assertIn("not the exclusive files the manifest names", self.simulate(build, code=4))
        os.remove(path)
        self.assertIn("exclusive: No such file", self.simulate(build, code=4))


if __name__ == "__main__":
    unittest.main(verbosity=2)
