"""Every invariant of the simulator finds what it is there for: the product is made wrong in one place at a time (support/
fleet_mutants.c), and the invariant of that name breaks, which holds over the product as it is. And a run that breaks one is made as
small as it goes."""
import json
import os
import re
import subprocess
import unittest

from fleet_folder import FleetFolder
from walle_stack import BIN, Stack, program

FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "max_failure": 1}]
TRIAL = [{"name": "gray", "kind": "gray", "percent": 30, "control": 40, "rule": "logrank", "max_rise": 0.5, "alpha": 0.01,
          "max_failure": 0.9, "min_sample": 1000, "window_s": 600}, {"name": "full", "kind": "full", "min_sample": 1000, "max_failure": 1}]
BAD = ("--bad", "all => exception @ 60%", "--bad-version", "1.0.0")
# What is wrong, which invariant says so, in which folder, and what it takes.
MUTANTS = (("skipped-signature", "permitted", "first", ("--duration", "120")),
           ("stage-leak", "permitted", "first", ("--duration", "50")),
           ("lost-fsync", "kept", "first", ("--duration", "900", "--fault", "process:kill @ 20%")),
           ("lost-save", "kept", "first", ("--duration", "900")),
           ("double-activation", "once", "first", ("--duration", "120")),
           ("retry-storm", "calm", "first", ("--duration", "120", "--fault", "gateway:503 @ 100%", "--faults-until", "100")),
           ("unfinished-rollback", "back", "first", ("--duration", "1800", *BAD)),
           ("unfinished-rollback", "ended", "first", ("--duration", "3600", "--faults-until", "1", *BAD[:2], "--bad-version", "1.0.0")),
           ("placebo-downloads", "control", "second", ("--duration", "1500")),
           ("unchecked-content", "verified", "first", ("--duration", "900", "--fault", "storage:flip @ 10%")),
           ("unhashed-content", "sealed", "first", ("--duration", "120", "--fault", "network:corrupt @ 20%")),
           ("untold-look", "exact", "looking", ("--duration", "120", "--real-every", "3")),
           ("lost-recovery", "recovered", "first", ("--duration", "900")),
           ("control-gives-up", "stood", "second", ("--duration", "1500")),
           ("blind-gate", "exposure", "first", ("--duration", "1800", "--max-exposed", "50%", *BAD)),
           ("unsent-header", "bytes", "first", ("--duration", "120", "--byte-devices", "10")))
# With what a mutant takes that the product as it is meets as well.
PRODUCT = {"control-gives-up": "control-fails"}


