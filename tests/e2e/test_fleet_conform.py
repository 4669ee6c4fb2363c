"""Virtual time is true to real time: the same fleet over sockets and in virtual time has the same curves and the same counts, and
what differs is found. bench/conform_bench.py does it with as many devices as wanted and with a gate between the stages."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from walle_stack import Stack, program

DEVICES = 2000
RATE = 100
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 500, "min_dwell_s": 1, "max_failure": 0.05}]
WITHIN = 4  # points; the bar of 2 is for an idle machine


class FleetConform(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = stack = Stack()
        cls.addClassCleanup(stack.__exit__, None, None, None)
        gateway = stack.start_gateway()
        for name in ("a", "b", "ci"):
            stack.walle("key", "new", "--out", stack.path(name + ".key"))
        stack.walle("root", "init", "--out", stack.path("root.1"), "--key", stack.path("a.key"), "--key", stack.path("b.key"),
                    "--release", stack.path("ci.key.pub"))
        stack.walle("root", "push", stack.path("root.1"))
        os.mkdir(stack.path("source"))
        with open(stack.path("source", "task.json"), "w", encoding="utf-8") as file:
            json.dump({"name": "shop/score", "version": "1.0.0", "entry": "task", "files": ["task.py"]}, file)
        with open(stack.path("source", "task.py"), "w", encoding="utf-8") as file:
            file.write("import walle\nwalle.result({'version': 1})\n")
        with open(stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(STAGES, file)
        stack.walle("task", "build", stack.path("source"), "--out", stack.path("build"))
        stack.walle("task", "push", stack.path("build"))
        stack.walle("rollout", "start", "shop/score", "--build", stack.path("build"), "--stages", stack.path("stages.json"), "--key",
                    stack.path("ci.key"), "--trust-unproven", "--accept-empty")
        assert gateway.stop() == 0
        shutil.copytree(stack.path("gateway"), stack.path("copy"))
        stack.restart_gateway()
        cls.play("real", "--gateway", stack.gateway.url)
        cls.play("virtual", "--virtual", stack.path("copy"))

    @classmethod
    def play(cls, out, *arguments, devices=DEVICES):
        arguments += ("--strangers",) if "--virtual" in arguments else ()  # as those over sockets are
        run = subprocess.run([program("walle-fleet-sim"), "run", "--root", cls.stack.path("root.1"), "--devices", str(devices), "--arrival-rate",
                              str(RATE), "--checkin-interval", "60", "--until-coverage", "100%", "--duration", "300", "--no-live", "--out",
                              cls.stack.path(out), *arguments], capture_output=True, text=True, timeout=400, stdin=subprocess.DEVNULL)
        assert run.returncode in (0, 1), run.stdout[-3000:] + run.stderr

    def conform(self, left, right, *arguments, status=0):
        run = subprocess.run([program("walle-fleet-sim"), "conform", *(self.stack.path(name) for name in (left, right) if name), *arguments],
                             capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def test_real_and_virtual_are_the_same(self):
        path = self.stack.path("conform.json")
        text = self.conform("real", "virtual", "--within", str(WITHIN), "--json", path)
        self.assertRegex(text, r"(?m)^conforms: at most \d\.\d+ points apart")
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        self.assertTrue(found["conforms"])
        self.assertLessEqual(found["points"], WITHIN)
        self.assertEqual([curve["stage"] for curve in found["curves"]], ["offered", "downloaded", "activated", "ran"])
        facts = {fact["name"]: fact for fact in found["facts"]}
        self.assertEqual(facts["shop/score 1.0.0: ran"], {"name": "shop/score 1.0.0: ran", "first": str(DEVICES), "second": str(DEVICES), "equal": True})
        self.assertIn("oracles verified: holds", facts)
        self.assertTrue(all(0 <= found["ks"][name] <= 1 for name in ("checkin", "report", "offer_to_run")), found["ks"])

    def test_a_run_is_itself(self):
        shutil.copytree(self.stack.path("virtual"), self.stack.path("twin"))
        text = self.conform("twin", "virtual", "--within", "0")
        self.assertIn("conforms: at most 0.000 points apart", text)
        self.assertEqual(set(re.findall(r"KS distance (\S+)", text)), {"0.000"})

    # That a folder is as itself shows nothing, and a pipe in the place of a file holds nobody up.
    def test_what_is_no_second_run_is_refused(self):
        os.symlink(self.stack.path("virtual"), self.stack.path("link"))
        for other in ("virtual", "link"):
            self.assertIn("are the same folder: nothing is compared", self.conform("virtual", other, status=2))
        for name in ("run.json", "coverage.csv", "latency.csv"):
            odd = self.stack.path("odd-" + name)
            shutil.copytree(self.stack.path("virtual"), odd)
            os.remove(os.path.join(odd, name))
            os.mkfifo(os.path.join(odd, name))
            self.assertIn("named pipe", self.conform("virtual", "odd-" + name, status=2))

    def test_what_differs_is_found(self):
        self.play("slow", "--virtual", self.stack.path("copy"), "--arrival-rate", str(RATE // 2))
        text = self.conform("slow", "virtual", status=1)
        self.assertIn("TOO FAR", text)
        self.assertIn("and all counts are equal", text)
        self.play("bad", "--virtual", self.stack.path("copy"), "--bad", "all => exception @ 3%", "--bad-version", "1.0.0", "--duration", "40")
        text = self.conform("bad", "virtual", "--within", "100", status=1)
        self.assertRegex(text, r"NOT EQUAL     shop/score 1\.0\.0: failed: \d\d, and 0")
        self.assertIn("DOES NOT CONFORM", text)

    def verify(self, out, status=0):
        run = subprocess.run([program("walle-fleet-sim"), "verify", self.stack.path(out)], capture_output=True, text=True, timeout=300,
                             stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def test_a_run_comes_again(self):
        self.play("once", "--virtual", self.stack.path("copy"), "--bad", "os == \"ios\" => exception @ 2%", "--bad-version", "1.0.0", "--kills",
                  "3%", "--duration", "40", "--junit", self.stack.path("once.xml"))
        before = sorted(os.listdir(self.stack.path("once")))
        os.remove(self.stack.path("once.xml"))
        self.assertRegex(self.verify("once"), r"^verified: (\d+) of \1 facts are the same, digest [0-9a-f]+\n$")
        self.assertEqual(sorted(os.listdir(self.stack.path("once"))), before)
        self.assertFalse(os.path.exists(self.stack.path("once.xml")))
        # What the report says is not what the options give.
        path = self.stack.path("once", "run.json")
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        result["totals"]["requests"] += 1
        with open(path, "w", encoding="utf-8") as file:
            json.dump(result, file)
        said = self.verify("once", status=1)
        requests = result["totals"]["requests"]
        self.assertIn(f"NOT THE SAME  totals.requests: {requests}, and {requests - 1}\nNOT VERIFIED", said)
        self.assertIn("run.json", os.listdir(self.stack.path("once", "verify")))

    def test_a_line_repeats_the_run(self):
        with open(self.stack.path("virtual", "repro.txt"), encoding="utf-8") as file:
            line = file.read()
        self.assertRegex(line, rf"^cd \S+ && walle-fleet-sim run .*--devices {DEVICES} .*\n$")
        run = subprocess.run(["sh", "-c", line.strip() + " --out " + self.stack.path("line")], capture_output=True, text=True, timeout=300,
                             env={**os.environ, "PATH": os.path.abspath(os.path.dirname(program("x"))) + ":" + os.environ["PATH"]}, check=True)
        self.assertIn("digest", run.stdout)
        self.conform("line", "virtual", "--within", "0")

    def test_what_is_not_verified(self):
        self.assertIn("is of a run in real time", self.verify("real", status=2))
        self.assertIn("nowhere", self.verify("nowhere", status=4))
        os.makedirs(self.stack.path("odd"), exist_ok=True)
        with open(self.stack.path("odd", "repro.txt"), "w", encoding="utf-8") as file:
            file.write("cd / && rm run --virtual x\n")
        self.assertIn("it is no line of a run", self.verify("odd", status=2))

    def test_other_runs_are_not_compared(self):
        self.play("few", "--virtual", self.stack.path("copy"), "--seed", "2")
        self.assertIn("seed is 2 in one run, 1 in the other: nothing is compared", self.conform("few", "virtual", status=2))
        self.assertIn("run.json", self.conform("nowhere", "virtual", status=4))
        self.assertIn("two folders", self.conform("virtual", "", status=2))
        self.assertIn("points, 0 to 100", self.conform("virtual", "virtual", "--within", "x", status=2))


class ConformByHand(unittest.TestCase):
    """Two folders as runs leave them, and what is judged of them: the same in either order."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def leave(self, name, versions, states=("completed",), holds=(True,)):
        """A run of 100,000: of each version, how many it reached and how late."""
        os.mkdir(os.path.join(self.folder.name, name))
        counts = ("offered", "downloaded", "activated", "ran", "failed", "rolled_back", "current")
        run = {"devices": 100000, "seed": 1, "outcome": "passed", "exposed": 0, "completed": 5, "failed": 0,
               "versions": [{"task": "t", "version": key, "manifest": key * 64, **dict.fromkeys(counts, reached)}
                            for key, (reached, _) in versions.items()],
               "rollouts": [{"id": str(i), "state": state} for i, state in enumerate(states)],
               "oracles": [{"name": str(i), "holds": held} for i, held in enumerate(holds)]}
        lines = [f"{key * 64},ran,{10 + late + i},{reached * (i + 1) / 200}" for key, (reached, late) in versions.items() for i in range(200)]
        for file_name, text in (("run.json", json.dumps(run)), ("coverage.csv", "\n".join(["manifest,stage,t_s,devices", *lines, ""])),
                                ("latency.csv", "latency,upto_us,count\n")):
            with open(os.path.join(self.folder.name, name, file_name), "w", encoding="utf-8") as file:
                file.write(text)

    def judge(self, other, *arguments, status):
        """What is said of "plain" and of the other one, in both orders."""
        said = []
        for order in (("plain", other), (other, "plain")):
            run = subprocess.run([program("walle-fleet-sim"), "conform", *(os.path.join(self.folder.name, name) for name in order), *arguments],
                                 capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
            self.assertEqual(run.returncode, status, run.stdout + run.stderr)
            said.append(run.stdout)
        return said

    def test_what_only_one_has(self):
        self.leave("plain", {"a": (100000, 0)})
        self.leave("more", {"a": (100000, 0), "b": (99000, 0)}, ("completed", "halted"), (True, False))
        for text in self.judge("more", status=1):
            self.assertRegex(text, r"(?m)^curve +b{8} ran +99\.000 points .* 100\.000 of its own, .*TOO FAR$")
            self.assertIn("facts         13 of 22 are equal\nDOES NOT CONFORM", text)
            self.assertEqual(text.count("NOT EQUAL"), 9)

    def test_what_is_late(self):
        self.leave("plain", {"a": (100000, 0), "b": (1000, 0)})
        self.leave("late", {"a": (100000, 110), "b": (1000, 110)})
        self.leave("few", {"a": (100000, 0), "b": (1000, 600)})
        for text in self.judge("late", status=1):
            self.assertRegex(text, r"(?m)^TOO LATE      a lag of -?109\.\d\d s would make it 0\.000 points$")
        for text in self.judge("late", "--lag", "110", status=0):
            self.assertNotIn("TOO LATE", text)
        for text in self.judge("few", status=1):
            self.assertRegex(text, r"(?m)^curve +b{8} ran +1\.000 points .* 100\.000 of its own, .*TOO FAR$")
        self.judge("late", "--lag", "121", status=2)

    def test_a_curve_that_is_too_long(self):
        self.leave("plain", {"a": (100000, 0)})
        self.leave("long", {"a": (100000, 99900)})
        self.judge("long", status=2)


if __name__ == "__main__":
    unittest.main()
