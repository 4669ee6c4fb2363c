"""What if, from a second of a run on: a run in virtual time is played again, as it was and with something done, and both are held
against each other. Before that second nothing may differ, and after it nothing but what was done."""
import json
import os
import re
import subprocess
import unittest

from fleet_folder import STAGES, FleetFolder
from walle_stack import Stack, program

DEVICES = 600


class FleetFork(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.addClassCleanup(cls.stack.__exit__, None, None, None)
        cls.folder = FleetFolder(cls.stack)
        cls.rollout = cls.folder.release("1.0.0")
        cls.folder.stop()
        cls.plain = cls.run_fleet("plain", "--duration", "500", "--arrival-rate", "20", "--checkin-interval", "30")
        cls.out = cls.stack.path("plain")

    @classmethod
    def sim(cls, *arguments, status=0):
        run = subprocess.run([program("walle-fleet-sim"), *arguments], capture_output=True, text=True, timeout=300,
                             stdin=subprocess.DEVNULL)
        assert run.returncode == status, f"{run.returncode}: {(run.stdout + run.stderr)[-3000:]}"
        return run.stdout + run.stderr

    @classmethod
    def run_fleet(cls, out, *arguments, status=0):
        text = cls.sim("run", *cls.folder.words(), "--devices", str(DEVICES), "--no-live", "--out", cls.stack.path(out), *arguments,
                       status=status)
        if status not in (0, 1, 99):
            return text
        with open(cls.stack.path(out, "run.json"), encoding="utf-8") as file:
            return json.load(file)

    def fork(self, *arguments, status=0, out=None):
        out = out or self.out
        text = self.sim("fork", out, *arguments, status=status)
        if status not in (0, 1):
            return text
        with open(os.path.join(out, "fork", "fork.json"), encoding="utf-8") as file:
            found = json.load(file)
        return text, found, {branch["name"]: branch for branch in found["branches"]}

    def test_branches_differ_by_what_is_done_alone(self):
        text, found, branches = self.fork("--at", "40", "--branch", "pause", "--branch", "slow: pause; +200 resume", "--branch", "abort",
                                          "--branch", "calm", "--json", self.stack.path("copy.json"))
        self.assertEqual([branch["name"] for branch in found["branches"]], ["as-it-was", "pause", "slow", "abort", "calm"])
        self.assertEqual((found["at_s"], found["to_s"], found["version"]), (40, 500, "shop/score 1.0.0"))
        # What was played again is what was; and there is no fault that could end.
        self.assertEqual(branches["as-it-was"]["digest"], self.plain["virtual"]["digest"])
        self.assertEqual(branches["calm"]["digest"], self.plain["virtual"]["digest"])
        self.assertTrue(all(not value for value in branches["calm"]["differences"].values()), branches["calm"])
        was, paused, slow, aborted = (branches[name]["metrics"] for name in ("as-it-was", "pause", "slow", "abort"))
        self.assertEqual((was["ran"], was["current"], was["stopped_s"], was["detect_s"]), (DEVICES, DEVICES, None, None))
        # Who ran it before the fork did so in every branch; nobody takes it up while it is paused, and the rest does later.
        before = was["ran"] - was["ran_after"]
        self.assertGreater(before, 0)
        for metrics in (paused, slow, aborted):
            self.assertEqual(metrics["ran"] - metrics["ran_after"], before)
            self.assertAlmostEqual(metrics["stopped_s"], 41, delta=1)
        self.assertLess(paused["ran"], DEVICES / 2)
        self.assertIsNone(paused["half_s"])
        self.assertEqual(slow["ran"], DEVICES)
        self.assertAlmostEqual(branches["slow"]["differences"]["half_s"], slow["half_s"] - was["half_s"])
        self.assertGreater(branches["slow"]["differences"]["half_s"], 100)
        self.assertEqual((aborted["current"], aborted["rolled_back"]), (0, aborted["ran"]))
        self.assertEqual(branches["slow"]["acts"], ["40 pause", "240 resume"])
        self.assertIn("an operator aborted it", branches["abort"]["rollout"])
        # For people: the same numbers, a page with a plot, and each branch as a run of its own.
        self.assertIn("everything before second 40 came again as it was, in all 5 branches", text)
        self.assertRegex(text, rf"devices that ran it +{DEVICES} +{paused['ran']:.0f} \(-{DEVICES - paused['ran']:.0f}\)")
        self.assertRegex(text, r"50 % of the fleet ran it +[\d.]+ s +never +[\d.]+ s \(\+[\d.]+\)")
        with open(os.path.join(self.out, "fork", "fork.html"), encoding="utf-8") as file:
            page = file.read()
        # Nobody is harmed in any branch: a plot of zeros would say nothing.
        self.assertEqual({metrics["failed"] + metrics["exposed"] for metrics in (was, paused, slow, aborted)}, {0})
        self.assertEqual(page.count("<svg"), 1)
        self.assertEqual(page.count("None in any of the branches, so there is no plot."), 1)
        self.assertIn(">slow<", page)
        with open(self.stack.path("copy.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), found)
        with open(os.path.join(self.out, "fork", "pause", "run.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["virtual"]["digest"], branches["pause"]["digest"])

    def test_a_fault_from_a_second_on(self):
        _, _, branches = self.fork("--at", "40", "--branch", "net: fault network:reset @ 40%", "--branch",
                                   "soon: fault network:reset @ 40%; +60 calm")
        was, net, soon = (branches[name]["metrics"] for name in ("as-it-was", "net", "soon"))
        self.assertEqual(was["request_errors"], 0)
        self.assertGreater(soon["request_errors"], 0)
        self.assertGreater(net["request_errors"], soon["request_errors"])
        self.assertGreater(net["ninety_nine_s"] or 500, soon["ninety_nine_s"])
        self.assertGreater(soon["ninety_nine_s"], was["ninety_nine_s"])

    def test_every_answer_that_is_lost_is_a_request_in_vain(self):
        """Each once, by the time-out of the device that asked; a fault of acts as one from the start."""
        for name, words in (("lost", ("--act", "40 fault network:loss @ 20%", "--act", "200 calm")),
                            ("mixed", ("--fault", "network:loss @ 10%", "--fault", "gateway:503 @ 10%", "--faults-until", "200"))):
            result = self.run_fleet(name, "--duration", "400", "--arrival-rate", "20", "--checkin-interval", "30", *words,
                                    "--threshold", "request_errors==0", status=99)
            faults = result["faults"]
            self.assertGreater(faults["network:loss"], 100, faults)
            self.assertEqual(result["totals"]["request_errors"], sum(faults.values()), faults)
            self.assertEqual([threshold["holds"] for threshold in result["thresholds"]], [False])

    def test_the_end_told_is_of_the_version_compared(self):
        """In a branch in which no device met it, too, and whatever else was released in that folder before."""
        stack = Stack()
        self.addCleanup(stack.__exit__, None, None, None)
        folder = FleetFolder(stack)
        stack.walle("rollout", "promote", folder.release("1.0.0", stages=STAGES[1:]), "--reason", "it is known")
        # Of the two devices that have come by the fork it hardly ever means one.
        folder.release("1.1.0", stages=[dict(STAGES[0], percent=5), STAGES[1]])
        folder.stop()
        out = stack.path("two")
        self.sim("run", *folder.words(), "--devices", str(DEVICES), "--no-live", "--out", out, "--duration", "200", "--arrival-rate", "2",
                 "--checkin-interval", "30", "--bad-version", "1.1.0", status=1)
        _, found, branches = self.fork("--at", "1", "--branch", "pause", "--branch", "abort", out=out, status=1)
        # The run is about the newest version that devices met; which that is hangs on where the second one's stage draws them.
        newer = found["version"] == "shop/score 1.1.0"
        self.assertIn("paused" if newer else "completed", branches["pause"]["rollout"])
        self.assertIn("an operator aborted it" if newer else "completed", branches["abort"]["rollout"])

    def test_a_fault_of_a_kind_that_the_run_has(self):
        """The run's own faults, from its start and of its acts, come as they came, whatever a branch adds of their kind."""
        self.run_fleet("lossy", "--duration", "200", "--arrival-rate", "20", "--checkin-interval", "30", "--fault", "network:reset @ 20%",
                       "--act", "20 fault network:reset @ 10%")
        _, _, branches = self.fork("--at", "100", "--branch", "more: fault network:reset @ 40%", out=self.stack.path("lossy"))
        was, more = (branches[name]["metrics"] for name in ("as-it-was", "more"))
        self.assertGreater(more["request_errors"], was["request_errors"])
        # One that never hits changes nothing at all, faults of acts that begin later included.
        self.run_fleet("later", "--duration", "200", "--arrival-rate", "20", "--checkin-interval", "30", "--act", "150 fault network:reset @ 30%")
        _, _, branches = self.fork("--at", "100", "--branch", "none: fault network:reset @ 0%", out=self.stack.path("later"))
        self.assertEqual(branches["none"]["digest"], branches["as-it-was"]["digest"])

    def test_harm_is_counted_from_the_first_device(self):
        self.run_fleet("bad", "--duration", "500", "--arrival-rate", "0.2", "--checkin-interval", "30", "--bad",
                       'os == "android" => exception @ 60%', "--bad-version", "1.0.0")
        # By second 1 one device has come: fewer than a gate stops for, and the next comes when it is aborted.
        _, _, branches = self.fork("--at", "1", "--branch", "abort", out=self.stack.path("bad"))
        was, aborted = (branches[name]["metrics"] for name in ("as-it-was", "abort"))
        self.assertLess(aborted["exposed"], was["exposed"])
        self.assertGreater(was["detect_s"], 0)
        self.assertLess(aborted["stopped_s"], was["stopped_s"])

    def test_a_run_that_is_another_before_the_fork_is_not_compared(self):
        self.run_fleet("moved", "--duration", "60", "--arrival-rate", "20")
        with open(self.stack.path("moved", "repro.txt"), "r+", encoding="utf-8") as file:
            line = file.read()
            file.seek(0)
            file.write(line.rstrip() + " --seed 2\n")
        text = self.fork("--at", "30", "--branch", "pause", out=self.stack.path("moved"), status=4)
        self.assertRegex(text, "branch as-it-was is another run from second [0-9] on, before the fork")
        self.assertNotIn("devices that ran it", text)
        self.assertFalse(os.path.exists(self.stack.path("moved", "fork", "fork.json")))

    def test_what_cannot_be_is_said(self):
        for words, status, said in (
                (("--at", "40", "--branch", "x: resume"), 4, "branch x: resume at second 40: the gateway refused it: "),
                (("--at", "501", "--branch", "pause"), 2, "--at 501: the run went on for 500 s"),
                (("--at", "40", "--branch", "stop"), 2, "--branch stop: pause, resume, promote"),
                (("--at", "40", "--to", "40", "--branch", "pause"), 2, "branches end at second 40"),
                (("--at", "40", "--branch", "pause", "--branch", "pause"), 2, "there is a branch 'pause' already"),
                (("--at", "40", "--branch", "x: fault network:lost @ 5%"), 2, "FAMILY:KIND is expected"),
                (("--at", "40"), 2, "--branch is expected"),
                (("--branch", "pause"), 2, "--at SECOND is expected"),
                (("--at", "0", "--branch", "pause"), 2, "a whole second")):
            self.assertIn(said, self.fork(*words, status=status))
        self.assertIn("nowhere", self.fork("--at", "4", "--branch", "pause", out=self.stack.path("nowhere"), status=4))
        self.assertIn("--act is for virtual time", self.sim("run", "--gateway", "http://127.0.0.1:1", "--act", "5 pause", "--root",
                                                            self.stack.path("root.1"), status=2))
        # A run that was to do what cannot be done did not do what it was to.
        self.assertIn("resume at second 5: the gateway refused it: ",
                      self.run_fleet("refused", "--duration", "20", "--act", "5 resume", status=4))

    def test_an_act_of_a_run_comes_again(self):
        run = self.run_fleet("acted", "--duration", "300", "--arrival-rate", "20", "--checkin-interval", "30", "--act", "20 pause", "--threads", "3")
        self.assertEqual(run["rollouts"][0]["state"], "paused")
        self.assertRegex(self.sim("verify", self.stack.path("acted")), r"^verified: ")
        text, _, branches = self.fork("--at", "100", "--branch", "resume", out=self.stack.path("acted"))
        self.assertRegex(text, re.escape("at second 100 resume"))
        self.assertGreater(branches["resume"]["metrics"]["ran"], branches["as-it-was"]["metrics"]["ran"])


if __name__ == "__main__":
    unittest.main()
