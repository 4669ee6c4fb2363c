"""Hostile scripts (tests/hostile_scripts) in the shipped `walle task run`, sanitised where the build is: whatever a
script does, the program that runs it says how the script ended.

Runs the scripts written by hand and 40 made ones; `WALLE_HOSTILE_SCRIPTS=1000` runs that many. A made script is its
number: `python3 tests/hostile_scripts/generate.py NUMBER` prints it.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

from walle_stack import SOURCE, program

SCRIPTS = os.path.join(SOURCE, "tests", "hostile_scripts")
COUNT = int(os.environ.get("WALLE_HOSTILE_SCRIPTS", "40"))
BATCH = 200  # scripts of one build: a version holds 272 files
ENDS = ("finished", "exception", "budget", "memory", "stack")
ENTRY = "import walle\n__import__(walle.input)\n"


class HostileScripts(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="walle-hostile-")
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def build(self, name, paths):
        """A task whose entry imports the script its input names."""
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        with open(os.path.join(folder, "entry.py"), "w", encoding="utf-8") as file:
            file.write(ENTRY)
        task = {"name": "hostile", "version": "1.0.0", "entry": "entry",
                "files": ["entry.py"] + [{"name": os.path.basename(path), "path": path} for path in paths],
                "time_ms": 500, "heap_kib": 256}
        with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as file:
            json.dump(task, file)
        subprocess.run([program("walle"), "task", "build", folder, "--out", folder + ".build"], check=True,
                       stdout=subprocess.DEVNULL)
        return folder + ".build"

    def end_of(self, build, script):
        given = os.path.join(self.folder, f"{script}.json")
        with open(given, "w", encoding="utf-8") as file:
            json.dump(script, file)
        run = subprocess.run([program("walle"), "task", "run", build, "--input", given, "-o", "json"], capture_output=True,
                             text=True, errors="replace", timeout=120)
        try:
            end = json.loads(run.stdout)["end"]
        except ValueError:
            end = None
        if run.returncode not in (0, 1) or end is None or "runtime error" in run.stderr:
            return f"{script}: exit {run.returncode}: {run.stderr[:3000]}"
        return None if end in ENDS else f"{script}: ended {end}"

    def all_end(self, name, paths):
        build = self.build(name, paths)
        with ThreadPoolExecutor(max_workers=2) as pool:
            faults = list(pool.map(lambda path: self.end_of(build, os.path.basename(path)[:-3]), paths))
        self.assertEqual([fault for fault in faults if fault is not None], [])

    def test_written_by_hand(self):
        names = sorted(name for name in os.listdir(SCRIPTS) if name.endswith(".py") and name != "generate.py")
        self.assertGreater(len(names), 20)
        self.all_end("hand", [os.path.join(SCRIPTS, name) for name in names])

    def test_made(self):
        made = os.path.join(self.folder, "made")
        os.mkdir(made)
        subprocess.run([sys.executable, "-B", "-W", "ignore", os.path.join(SCRIPTS, "generate.py"), "0", str(COUNT), made], check=True)
        for first in range(0, COUNT, BATCH):
            paths = [os.path.join(made, f"s{number}.py") for number in range(first, min(first + BATCH, COUNT))]
            self.all_end(f"batch{first}", paths)


if __name__ == "__main__":
    unittest.main()
