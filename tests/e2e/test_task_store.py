#!/usr/bin/env python3
"""walle.store with real programs: what a script keeps is there in the next run, in another process, in the next version where the
versions share it, and nowhere else; a run that is killed or fails changes nothing; it goes with its task. And `walle task run`."""
import json
import os
import signal
import subprocess
import time
import unittest

from walle_stack import Stack, program, wait_until

DEVICE = "00000000000004d2"
FULL = [{"name": "full", "kind": "full", "min_sample": 1, "min_dwell_s": 0}]
# Told only after some runs beside each other, so runs that events started are among them.
SHADOW = [{"name": "shadow", "kind": "shadow", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.0, "max_slowdown": 100}]
COUNT = """import walle
from walle import data, store
if len(data.events()) > 0:
    seen = store.get("seen", 0) + 1
    store.put("seen", seen)
    store.put("last", {"item": data.events()[0].item, "raw": b"\\x00\\xff" * seen})
    if data.events()[0].item == "i-bad":
        raise ValueError("after a put")
    walle.result({"version": VERSION, "seen": seen, "keys": store.keys(),
                  "item": data.events()[0].item})
"""
TASK = {"name": "shop/seen", "version": "1.0.0", "entry": "seen", "files": ["seen.py"],
        "triggers": ["enter(item) * exit(item) page"], "events": {"take": "visit"},
        "uploads": [{"name": "seen", "class": "realtime"}], "result": "seen",
        "store": {"quota_kib": 8, "keep": "versions"}}


def visit(item):
    return [{"kind": "enter", "page": "item", "item": item}, {"kind": "exit", "page": "item", "item": item}]