class FleetOracles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folders = {}
        for name in ("first", "second", "looking"):
            stack = Stack()
            cls.addClassCleanup(stack.__exit__, None, None, None)
            cls.folders[name] = FleetFolder(stack)
        cls.folders["first"].release("1.0.0")
        cls.folders["looking"].release("1.0.0", result="walle.device")
        second = cls.folders["second"]
        rollout = second.release("1.0.0", FULL)
        run = subprocess.run([program("walle-fleet-sim"), "run", "--gateway", second.gateway.url, "--root", second.stack.path("root.1"),
                              "--devices", "5", "--no-live", "--until-rollout", rollout, "--duration", "60", "--checkin-interval", "1",
                              "--out", second.stack.path("out-real")], capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stdout[-2000:] + run.stderr
        second.release("2.0.0", TRIAL)
        for folder in cls.folders.values():
            folder.stop()

    def play(self, mutant, folder, *arguments):
        """(Oracles that broke, the run)."""
        folder = self.folders[folder]
        out = folder.stack.path("out-" + (mutant or "none"))
        run = subprocess.run([program("fleet_mutants"), "run", *folder.words(), "--devices", "120", "--no-live", "--out", out, *arguments],
                             capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
                             env={**os.environ, "WALLE_SIM_MUTANT": mutant})
        assert run.returncode in (0, 1, 8), f"{mutant}: {run.returncode}: {(run.stdout + run.stderr)[-3000:]}"
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        return [oracle["name"] for oracle in result["oracles"] if not oracle["holds"]], result

    def test_each_mutant_is_killed(self):
        rows = []
        for mutant, oracle, folder, arguments in MUTANTS:
            clean, result = self.play(PRODUCT.get(mutant, ""), folder, *arguments)
            self.assertEqual(clean, [], mutant)
            compared = {row["name"]: row["compared"] for row in result["oracles"]}
            self.assertTrue(compared[oracle], f"{mutant}: {oracle} compared nothing")
            broken, _ = self.play(mutant, folder, *arguments)
            rows.append((mutant, oracle, oracle in broken))
        for mutant, killed in (("", 0), ("uncounted-loss", 1)):
            run = subprocess.run([program("fleet_mutants"), "tunnel", "--devices", "100"], capture_output=True, text=True, timeout=300,
                                 env={**os.environ, "WALLE_SIM_MUTANT": mutant})
            self.assertEqual(run.returncode, killed, run.stderr[-2000:])
        rows.append(("uncounted-loss", "law", True))
        lines = ["mutant               oracle     killed"] + [f"{m:20} {o:10} {'yes' if k else 'NO'}" for m, o, k in rows]
        table = "\n".join(lines)
        print(table)
        with open(os.path.join(os.path.dirname(os.path.abspath(BIN)), "oracle-mutants.txt"), "w", encoding="utf-8") as file:
            file.write(table + "\n")
        self.assertTrue(all(killed for _, _, killed in rows), table)

    # By its index, and its story can be asked for: in some devices of a larger fleet as well.
    def test_a_device_that_is_astray_is_named(self):
        arguments = next(row for row in MUTANTS if row[1] == "ended")[3]
        broken, result = self.play("unfinished-rollback", "first", "--first-device", "1000", *arguments)
        self.assertIn("ended", broken)
        oracles = {oracle["name"]: oracle for oracle in result["oracles"]}
        device = oracles["ended"]["device"]
        self.assertIn(device, range(1000, 1120))
        self.assertIsNone(oracles["once"]["device"])
        out = self.folders["first"].stack.path("out-unfinished-rollback")
        told = subprocess.run([program("fleet_mutants"), "replay", out, "--device", str(device)], capture_output=True, text=True,
                              timeout=300, env={**os.environ, "WALLE_SIM_MUTANT": "unfinished-rollback"})
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)
        self.assertIn(f"device {device}", told.stdout)

    # Whichever thread comes first to what shards share, they write in their order: the program looks after that itself.
    def test_slow_shards_change_nothing(self):
        runs = [self.play(slow, "second", "--devices", "800", "--threads", "4", "--arrival-rate", "1000000", "--duration", "60")[1]
                for slow in ("", "slow-shards")]
        self.assertEqual(runs[1]["virtual"]["digest"], runs[0]["virtual"]["digest"])
        self.assertEqual(runs[1]["versions"], runs[0]["versions"])

    def test_a_failing_run_is_made_small(self):
        folder = self.folders["first"]
        faults = ("network:loss @ 2%", "network:delay 500 @ 5%", "gateway:503 @ 5%", "storage:torn @ 10%", "process:kill @ 5%")
        line = ["run", *folder.words(), "--devices=100", "--dur", "600", "--faults-until=300"]
        for fault in faults:
            line += ["--fault", fault]
        run = subprocess.run([program("fleet_mutants"), "shrink", *line, "--out", folder.stack.path("shrink")], capture_output=True,
                             text=True, timeout=580, env={**os.environ, "WALLE_SIM_MUTANT": "double-activation"})
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        found = re.search(r"smallest after \d+ runs \(once\): (\d+) devices, (\d+) families", run.stdout)
        self.assertTrue(found, run.stdout)
        self.assertLessEqual(int(found.group(1)), 3, run.stdout)
        self.assertLessEqual(int(found.group(2)), 1, run.stdout)
        # It is a line that can be run, and it breaks the same.
        words = run.stdout.strip().splitlines()[-1].split(" ")
        self.assertEqual(words[:2], ["walle-fleet-sim", "run"])
        again = subprocess.run([program("fleet_mutants"), *words[1:], "--no-live", "--out", folder.stack.path("small")], capture_output=True,
                               text=True, timeout=120, env={**os.environ, "WALLE_SIM_MUTANT": "double-activation"})
        self.assertIn("activated once: 1 of", again.stdout)

    def test_a_run_that_holds_is_not_made_smaller(self):
        folder = self.folders["first"]
        for words, status, said in ((["run", *folder.words(), "--devices", "5", "--duration", "10"], 1, "breaks nothing"),
                                    (["run", *folder.words(), "--devices", "5"], 2, "--duration is needed"),
                                    (["run", "--devices", "x", "--duration", "9"], 2, "--devices: its value"), ([], 2, "Usage"),
                                    (["run", "--duration", "9", "--", "--devices", "5"], 2, "'--devices': a run takes options alone"),
                                    (["run", "--scenario", "x", "--duration", "9"], 2, "--scenario"), (["run", "--durable", "9"], 2, "no option")):
            run = subprocess.run([program("walle-fleet-sim"), "shrink", *words, "--out", folder.stack.path("shrink")] if words else
                                 [program("walle-fleet-sim"), "shrink"], capture_output=True, text=True, timeout=120)
            self.assertEqual(run.returncode, status, run.stdout + run.stderr)
            self.assertIn(said, run.stderr)


if __name__ == "__main__":
    unittest.main()
