"""Scripts that never came back, in the shipped `walle task run`: with time_ms 500 each ends by its budget, and scripts
that forged memory end as scripts do."""
import json
import os
import subprocess
import tempfile
import unittest

from walle_stack import SOURCE, program

SCRIPTS = os.path.join(SOURCE, "tests", "hostile_scripts")


class TaskEnds(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="walle-ends-")
        self.addCleanup(self.scratch.cleanup)

    def end_of(self, name):
        folder, build = os.path.join(self.scratch.name, name), os.path.join(self.scratch.name, name + ".build")
        os.mkdir(folder)
        task = {"name": "hostile", "version": "1.0.0", "entry": name,
                "files": [{"name": f"{name}.py", "path": os.path.join(SCRIPTS, f"{name}.py")}],
                "time_ms": 500, "heap_kib": 4096}
        with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as file:
            json.dump(task, file)
        subprocess.run([program("walle"), "task", "build", folder, "--out", build], check=True, stdout=subprocess.DEVNULL)
        run = subprocess.run([program("walle"), "task", "run", build, "-o", "json"], capture_output=True, text=True,
                             timeout=60)
        self.assertIn(run.returncode, (0, 1), run.stderr)
        return json.loads(run.stdout)

    def test_endless_scripts_end_by_their_budget(self):
        for name in ("endless_struct", "endless_nothing", "endless_classes", "endless_collector", "endless_numbers",
                     "endless_pattern", "endless_text", "endless_keys", "never_give_up"):
            with self.subTest(name):
                answer = self.end_of(name)
                self.assertEqual(answer["end"], "budget", answer)
                self.assertIn("time budget of 500 ms used up", answer["message"])

    def test_forgeries_end_as_scripts_do(self):
        for name, end in (("forge_by_deque", "memory"), ("forge_by_repeat", "finished"), ("forge_by_len", "finished"),
                          ("forge_by_star", "finished"), ("forge_by_match", "finished"), ("forge_by_seek", "finished"), ("forge_by_typecode", "finished")):
            with self.subTest(name):
                self.assertEqual(self.end_of(name)["end"], end)


if __name__ == "__main__":
    unittest.main()
