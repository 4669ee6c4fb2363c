"""Six tasks on each virtual device, whose runs take a second on the mean: with --runs the device's own scheduler has so many under way
at once, nothing that they give is lost, and the run is the same whatever the threads."""
import json
import os
import subprocess
import unittest

from walle_stack import Stack, program

DEVICES, SECONDS, TASKS = 40, 120, 6
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1000, "min_dwell_s": 5, "max_failure": 0.05}]
# What a run keeps and tells is of all runs before it.
SCRIPT = """import walle
n = walle.store.get('n', 0) + 1
walle.store.put('n', n)
walle.result({'n': n})
"""


class FleetRuns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = stack = Stack()
        cls.addClassCleanup(stack.__exit__, None, None, None)
        gateway = stack.start_gateway()
        for name in ("a", "b", "ci", "lead"):
            stack.walle("key", "new", "--out", stack.path(name + ".key"))
        stack.walle("root", "init", "--out", stack.path("root.1"), "--key", stack.path("a.key"), "--key", stack.path("b.key"),
                    "--release", stack.path("ci.key.pub"), "--release", stack.path("lead.key.pub"))
        stack.walle("root", "push", stack.path("root.1"))
        with open(stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(STAGES, file)
        for number in range(TASKS):
            cls.release(f"shop/t{number}")
        assert gateway.stop() == 0

    @classmethod
    def release(cls, task):
        stack = cls.stack
        source, build = stack.path("source-" + task.replace("/", "-")), stack.path("build-" + task.replace("/", "-"))
        os.mkdir(source)
        with open(os.path.join(source, "task.json"), "w", encoding="utf-8") as file:
            json.dump({"name": task, "version": "1.0.0", "entry": "task", "files": ["task.py"], "every_s": 1, "time_ms": 30000,
                       "store": {"quota_kib": 1}}, file)
        with open(os.path.join(source, "task.py"), "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        stack.walle("task", "build", source, "--out", build)
        stack.walle("task", "push", build)
        stack.walle("rollout", "start", task, "--build", build, "--stages", stack.path("stages.json"), "--key", stack.path("ci.key"),
                    "--key", stack.path("lead.key"), "--trust-unproven", "--accept-empty", "--accept-power")

    def play(self, name, *arguments):
        out = self.stack.path("out-" + name)
        run = subprocess.run([program("walle-fleet-sim"), "run", "--virtual", self.stack.path("gateway"), "--root",
                              self.stack.path("root.1"), "--devices", str(DEVICES), "--duration", str(SECONDS), "--no-live",
                              "--fault", "device:cpu 1000 @ 100%", "--real-every", "5", "--out", out, *arguments],
                             capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, check=False)
        self.assertIn(run.returncode, (0, 1), run.stdout + run.stderr)
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        broken = [oracle["name"] for oracle in result["oracles"] if not oracle["holds"]]
        return result, broken

    def test_a_device_has_several_under_way(self):
        one, broken_one = self.play("one")
        two, broken_two = self.play("two", "--runs", "2")
        eight, broken_eight = self.play("eight", "--runs", "8")
        self.assertEqual((broken_one, broken_two, broken_eight), ([], [], []))
        runs = [result["totals"]["runs"] / DEVICES / SECONDS for result in (one, two, eight)]
        # A second after its last run a task's next is due. Where no run takes time that is all; a run takes 0.4 to 1.6 s, each
        # device's as long: two at a time are 2 / 1.2 * ln 4 a second, and with room for all there are 6 / 1.2 * ln (2.6 / 1.4).
        for got, expected in zip(runs, (6, 2.31, 3.1)):
            self.assertAlmostEqual(got, expected, delta=0.15 * expected, msg=str(runs))
        self.assertEqual({version["failed"] for result in (one, two, eight) for version in result["versions"]}, {0})

    def test_the_same_whatever_the_threads(self):
        digests = {self.play(f"threads-{threads}", "--runs", "2", "--threads", threads)[0]["virtual"]["digest"] for threads in ("1", "2", "5")}
        self.assertEqual(len(digests), 1, digests)

    def test_with_kills_nothing_breaks(self):
        calm, broken = self.play("calm", "--runs", "3")
        killed, also_broken = self.play("killed", "--runs", "3", "--kills", "30%", "--fault", "device:killer @ 5%")
        self.assertGreater(killed["totals"]["crashes"], 0)
        self.assertEqual(also_broken, broken)
        self.assertLess(killed["totals"]["runs"], calm["totals"]["runs"] * 1.2)

    def test_how_many_is_asked_for(self):
        for wrong in ("0", "9", "two"):
            run = subprocess.run([program("walle-fleet-sim"), "run", "--runs", wrong], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 2)
            self.assertIn(f"--runs {wrong}: a number from 1 to 8", run.stderr)


if __name__ == "__main__":
    unittest.main()