class TaskStore(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def folder(self, task, source):
        folder = self.stack.path("source-%s" % task["version"])
        os.makedirs(folder, exist_ok=True)
        for name, text in (("task.json", json.dumps(task)), ("seen.py", source)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        return folder

    def events(self, *items):
        path = self.stack.path("events.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for item in items for line in visit(item))
        return path

    def start(self):
        self.stack.start_gateway("--workers", "1", "--set", "rollout.tick_ms=100")
        self.key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]

    def release(self, version, **more):
        task = {**TASK, "version": version, **more}
        build = self.stack.path("build-" + version)
        self.stack.walle("task", "build", self.folder(task, COUNT.replace("VERSION", repr(version))), "--out", build)
        self.stack.walle("task", "push", build)
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(FULL, file)
        self.stack.walle("rollout", "start", task["name"], "--build", build, "--key", self.stack.path("key"),
                         "--stages", self.stack.path("stages.json"))

    def device(self, *arguments):
        return [program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--dir",
                self.stack.path("device"), "--id", DEVICE, "--trust", self.key, *arguments]

    def play(self, *items):
        run = subprocess.run(self.device("--once", "--events", self.events(*items)), capture_output=True, text=True, timeout=120,
                             check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run

    def values(self):
        path = self.stack.path("records.jsonl")
        self.stack.walle("tunnel", "export", "--out", path)
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return [line["record"] for line in lines if "record" in line]  # a kill may leave a line of what it lost

    def test_it_outlives_runs_processes_and_updates(self):
        self.start()
        self.release("1.0.0")
        self.play("i-1", "i-2")
        self.play("i-bad", "i-3")  # another process; the run that fails keeps nothing
        self.release("1.1.0")
        self.play("i-4")
        values = self.values()
        self.assertEqual([(value["version"], value["seen"]) for value in values],
                         [("1.0.0", 1), ("1.0.0", 2), ("1.0.0", 3), ("1.1.0", 4)])
        self.assertEqual(values[0]["keys"], ["last", "seen"])

    def test_versions_that_do_not_share(self):
        self.start()
        self.release("1.0.0", store={"quota_kib": 8, "keep": "version"})
        self.play("i-1", "i-2")
        self.release("1.1.0", store={"quota_kib": 8, "keep": "version"})
        self.play("i-3", "i-4")
        self.assertEqual([value["seen"] for value in self.values()], [1, 2, 1, 2])

    def test_an_agent_that_is_killed(self):
        """Each event is counted once, wherever the agent is killed; each kill falls among runs that were counted."""
        self.start()
        self.release("1.0.0", uploads=[{"name": "seen", "class": "control"}])  # others may be lost with the process, declared so
        self.play()
        lives, each = 4, 12
        counted = 0
        for kill in range(lives):
            events = self.events(*["i-%d-%d" % (kill, i) for i in range(each)])
            with subprocess.Popen(self.device("--events", events), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                try:
                    wait_until(lambda: len(self.counts()) > counted, timeout_s=60, what="a run before kill %d" % kill)
                    time.sleep(0.02 * kill)
                finally:
                    process.send_signal(signal.SIGKILL)
            counted = len(self.counts())
        self.play("i-last")
        counts = self.counts()
        self.assertEqual(sorted(seen for _, seen in counts), list(range(1, len(counts) + 1)), counts)  # none left out, none twice
        self.assertEqual(len({item for item, _ in counts}), len(counts), counts)  # and each item once
        self.assertLessEqual(len(counts), lives * each + 1)
        self.assertGreater(len(counts), lives)
        self.assertIn("i-last", [item for item, _ in counts])

    def counts(self):
        """(item, its number) of each run that was counted. A run that was cut off is done again, and may send the same again."""
        return {(value["item"], value["seen"]) for value in self.values()}

    def shadowed(self, version, source, **more):
        """Gives a second version out as a shadow of the first, then to all."""
        task = {**TASK, "version": version, **more}
        build = self.stack.path("build-" + version)
        self.stack.walle("task", "build", self.folder(task, source), "--out", build)
        self.stack.walle("task", "push", build)
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(SHADOW + FULL, file)
        run = self.stack.walle("rollout", "start", task["name"], "--build", build, "--key", self.stack.path("key"), "--stages",
                               self.stack.path("stages.json"), "-o", "json")
        return json.loads(run.stdout)["id"]

    def rollout(self, rollout):
        status, state = self.stack.api(f"/api/v1/rollouts/{rollout}")
        self.assertEqual(status, 200)
        return state

    def shadow_of_a_task_that_counts(self, keep):
        """Runs that behaviour started: the shadow begins from what the run beside it began from, and keeps nothing."""
        store = {"quota_kib": 8, "keep": keep}
        self.start()
        self.release("1.0.0", store=store)
        self.play("i-0", "i-1")
        source = "# the same, said otherwise\n" + COUNT.replace("VERSION", repr("1.0.0"))
        rollout = self.shadowed("2.0.0", source, store=store)
        items = 2
        while self.rollout(rollout)["stage"]["name"] == "shadow" and self.rollout(rollout)["state"] == "running" and items < 60:
            self.play(*["i-%d" % item for item in range(items, items + 8)])
            items += 8
        state = self.rollout(rollout)
        self.assertNotEqual(state["state"], "rolled_back", state)
        stages = {stage["name"]: stage["counts"] for stage in state["stages"]}
        self.assertEqual((stages["shadow"]["succeeded"], stages["shadow"]["failed"]), (1, 0), state)
        self.assertEqual(sorted(value["seen"] for value in self.values()), list(range(1, items + 1)))

    def test_a_shadow_of_a_task_that_counts(self):
        self.shadow_of_a_task_that_counts("versions")

    def test_a_shadow_where_versions_do_not_share(self):
        self.shadow_of_a_task_that_counts("version")

    def test_task_run(self):
        folder = self.folder(TASK, COUNT.replace("VERSION", "1"))
        played = self.stack.walle("task", "run", folder, "--events", self.events("i-1", "i-2", "i-3"))
        self.assertEqual([json.loads(line[8:])["seen"] for line in played.stdout.splitlines() if line.startswith("result: ")],
                         [1, 2, 3], played.stdout)
        ran = self.stack.walle("task", "run", self.folder({key: value for key, value in TASK.items() if key != "store"},
                                                          "from walle import store\nstore.keys()\n"), check=False)
        self.assertIn('the task declares no "store" in task.json', ran.stdout)

    def test_task_run_with_a_file(self):
        """Each run finds what the one before left; one that fails changes nothing; what is no store is refused and stays."""
        kept = self.stack.path("kept")
        count = "import walle\nfrom walle import store\nseen = store.get('seen', 0) + 1\nstore.put('seen', seen)\nwalle.result(seen)\n"
        task = {"name": "shop/seen", "version": "1.0.0", "entry": "seen", "files": ["seen.py"], "store": TASK["store"]}

        def seen(source=count, check=True, **options):
            ran = self.stack.walle("task", "run", self.folder(task, source), "--store", kept,
                                   *(part for name, value in options.items() for part in ("--" + name, value)), check=check)
            return [int(line[8:]) for line in ran.stdout.splitlines() if line.startswith("result: ")], ran.stderr

        self.assertEqual([seen()[0], seen()[0]], [[1], [2]])
        self.assertEqual(seen(repeat="3")[0], [5])
        self.assertEqual(seen(count + "1 / 0\n", check=False)[0], [6])
        self.assertEqual(seen()[0], [6])
        self.assertIn("--store is not for recorded events", seen(check=False, events=self.events("i-1"))[1])
        with open(kept, "rb") as file:
            image = file.read()
        for damaged in (image[:-1], b"no store", image + b"\x00"):
            with open(kept, "wb") as file:
                file.write(damaged)
            self.assertIn("is no store that walle task run --store wrote", seen(check=False)[1])
            with open(kept, "rb") as file:
                self.assertEqual(file.read(), damaged)

    def test_a_task_json_that_is_wrong(self):
        for store, words in ((7, '"store" is no object'), ({}, '"quota_kib" is missing'), ({"quota_kib": 65}, "from 1 to 64"),
                             ({"quota_kib": "8"}, "from 1 to 64"), ({"quota_kib": 8, "keep": "always"}, '"keep" is "versions" or "version"'),
                             ({"quota_kib": 8, "kept": 1}, "kept")):
            said = self.stack.walle("task", "build", self.folder({**TASK, "store": store}, "x = 1\n"), "--out", self.stack.path("build"),
                                    check=False)
            self.assertNotEqual(said.returncode, 0, store)
            self.assertIn(words, said.stderr)


if __name__ == "__main__":
    unittest.main()
