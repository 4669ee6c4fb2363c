"""The task worth copying that looks at frames (conf/tasks/items): its models and frames are made, and it runs by `walle task run`, in
the agent, in both ways, and in the simulator; a data file and the app's frames reach it, and what is missing is said."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from walle_stack import SOURCE, Stack, program, wait_until

MAKER = os.path.join(SOURCE, "conf", "tasks", "items", "make_items.py")
FRAMES, DEVICES = 8, 60
TASK = "items"


def overlap(a, b):
    across = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    down = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    return across * down / (a[2] * a[3] + b[2] * b[3] - across * down) if across > 0 and down > 0 else 0


class Items(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.mkdtemp(prefix="walle-items-")
        cls.addClassCleanup(shutil.rmtree, cls.made)
        subprocess.run([sys.executable, MAKER, cls.made, "--frames", str(FRAMES)], check=True, timeout=500,
                       env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
        cls.frames = os.path.join(cls.made, "frames")
        with open(os.path.join(cls.made, "frames.json"), encoding="utf-8") as file:
            cls.truth = json.load(file)

    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.build = self.stack.path("build")
        self.stack.walle("task", "build", os.path.join(self.made, "task"), "--out", self.build)

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
        """In a process of its own and on a thread: the very result of `walle task run`."""
        frame = os.path.join(self.frames, next(name for name, truth in self.truth.items() if truth))
        wanted = self.run_on("--give", "camera=" + frame)
        self.assertGreater(len(wanted["items"]), 0)
        self.stack.start_gateway("--set", "rollout.tick_ms=50")
        key = self.stack.path("key")
        public = self.stack.walle("key", "new", "--out", key).stdout.strip().splitlines()[-1]
        self.stack.walle("task", "push", self.build)
        stages = self.stack.path("stages.json")
        with open(stages, "w", encoding="utf-8") as file:
            json.dump([{"name": "full", "kind": "full", "min_sample": 1, "min_dwell_s": 0}], file)
        self.stack.walle("rollout", "start", TASK, "--build", self.build, "--key", key, "--stages", stages)
        for number, isolation in enumerate(("process", "thread"), 1):
            folder, output = self.stack.path(isolation), self.stack.path(isolation + ".out")
            with open(output, "w", encoding="utf-8") as out, open(self.stack.path(isolation + ".log"), "w", encoding="utf-8") as log:
                device = self.stack.spawn(
                    "walle-device", "--gateway", self.stack.gateway.tls_url, "--enroll-token", self.stack.enroll_token, "--ca",
                    os.path.join(self.stack.gateway.folder, "cert.pem"), "--dir", folder, "--id", f"{number:016x}", "--trust", public,
                    "--checkin-interval", "1", "--isolation", isolation, "--give", "camera=" + frame, stdout=out, stderr=log)

            def told(path=output):
                with open(path, encoding="utf-8") as file:
                    return re.findall(rf"^task {TASK} [0-9a-f]{{64}} (\w+) \d+ us (.*)$", file.read(), re.M)
            outcome, result = wait_until(told, timeout_s=120, what="a run")[0]
            self.assertEqual(outcome, "ran", result)
            self.assertEqual(json.loads(result), wanted, isolation)
            device.terminate()
            self.assertEqual(device.wait(60), 0)

    def test_in_a_fleet_in_stages(self):
        self.stack.start_gateway("--set", "rollout.tick_ms=50")
        key, stages = self.stack.path("key"), self.stack.path("stages.json")
        public = self.stack.walle("key", "new", "--out", key).stdout.strip().splitlines()[-1]
        self.stack.walle("task", "push", self.build)
        with open(stages, "w", encoding="utf-8") as file:
            json.dump([{"name": "gray", "kind": "gray", "percent": 30, "min_sample": 8, "min_dwell_s": 1, "max_failure": 0.05},
                       {"name": "full", "kind": "full", "percent": 100, "min_sample": 20, "min_dwell_s": 1, "max_failure": 0.05}], file)
        with open(self.stack.path("fleet.log"), "w+", encoding="utf-8") as log:
            fleet = self.stack.spawn("walle-fleet-sim", "run", "--devices", str(DEVICES), "--gateway", self.stack.gateway.url, "--trust", public,
                                     "--enroll-token", os.path.join(self.stack.gateway.folder, "enroll.token"), "--task", TASK, "--checkin-interval",
                                     "1", "--give", "camera=" + self.frames, "--until-coverage", "100%", "--duration", "150", "--no-live", "--out",
                                     self.stack.path("fleet"), stdout=log, stderr=log)
            rollout = json.loads(self.stack.walle("rollout", "start", TASK, "--build", self.build, "--key", key, "--stages", stages, "-o",
                                                  "json").stdout)["id"]
            self.assertEqual(fleet.wait(200), 0, log.seek(0) or log.read())
        status, state = self.stack.api(f"/api/v1/rollouts/{rollout}")
        self.assertEqual((status, state["counts"]["succeeded"], state["counts"]["failed"]), (200, DEVICES, 0), state)
        self.assertIn(" advance ", self.stack.walle("rollout", "log", rollout).stdout)  # from the first stage to the next

    def test_in_the_simulator(self):
        """Each device has a frame of the folder, and does the same in each run of the same seed."""
        digests = []
        for _ in range(2):
            out = self.stack.path("sim")
            shutil.rmtree(out, ignore_errors=True)
            run = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", self.build, "--devices", str(DEVICES), "--no-live", "--threads",
                                  "2", "--behaviour", "none", "--give", "camera=" + self.frames, "--out", out], capture_output=True, text=True,
                                 timeout=300, check=False)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
                result = json.load(file)
            self.assertEqual((result["completed"], result["failed"]), (DEVICES, 0), run.stdout)
            digests.append(result["totals"]["runs"])
        self.assertEqual(digests[0], digests[1])

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
