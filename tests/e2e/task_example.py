"""What the tests of the tasks worth copying (conf/tasks/items, voice, taste) share: the task is made once for a class, and each test has a
stack of its own, in which the task is released, run by agents, by a fleet in stages, and by the simulator."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from walle_stack import SOURCE, Stack, program, wait_until

DEVICES = 60 if os.environ.get("WALLE_SANITIZE") else 1000  # virtual ones
REAL_EVERY = DEVICES // 20  # of them, which share no work with others: what is shared is compared with theirs
FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.5}]
STAGES = [{"name": "gray", "kind": "gray", "percent": 30, "min_sample": 8, "min_dwell_s": 1, "max_failure": 0.05},
          {"name": "full", "kind": "full", "percent": 100, "min_sample": 20, "min_dwell_s": 1, "max_failure": 0.05}]


class TaskExample(unittest.TestCase):
    TASK = None  # its folder's name in conf/tasks, which is the task's own
    MADE = ()    # arguments of its maker
    GATEWAY = ("--set", "rollout.tick_ms=50")

    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.mkdtemp(prefix=f"walle-{cls.TASK}-")
        cls.addClassCleanup(shutil.rmtree, cls.made)
        cls.make(cls.made, *cls.MADE)
        cls.task = os.path.join(cls.made, "task")

    @classmethod
    def make(cls, out, *arguments):
        subprocess.run([sys.executable, os.path.join(SOURCE, "conf", "tasks", cls.TASK, f"make_{cls.TASK}.py"), out, *map(str, arguments)],
                       check=True, timeout=500, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})

    @classmethod
    def made_json(cls, name):
        with open(os.path.join(cls.made, name), encoding="utf-8") as file:
            return json.load(file)

    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def built(self, task, name="build"):
        """Tried on the samples that its maker put beside it."""
        build = self.stack.path(name)
        tried = json.loads(self.stack.walle("task", "build", task, "--out", build, "-o", "json").stdout)["dry_run"]["samples"]
        self.assertGreater(len(tried), 0)
        self.assertEqual({run["end"] for sample in tried for run in sample["runs"]}, {"finished"})
        return build

    # ---- Releases

    def start_gateway(self):
        """Gives the public key that devices trust."""
        self.stack.start_gateway(*self.GATEWAY)
        return self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]

    def release(self, build, stages=None):
        """Pushes a build and starts its rollout; gives the rollout's id."""
        path = self.stack.path("stages.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(stages or FULL, file)
        self.stack.walle("task", "push", build)
        return json.loads(self.stack.walle("rollout", "start", self.TASK, "--build", build, "--key", self.stack.path("key"), "--stages", path, "-o",
                                           "json").stdout)["id"]

    # ---- Where it runs

    def runs_in_agents(self, build, wanted, *arguments):
        """In a process of its own and on a thread: the very result of `walle task run`."""
        public = self.start_gateway()
        self.release(build)
        for number, isolation in enumerate(("process", "thread"), 1):
            output = self.stack.path(isolation + ".out")
            with open(output, "w", encoding="utf-8") as out, open(self.stack.path(isolation + ".log"), "w", encoding="utf-8") as log:
                device = self.stack.spawn(
                    "walle-device", "--gateway", self.stack.gateway.tls_url, "--enroll-token", self.stack.enroll_token, "--ca",
                    os.path.join(self.stack.gateway.folder, "cert.pem"), "--dir", self.stack.path(isolation), "--id", f"{number:016x}", "--trust",
                    public, "--checkin-interval", "1", "--verbose", "--isolation", isolation, *arguments, stdout=out, stderr=log)

            def told(path=output):
                with open(path, encoding="utf-8") as file:
                    return re.findall(rf"^task {self.TASK} [0-9a-f]{{64}} (\w+) \d+ us (.*)$", file.read(), re.M)
            outcome, result = wait_until(told, timeout_s=120, what="a run")[0]
            self.assertEqual((outcome, json.loads(result)), ("ran", wanted), isolation)
            device.terminate()
            self.assertEqual(device.wait(60), 0)
            with open(self.stack.path(isolation + ".log"), encoding="utf-8") as file:
                text = file.read()
            for words in ("", r"\d+ runs, on average "):  # of each run, and when the agent ends
                spent = re.search(rf"task {self.TASK}: {words}(\d+) us to prepare, (\d+) us with models, (\d+) us to finish", text)
                self.assertIsNotNone(spent, text)
                self.assertGreater(int(spent[1]) * int(spent[2]), 0, spent[0])

    def judged(self, blob, folder):
        """The task, but that a run fails whose result is not the one that `walle task run` gives for the file that it was given: what
        each device of a fleet comes to is compared. Gives its build, and how many results are told apart."""
        judged = self.stack.path("judged")
        shutil.copytree(self.task, judged)
        wanted = {"0 0": self.ran(self.task)}
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                content = file.read()
            wanted[f"{len(content)} {sum(content[-200:])}"] = self.ran(self.task, "--give", f"{blob}={path}")
        self.assertEqual(len(wanted), 1 + len(os.listdir(folder)))
        with open(os.path.join(judged, f"{self.TASK}.py"), "r+", encoding="utf-8") as file:
            script = file.read()
            self.assertIn("walle.result(", script)
            file.seek(0)
            file.write("import judge\n" + script.replace("walle.result(", "judge.result("))
        with open(os.path.join(judged, "judge.py"), "w", encoding="utf-8") as file:
            file.write("import walle\n\n\ndef plain(value):\n"
                       "    if isinstance(value, dict):\n        return {key: plain(part) for key, part in value.items()}\n"
                       "    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value\n\n\ndef result(value):\n"
                       f"    content = walle.blob('{blob}') if '{blob}' in walle.blobs() else b''\n"
                       "    assert plain(value) == walle.config['wanted'][str(len(content)) + ' ' + str(sum(content[-200:]))]\n"
                       "    walle.result(value)\n")
        self.judge(judged, wanted)
        for name in sorted(os.listdir(folder)):
            self.ran(judged, "--give", f"{blob}={os.path.join(folder, name)}")
        self.judge(judged, {**wanted, f"{len(content)} {sum(content[-200:])}": {"none": 1}})
        refused = self.stack.walle("task", "run", judged, "--give", f"{blob}={path}", check=False)
        self.assertIn("exception: AssertionError", refused.stdout, "it judges")
        self.judge(judged, wanted)
        build = self.stack.path("judged.build")
        self.stack.walle("task", "build", judged, "--out", build)
        return build, len({json.dumps(result) for result in wanted.values()})

    def ran(self, task, *arguments):
        return json.loads(self.stack.walle("task", "run", task, "-o", "json", *arguments).stdout)["result"]

    def judge(self, judged, wanted):
        with open(os.path.join(judged, "task.json"), "r+", encoding="utf-8") as file:
            task = json.load(file)
            task.pop("samples", None)
            task["files"] = [name for name in task["files"] if name != "judge.py"] + ["judge.py"]
            task["config"]["wanted"] = wanted
            file.seek(0)
            file.truncate()
            json.dump(task, file)

    def compared(self, result, *names):
        """The oracles of a run: all hold, and these had something to compare."""
        self.assertEqual([oracle for oracle in result["oracles"] if not oracle["holds"]], [])
        nothing = {oracle["name"]: oracle["compared_nothing_because"] for oracle in result["oracles"] if not oracle["compared"]}
        for name in ("verified", "permitted", "sealed", "once", *names):
            self.assertNotIn(name, nothing, nothing.get(name))

    def passes_in_a_fleet(self, build, *arguments):
        """Released in stages to a thousand virtual devices on a real gateway, which opens one stage behind the other; every device runs
        it, none fails. Gives run.json."""
        public = self.start_gateway()
        with open(self.stack.path("fleet.log"), "w+", encoding="utf-8") as log:
            fleet = self.stack.spawn("walle-fleet-sim", "run", "--devices", str(DEVICES), "--gateway", self.stack.gateway.url, "--trust", public,
                                     "--enroll-token", os.path.join(self.stack.gateway.folder, "enroll.token"), "--task", self.TASK,
                                     "--checkin-interval", "1", *arguments, "--until-coverage", "100%", "--duration", "150", "--no-live", "--threads",
                                     "2", "--real-every", str(REAL_EVERY), "--out", self.stack.path("fleet"), stdout=log, stderr=log)
            rollout = self.release(build, STAGES)
            self.assertEqual(fleet.wait(200), 0, log.seek(0) or log.read())
        status, state = self.stack.api(f"/api/v1/rollouts/{rollout}")
        self.assertEqual((status, state["counts"]["succeeded"], state["counts"]["failed"]), (200, DEVICES, 0), state)
        self.assertIn(" advance ", self.stack.walle("rollout", "log", rollout).stdout)  # from the first stage to the next
        with open(self.stack.path("fleet", "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        totals = result["totals"]
        self.assertEqual((totals["activations"], totals["run_failures"], totals["crashes"]), (DEVICES, 0, 0))
        self.assertGreaterEqual(totals["runs"], DEVICES)
        self.compared(result, "exact")
        return result

    def passes_in_the_simulator(self, build, *arguments):
        """Gives run.json."""
        out = self.stack.path("sim")
        shutil.rmtree(out, ignore_errors=True)
        run = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", build, "--devices", str(DEVICES), "--no-live", "--threads", "2",
                              "--real-every", str(REAL_EVERY), "--out", out, *arguments], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual((result["completed"], result["failed"]), (DEVICES, 0), run.stdout)
        self.compared(result, "exact")
        return result
