"""Cases that the device's own script VM plays: lines of Python that a task has in modules, run a few at a time, each shown as
JSON. Tests that compare what a device computes with what a library does on the same line are of this class.
"""
import json
import os
import subprocess
import tempfile
import unittest

from walle_stack import program


ENTRY = """import walle
module = __import__(walle.input['module'])
walle.result([module.run(f) for f in module.CASES[walle.input['from']:walle.input['to']]])
"""
# Behind a module's own show(), which makes JSON of a value.
RUN = """
def run(f):
    try:
        return show(f())
    except Exception as e:
        return ['e', type(e).__name__, str(e)]
"""


class ScriptTestCase(unittest.TestCase):
    name = "task"   # of the task that is built
    head = ""       # what every module of cases begins with: show() and what the cases call
    of_module = 60  # cases
    together = 12   # of one run: a result has 16 KiB

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix=f"walle-{self.name}-")
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def build(self, modules, name=None):
        name = name or self.name
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        for module, text in {"entry": ENTRY, **modules}.items():
            with open(os.path.join(folder, module + ".py"), "w", encoding="utf-8") as out:
                out.write(text)
        task = {"name": name, "version": "1.0.0", "entry": "entry", "files": ["entry.py"] + [one + ".py" for one in modules],
                "time_ms": 60000, "heap_kib": 8192}
        with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as out:
            json.dump(task, out)
        run = subprocess.run([program("walle"), "task", "build", folder, "--out", folder + ".build"], capture_output=True, text=True,
                             timeout=600)
        self.assertEqual(run.returncode, 0, run.stderr)
        return folder + ".build"

    def of_device(self, build, given):
        path = os.path.join(self.folder, "input.json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump(given, out)
        run = subprocess.run([program("walle"), "task", "run", build, "--input", path, "-o", "json"], capture_output=True, text=True,
                             timeout=300)
        self.assertEqual(run.returncode, 0, f"{given}: {run.stdout} {run.stderr}")
        answer = json.loads(run.stdout)
        self.assertEqual(answer["end"], "finished", f"{given}: {run.stdout} {run.stderr}")
        return answer["result"]

    def played(self, cases):
        """Of (name, line): (name, line, what the device shows)."""
        modules = {}
        for at in range(0, len(cases), self.of_module):
            lines = [f"def c{i}(): {line}" for i, (_, line) in enumerate(cases[at:at + self.of_module])]
            listed = ", ".join(f"c{i}" for i in range(len(lines)))
            modules[f"m{at // self.of_module}"] = self.head + RUN + "\n".join(lines) + f"\nCASES = [{listed}]\n"
        build = self.build(modules)
        shown = []
        for number in range(len(modules)):
            size = min(self.of_module, len(cases) - number * self.of_module)
            for at in range(0, size, self.together):
                shown += self.of_device(build, {"module": f"m{number}", "from": at, "to": min(at + self.together, size)})
        return [(name, line, one) for (name, line), one in zip(cases, shown, strict=True)]
