#!/usr/bin/env python3
"""The task worth copying that learns on the device (conf/tasks/taste): its model and users are made; fitted to a user's own visits it
foresees them better than the model that all begin with; it does the same in `walle task run` and in the agent, goes on after a
restart and from one version's model to another's, and nothing but loss and count leaves. In a fleet it is released in stages."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

from walle_stack import SOURCE, Stack, program

MAKER = os.path.join(SOURCE, "conf", "tasks", "taste", "make_taste.py")
USERS, VISITS, DEVICES = 6, 60, 60
TASK, DEVICE = "taste", "00000000000000c3"
FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.5}]
STAGES = [{"name": "gray", "kind": "gray", "percent": 30, "min_sample": 8, "min_dwell_s": 1, "max_failure": 0.05},
          {"name": "full", "kind": "full", "percent": 100, "min_sample": 20, "min_dwell_s": 1, "max_failure": 0.05}]


class Taste(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.mkdtemp(prefix="walle-taste-")
        cls.addClassCleanup(shutil.rmtree, cls.made)
        subprocess.run([sys.executable, MAKER, cls.made, "--users", str(USERS), "--visits", str(VISITS)], check=True, timeout=300,
                       env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
        cls.task = os.path.join(cls.made, "task")

    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def events(self, user):
        return os.path.join(self.made, f"user{user}.jsonl")

    def results(self, task, user):
        run = json.loads(self.stack.walle("task", "run", task, "--events", self.events(user), "-o", "json").stdout)
        self.assertEqual({run["end"] for run in run["runs"]}, {"finished"})
        return [run["result"] for run in run["runs"]]

    def changed(self, name, **changes):
        """A copy of the task with another task.json."""
        folder = self.stack.path(name)
        shutil.copytree(self.task, folder)
        with open(os.path.join(folder, "task.json"), encoding="utf-8") as file:
            task = {**json.load(file), **changes}
        with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as file:
            json.dump(task, file)
        return folder

    def test_it_learns_what_a_user_likes(self):
        """Of the second half of their visits, beside the same model that hardly learns."""
        still = self.changed("still", config={"rate": 1e-9, "steps": 1, "visits": 1})
        learned, not_learned = [], []
        for user in range(USERS):
            results = self.results(self.task, user)
            self.assertEqual([result["visits"] for result in results], list(range(1, VISITS + 1)))
            learned += [result["loss"] for result in results[VISITS // 2:]]
            not_learned += [result["loss"] for result in self.results(still, user)[VISITS // 2:]]
        print(f"mean loss {statistics.fmean(learned):.3f}, of the model that all begin with {statistics.fmean(not_learned):.3f}", flush=True)
        self.assertLess(statistics.fmean(learned), 0.75 * statistics.fmean(not_learned))

    def test_a_page_that_was_not_entered(self):
        path = self.stack.path("exit.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps({"kind": "exit", "page": "item_detail", "item": "i-1"}) + "\n")
        run = json.loads(self.stack.walle("task", "run", self.task, "--events", path, "-o", "json").stdout)["runs"]
        self.assertEqual([(run["end"], run["result"]) for run in run], [("finished", None)])

    def release(self, task, stages=None):
        with open(os.path.join(task, "task.json"), encoding="utf-8") as file:
            version = json.load(file)["version"]
        build, path = self.stack.path("build-" + version), self.stack.path("stages.json")
        self.stack.walle("task", "build", task, "--out", build)
        self.stack.walle("task", "push", build)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(stages or FULL, file)
        return json.loads(self.stack.walle("rollout", "start", TASK, "--build", build, "--key", self.stack.path("key"), "--stages", path, "-o",
                                           "json").stdout)["id"]

    def records(self):
        path = self.stack.path("records.jsonl")
        self.stack.walle("tunnel", "export", "--out", path)
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def start(self):
        self.stack.start_gateway("--workers", "1", "--set", "rollout.tick_ms=100", "--set", "task.leaves=required")
        return self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]

    def play(self, key, lines):
        path = self.stack.path("played.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines)
        run = subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--dir",
                              self.stack.path("device"), "--id", DEVICE, "--trust", key, "--leaves-required", "--once", "--events", path],
                             capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_in_the_agent(self):
        """Over three processes, the last with another model: the losses of one that goes on, then what was seen is learned anew."""
        wanted = self.results(self.task, 1)
        with open(self.events(1), encoding="utf-8") as file:
            lines = file.readlines()
        ends = [at + 1 for at, line in enumerate(lines) if json.loads(line)["kind"] == "exit"]
        key = self.start()
        self.release(self.task)
        self.play(key, [])
        self.play(key, lines[:ends[9]])
        self.play(key, lines[ends[9]:ends[19]])
        found = [record["record"] for record in self.records()]
        self.assertEqual(found, wanted[:20])
        self.assertEqual({name for record in found for name in record}, {"loss", "visits"})
        subprocess.run([sys.executable, MAKER, self.stack.path("other"), "--users", "1", "--visits", "1", "--seed", "9"], check=True,
                       timeout=300, capture_output=True)
        other = self.changed("next", version="1.1.0")
        shutil.copy(self.stack.path("other", "task", "taste.onnx"), other)
        self.release(other)
        self.play(key, lines[ends[19]:ends[29]])
        found = [record["record"] for record in self.records()][20:]
        self.assertEqual([record["visits"] for record in found], list(range(21, 31)))
        fresh = self.results(other, 1)[20:30]  # the new model from its own first visit on: the same visits, learned in another order
        ratio = statistics.fmean(record["loss"] for record in found) / statistics.fmean(run["loss"] for run in fresh)
        print(f"after a new model {ratio:.2f} of the loss of one that had it from the start", flush=True)
        self.assertLess(ratio, 1.15)

    def test_in_a_fleet_in_stages(self):
        """Virtual users look at items; the gateway opens the stages, and what goes up is loss and count alone."""
        key = self.start()
        log = open(self.stack.path("fleet.log"), "w", encoding="utf-8")
        self.addCleanup(log.close)
        fleet = self.stack.spawn("walle-fleet-sim", "run", "--devices", str(DEVICES), "--gateway", self.stack.gateway.url, "--trust", key,
                                 "--enroll-token", os.path.join(self.stack.gateway.folder, "enroll.token"), "--task", TASK, "--behaviour", "ipv",
                                 "--sessions", "2", "--session-every", "5", "--checkin-interval", "1", "--until-coverage", "100%", "--duration",
                                 "150", "--no-live", "--out", self.stack.path("fleet"), stdout=log, stderr=log)
        rollout = self.release(self.task, STAGES)
        self.assertEqual(fleet.wait(200), 0, open(log.name, encoding="utf-8").read())
        status, state = self.stack.api(f"/api/v1/rollouts/{rollout}")
        self.assertEqual((status, state["counts"]["succeeded"], state["counts"]["failed"]), (200, DEVICES, 0), state)
        self.assertIn(" advance ", self.stack.walle("rollout", "log", rollout).stdout)  # from the first stage to the next
        records = [record["record"] for record in self.records() if "record" in record]
        self.assertGreater(len(records), 0)
        self.assertEqual({name for record in records for name in record}, {"loss", "visits"})

    def test_in_the_simulate_stage(self):
        build, out = self.stack.path("build"), self.stack.path("sim")
        self.stack.walle("task", "build", self.task, "--out", build)
        run = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", build, "--devices", str(DEVICES), "--behaviour", "ipv", "--sessions",
                              "2", "--no-live", "--threads", "2", "--out", out], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual((result["completed"], result["failed"]), (DEVICES, 0), run.stdout)


if __name__ == "__main__":
    unittest.main()
