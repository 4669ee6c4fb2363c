"""The demonstration's task in the device's VM against the same Python files under CPython.

CPython gets a stand-in for the walle module; results must be equal, value by value. So the compiler, the interpreter and
the task agree with an independent implementation of the language.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from walle_stack import SOURCE, program

TASKS = os.path.join(SOURCE, "conf", "tasks")

# Runs in a CPython of its own: argv = task folder, device JSON, input JSON. Prints the result or the exception.
ORACLE = r"""
import json, os, sys, types, traceback
from importlib.util import spec_from_file_location
folder, device, given = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
task = json.load(open(os.path.join(folder, "task.json")))
walle = types.ModuleType("walle")
walle.config, walle.device, walle.input = task.get("config", {}), device, given
walle.log = lambda *values: None
walle.result = lambda value: setattr(walle, "given", value)
sys.modules["walle"] = walle
paths = {}
for entry in task["files"]:
    name, path = (entry, entry) if isinstance(entry, str) else (entry["name"], entry.get("path", entry["name"]))
    paths[name[:-3]] = os.path.join(folder, path)
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return spec_from_file_location(name, paths[name]) if name in paths else None
sys.meta_path.insert(0, Finder)
try:
    __import__(task["entry"])
    print(json.dumps({"result": walle.given}))
except Exception as error:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    print(json.dumps({"type": type(error).__name__, "message": str(error), "file": os.path.basename(frame.filename),
                      "line": frame.lineno}))
"""

EVENTS = [
    ["enter", 0, 1, 42, None], ["scroll", 900, 1, 42, 30], ["exposure", 1500, 1, 42, 3], ["scroll", 2100, 1, 42, 85],
    ["click", 2600, 1, 42, "favourite"], ["click", 2700, 1, 42, "no such button"], ["scroll", 2500, 1, 42, 99],
    ["enter", 3000, 2, 43, None], ["click", 4000, 2, 43, "cart"], ["click", 4500, 9, 44, "buy"], ["exit", 5000, 1, 42, None],
    ["click", 5100, 2, 43, "buy"], ["exit", 9000, 2, 43, None], ["enter", 9500, 3, 44, None],
]


class DemoTask(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="walle-task-")
        cls.builds = {}
        for name in ("ipv", "ipv_v2"):
            cls.builds[name] = os.path.join(cls.scratch.name, name)
            subprocess.run([program("walle"), "task", "build", os.path.join(TASKS, name), "--out", cls.builds[name]],
                           check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def file(self, name, value):
        path = os.path.join(self.scratch.name, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
        return path

    def vm(self, task, device, given=None):
        attrs = {key: value for key, value in device.items() if key != "id"}
        command = [program("walle"), "task", "run", self.builds[task], "--device", device["id"], "--attrs",
                   self.file("attrs.json", attrs), "-o", "json"]
        if given is not None:
            command += ["--input", self.file("input.json", given)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
        answer = json.loads(run.stdout)
        self.assertEqual(run.returncode, 0 if answer["end"] == "finished" else 1, run.stderr)
        return answer

    def oracle(self, task, device, given=None):
        run = subprocess.run([sys.executable, "-B", "-c", ORACLE, os.path.join(TASKS, task), json.dumps(device),
                              json.dumps(given)], capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)

    def same(self, task, device, given=None):
        vm, oracle = self.vm(task, device, given), self.oracle(task, device, given)
        if "result" in oracle:
            self.assertEqual(vm["end"], "finished", vm)
            self.assertEqual(vm["result"], oracle["result"])
        else:
            self.assertEqual({key: vm[key] for key in oracle}, oracle)
        return vm

    def test_rehearsal_logs_of_many_devices(self):
        results = []
        for index in range(24):
            device = {"id": f"{(index * 0x9e3779b97f4a7c15) % 2**64:016x}", "os": ("android", "ios")[index % 2],
                      "os_version": str(12 + index % 5), "ram_mb": 4096}
            for task in ("ipv", "ipv_v2"):
                answer = self.same(task, device)
                self.assertEqual(answer["result"]["source"], "rehearsal")
                self.assertEqual(len(answer["result"]["visits"]), 3)
                results.append(json.dumps(answer["result"]))
        self.assertGreater(len(set(results)), 24, "devices see logs of their own")

    def test_given_events(self):
        answer = self.same("ipv", {"id": "0123456789abcdef"}, EVENTS)["result"]
        self.assertEqual((answer["source"], answer["events"], answer["dropped"]), ("input", len(EVENTS), 3))
        first, second = answer["visits"]
        self.assertEqual((first["item"], first["depth"], first["favourite"], first["dwell_ms"]), (42, 85, 1, 5000))
        self.assertEqual((second["cart"], second["buy"], second["dwell_ms"]), (1, 1, 6000))
        self.assertGreater(second["score_ppm"], first["score_ppm"])

    def test_version_2_breaks_on_old_android_alone(self):
        for version in ("8", "9.1", "10", "11.0.3"):
            answer = self.same("ipv_v2", {"id": "00000000000000aa", "os": "android", "os_version": version})
            self.assertEqual((answer["end"], answer["type"], answer["file"]), ("exception", "KeyError", "features.py"))
        for device in ({"os": "android", "os_version": "12"}, {"os": "android", "os_version": "14.1"},
                       {"os": "ios", "os_version": "9"}, {}):
            self.assertEqual(self.same("ipv_v2", {"id": "00000000000000aa", **device})["end"], "finished")


if __name__ == "__main__":
    unittest.main(verbosity=2)
