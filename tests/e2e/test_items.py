"""The task worth copying that looks at frames (conf/tasks/items): its models and frames are made, and it runs by `walle task run`, in
the agent, in both ways, and in the simulator; a data file and the app's frames reach it, and what is missing is said."""
import json
import os
import shutil
import subprocess
import unittest

from task_example import TaskExample
from walle_stack import program

FRAMES = 8


def overlap(a, b):
    across = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    down = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    return across * down / (a[2] * a[3] + b[2] * b[3] - across * down) if across > 0 and down > 0 else 0


class Items(TaskExample):
    TASK, MADE = "items", ("--frames", FRAMES)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.frames, cls.truth = os.path.join(cls.made, "frames"), cls.made_json("frames.json")

    def setUp(self):
        super().setUp()
        self.build = self.built(self.task)

    def run_on(self, *arguments, code=0):
        run = subprocess.run([program("walle"), "task", "run", self.build, "-o", "json", *arguments], capture_output=True, text=True, timeout=200,
                             check=False)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return json.loads(run.stdout)["result"] if code == 0 else run.stderr

    def test_finds_and_names_what_is_there(self):
        """At least nine of ten items, where they are and by their kind; at most one in ten that is none."""
        there = found = wrong = 0
        for name, truth in self.truth.items():
            result = self.run_on("--give", f"camera={os.path.join(self.frames, name)}")
            self.assertEqual(result["frame"], [128, 96])
            there += len(truth)
            hits = [any(item["kind"] == said["kind"] and overlap(item["box"], said["box"]) > 0.5 for said in result["items"]) for item in truth]
            found += sum(hits)
            wrong += max(0, len(result["items"]) - sum(hits))
        self.assertGreater(there, FRAMES / 2)
        self.assertGreaterEqual(found, 0.9 * there, (found, there))
        self.assertLessEqual(wrong, 0.1 * there, (wrong, there))

    def test_without_a_frame(self):
        self.assertEqual(self.run_on(), {"frame": None, "items": []})
        no_frame = self.stack.path("no.jpg")
        with open(no_frame, "wb") as file:
            file.write(b"no picture")
        run = subprocess.run([program("walle"), "task", "run", self.build, "--give", f"camera={no_frame}"], capture_output=True, text=True,
                             timeout=200, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stdout, r"ValueError: walle.cv: .*items.py:\d+")

    def test_what_the_option_refuses(self):
        """By name and reason, in all three programs."""
        frame = os.path.join(self.frames, "frame0000.jpg")
        empty = self.stack.path("empty")
        os.makedirs(empty)
        for text, why in ((frame, "is not NAME=PATH"), ("Camera=" + frame, "is not NAME=PATH"), ("camera=" + empty, "no file in it"),
                          ("camera=" + self.stack.path("none.jpg"), "none.jpg: No such file")):
            self.assertIn(why, self.run_on("--give", text, code=5))
            for command in (["walle-device", "--gateway", "http://127.0.0.1:1", "--dir", empty, "--give", text],
                            ["walle-fleet-sim", "simulate", "--task", self.build, "--devices", "1", "--no-live", "--give", text]):
                run = subprocess.run([program(command[0]), *command[1:]], capture_output=True, text=True, timeout=100, check=False)
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(why, run.stdout + run.stderr, command)
        self.assertIn("'camera' is there twice", self.run_on("--give", "camera=" + frame, "--give", "camera=" + frame, code=5))

    def test_in_the_agent(self):
        frame = os.path.join(self.frames, next(name for name, truth in self.truth.items() if truth))
        wanted = self.run_on("--give", "camera=" + frame)
        self.assertGreater(len(wanted["items"]), 0)
        self.runs_in_agents(self.build, wanted, "--give", "camera=" + frame)

    def test_in_a_fleet_in_stages(self):
        """What each device finds on its frame is what `walle task run` finds there."""
        build, results = self.judged("camera", self.frames)
        self.assertGreater(results, FRAMES / 2)
        self.passes_in_a_fleet(build, "--give", "camera=" + self.frames)

    def test_in_the_simulator(self):
        """Each device has a frame of the folder, and does the same in each run of the same seed."""
        runs = [self.passes_in_the_simulator(self.build, "--behaviour", "none", "--give", "camera=" + self.frames)["totals"]["runs"] for _ in range(2)]
        self.assertEqual(runs[0], runs[1])

    def test_frames_reach_virtual_devices(self):
        """A script that needs a frame: with the option each device has one, without it none."""
        source, build = self.stack.path("needs"), self.stack.path("needs.build")
        os.makedirs(source)
        for name, text in (("task.json", json.dumps({"name": "needs", "version": "1.0.0", "entry": "needs", "files": ["needs.py"]})),
                           ("needs.py", "import walle\nassert walle.blob('camera')[:2] == b'\\xff\\xd8'\n")):
            with open(os.path.join(source, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", source, "--out", build)
        for arguments, failed in ((["--give", "camera=" + self.frames], 0), ([], 20)):
            out = self.stack.path("needs.sim")
            subprocess.run([program("walle-fleet-sim"), "simulate", "--task", build, "--devices", "20", "--no-live", "--behaviour", "none", "--out", out,
                            *arguments], capture_output=True, timeout=200, check=False)
            with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["failed"], failed, arguments)
            shutil.rmtree(out)


if __name__ == "__main__":
    unittest.main()
