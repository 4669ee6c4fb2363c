"""Seeds of faults against the gateway's core and the devices that ship: whatever goes wrong, no invariant breaks, and once it ends
everybody comes to the release. And single faults: that they happen, to whom they are to, and that words that make no sense are
refused."""
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from fleet_folder import FleetFolder
from walle_stack import Stack, program, wait_until

SEEDS = 50
DEVICES = 40
AT_ONCE = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "max_failure": 1}]


def children(pid):
    """Processes that it started and that live."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        found += [int(name)] if int(fields[1]) == pid and fields[0] != "Z" else []
    return found


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class FleetSwarm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.addClassCleanup(cls.stack.__exit__, None, None, None)
        cls.folder = FleetFolder(cls.stack)
        cls.folder.stop()
        cls.empty = cls.stack.path("empty")
        shutil.copytree(cls.stack.path("gateway"), cls.empty)
        cls.folder.gateway = cls.stack.restart_gateway()
        cls.other_root = cls.stack.path("other.1")
        for name in ("c", "d"):
            cls.stack.walle("key", "new", "--out", cls.stack.path(name + ".key"))
        cls.stack.walle("root", "init", "--out", cls.other_root, *(word for option, names, end in (("--key", "cd", ".key"),
                        ("--release", "cd", ".key.pub")) for name in names for word in (option, cls.stack.path(name + end))))
        cls.folder.release("1.0.0")
        cls.folder.stop()

    def tool(self, command, *arguments, status=0):
        run = subprocess.run([program("walle-fleet-sim"), command, *arguments], capture_output=True, text=True, timeout=590,
                             stdin=subprocess.DEVNULL)
        self.assertIn(run.returncode, status if isinstance(status, tuple) else (status,), run.stdout[-3000:] + run.stderr)
        return run.stdout + run.stderr

    def play(self, *arguments, devices=80, status=0):
        out = self.stack.path("out")
        text = self.tool("run", *self.folder.words(), "--devices", str(devices), "--no-live", "--out", out, *arguments, status=status)
        if status == 2:
            return text
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_every_seed_holds(self):
        out = self.stack.path("swarm")
        text = self.tool("swarm", *self.folder.words(), "--devices", str(DEVICES), "--seeds", str(SEEDS), "--bad-version", "1.0.0",
                         "--faults-until", "600", "--duration", "3000", "--out", out)
        self.assertIn(f"{SEEDS} of {SEEDS} seeds, 0 failed", text)
        with open(os.path.join(out, "swarm.json"), encoding="utf-8") as file:
            swarm = json.load(file)
        self.assertEqual((swarm["seeds"], swarm["failed"], len(swarm["runs"])), (SEEDS, 0, SEEDS))
        families = {fault.split(":")[0] for run in swarm["runs"] for fault in run["faults"]}
        self.assertEqual(families, {"network", "gateway", "storage", "process", "clock", "device"})
        kinds = {fault.split(" ")[0] for run in swarm["runs"] for fault in run["faults"]}
        self.assertEqual(len(kinds), 42)
        self.assertEqual(os.listdir(out), ["swarm.json"])  # what held leaves nothing
        # What compared nothing is not counted as held: the bad release's devices were back in the seeds in which there was one.
        compared = swarm["compared"]
        self.assertEqual(compared["once"], SEEDS)
        self.assertTrue(0 < compared["back"] < SEEDS, compared)
        self.assertEqual(compared["law"], 0)  # no tunnel
        self.assertIn("seeds in which each invariant compared something:", text)
        self.assertIn(f"once {SEEDS}", text)

    def test_progress_is_told_as_seeds_end(self):
        text = self.tool("swarm", *self.folder.words(), "--devices", "20", "--seeds", "2", "--faults-until", "300", "--duration", "1200",
                         "--out", self.stack.path("short"))
        self.assertIn("1 of 2 seeds, 0 failed\n2 of 2 seeds, 0 failed\n", text)

    # Many seeds can be played in pieces: what ended is kept, and nothing is played twice.
    def test_a_swarm_that_was_interrupted_goes_on(self):
        words = ("--devices", "20", "--seeds", "6", "--faults-until", "300", "--duration", "1200", "--bad-version", "1.0.0", "--out")
        out, whole = self.stack.path("pieces"), self.stack.path("whole")

        def kept(folder):
            with open(os.path.join(folder, "swarm.json"), encoding="utf-8") as file:
                return json.load(file)
        run = subprocess.Popen([program("walle-fleet-sim"), "swarm", *self.folder.words(), *words, out, "--jobs", "1"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        for line in run.stdout:
            if line.startswith("2 of 6 seeds"):
                run.send_signal(signal.SIGTERM)
                break
        _, said = run.communicate(timeout=300)
        self.assertEqual(run.returncode, 5, said)
        before = kept(out)
        self.assertIn(f"interrupted after {before['seeds']} of 6 seeds: --resume goes on", said)
        self.assertTrue(2 <= before["seeds"] < 6, before)
        for other, said in ((("--devices", "21"), "--devices: 20"), (("--first-seed", "2"), "--first-seed: 1"),
                            (("--faults-until", "301"), "--faults-until: 300"), (("--seeds", "1"), "has seed 2")):
            self.assertIn(said, self.tool("swarm", *self.folder.words(), *words, out, *other, "--resume", status=4))
        self.assertEqual(kept(out), before)
        text = self.tool("swarm", *self.folder.words(), *words, out, "--resume")
        self.assertIn(f"{before['seeds']} of 6 seeds were played before\n", text)
        self.assertIn("\n6 of 6 seeds, 0 failed", text)
        self.assertNotIn(f"\n{before['seeds']} of 6 seeds, ", text)
        after = kept(out)
        self.tool("swarm", *self.folder.words(), *words, whole)
        once = kept(whole)
        for found in (after, once):
            found["runs"].sort(key=lambda item: item["seed"])
            del found["took_s"]
        self.assertEqual(after, once)
        # And a swarm that was played to its end has nothing to play.
        text = self.tool("swarm", *self.folder.words(), *words, out, "--resume")
        self.assertIn("6 of 6 seeds were played before\n", text)
        self.assertEqual(kept(out)["seeds"], 6)

    # A swarm in which no release reaches anybody has tried nothing, and says what the run without faults said.
    def test_a_swarm_that_tries_nothing_does_not_pass(self):
        words = ("--devices", "20", "--seeds", "2", "--faults-until", "300", "--duration", "1200", "--out", self.stack.path("nothing"))
        for of, status, said in ((("--virtual", self.empty), 10, "NO RELEASE"), (("--root", self.other_root), 10, "the last rollout, of shop/score 1.0.0, is rolled_back"),
                                 (("--bad-version", "9.9.9"), 1, "--bad-version 9.9.9: never came to these devices")):
            text = self.tool("swarm", *self.folder.words(), *words, *of, status=status)
            self.assertIn("the run without faults: ", text)
            self.assertIn(said, text)
            self.assertNotIn("seeds, 0 failed", text)

    # A seed that a release reached nobody in has held nothing: it is told, and counted.
    def test_seeds_that_try_nothing_are_counted(self):
        stack = self.enterContext(Stack())
        folder = FleetFolder(stack)
        folder.release("1.0.0", AT_ONCE)
        folder.stop()

        def swarm(*words, status=0):
            out = stack.path("few")
            text = self.tool("swarm", *folder.words(), "--devices", "1", "--out", out, *words, status=status)
            with open(os.path.join(out, "swarm.json"), encoding="utf-8") as file:
                return text, json.load(file)
        text, found = swarm("--seeds", "20", "--faults-until", "59", "--duration", "60")
        runs = [run for run in found["runs"] if run["nothing_because"]]
        self.assertTrue(0 < len(runs) < 20, text)
        self.assertEqual(found["nothing"], len(runs))
        self.assertTrue(all(7 <= run["exit"] <= 11 and run["repeat"] for run in runs), runs)
        self.assertEqual(len(re.findall(r"seed \d+ tried NOTHING: ", text)), len(runs))
        self.assertIn(f"20 of 20 seeds, 0 failed, {len(runs)} tried nothing\n", text)
        only = str(runs[0]["seed"])
        text, found = swarm("--seeds", "1", "--first-seed", only, "--faults-until", "59", "--duration", "60", status=runs[0]["exit"])
        self.assertIn("no seed tried anything", text)
        self.assertEqual(found["nothing"], 1)

    # Nor does a seed try the gate of a rollout that was over when it began.
    def test_a_rollout_that_is_over_is_told(self):
        with Stack() as stack:
            folder = FleetFolder(stack)
            rollout = folder.release("1.0.0", AT_ONCE)
            run = subprocess.run([program("walle-fleet-sim"), "run", "--gateway", folder.gateway.url, "--root", stack.path("root.1"),
                                  "--devices", "5", "--no-live", "--until-rollout", rollout, "--duration", "60", "--checkin-interval",
                                  "1", "--seed", "77", "--out", stack.path("real")], capture_output=True, text=True, timeout=120)
            self.assertEqual(run.returncode, 0, run.stdout[-2000:] + run.stderr)
            folder.stop()
            words = ("--devices", "10", "--seeds", "1", "--faults-until", "300", "--duration", "1200", "--out")
            for of, over in ((folder, True), (self.folder, False)):
                out = stack.path(f"swarm-{over}")
                text = self.tool("swarm", *of.words(), *words, out)
                self.assertEqual("the rollout was over before these runs" in text, over, text)
                with open(os.path.join(out, "swarm.json"), encoding="utf-8") as file:
                    self.assertIs(json.load(file)["over_before"], over)

    # Whatever ends a swarm, its runs end too.
    def test_a_killed_swarm_leaves_no_run(self):
        long = ("--devices", "2000", "--duration", "1000000")
        for command, words in (("swarm", ("--seeds", "4", "--faults-until", "900000")),
                               ("shrink", ("run", "--fault", "network:loss @ 1%", "--until-coverage", "100%", "--where", 'os == "ios"'))):
            line = words[:1] + tuple(self.folder.words()) + words[1:] if command == "shrink" else tuple(self.folder.words()) + words
            run = subprocess.Popen([program("walle-fleet-sim"), command, *line, *long, "--out", self.stack.path("killed")],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            started = wait_until(lambda: children(run.pid))
            run.send_signal(signal.SIGKILL)
            run.wait()
            wait_until(lambda: not any(map(lives, started)), what="the runs' end")

    # No invariant breaks where no run can be played: that is the caller's to mend, and is told in the run's own words.
    def test_what_cannot_be_played_is_no_failure_of_a_seed(self):
        nowhere = ("--virtual", self.stack.path("nowhere"), "--out", self.stack.path("nothing"))
        text = self.tool("swarm", *self.folder.words(), *nowhere, status=4)
        self.assertIn("no gateway's data folder", text)
        self.assertNotIn("died", text)
        text = self.tool("shrink", "run", *self.folder.words(), *nowhere, "--duration", "9", status=4)
        self.assertIn("no gateway's data folder", text)
        text = self.tool("shrink", "run", *self.folder.words(), "--duration", "9", "--lost", "--out", self.stack.path("nothing"), status=2)
        self.assertIn("--lost", text)
        self.assertIn("--duration SECONDS is needed", self.tool("shrink", "--help"))

    def test_faults_end_and_everybody_comes(self):
        result = self.play("--fault", "network:loss @ 20%", "--fault", "gateway:down 60 @ 50%", "--fault", "process:kill @ 20%",
                           "--faults-until", "900", "--duration", "4500")
        for kind in ("network:loss", "gateway:down", "process:kill"):
            self.assertGreater(result["faults"][kind], 0)
        ended = {oracle["name"]: oracle for oracle in result["oracles"]}["ended"]
        self.assertTrue(ended["checked"] and ended["holds"], ended)
        self.assertEqual(ended["of"], 80)

    # Nobody has a network from the start until long after a run without faults would have given up.
    def test_faults_from_the_start_are_waited_out(self):
        result = self.play("--fault", "network:outage 90 @ 100%", "--faults-until", "90", "--duration", "3600")
        self.assertGreater(result["faults"]["network:outage"], 0)
        self.assertNotIn("nothing was answered", result["ended"])
        ended = {oracle["name"]: oracle for oracle in result["oracles"]}["ended"]
        self.assertEqual((ended["holds"], ended["of"]), (True, 80))
        gone = self.play("--fault", "network:outage 90 @ 100%", "--duration", "3600", status=7)
        self.assertEqual(gone["ended"], "nothing was answered for 30 s")

    # What a path loses and what a phone does to its apps shows in what happened, and is over when it is: everybody comes to the release.
    def test_what_paths_lose_and_phones_put_off(self):
        stack = self.enterContext(Stack())
        folder = FleetFolder(stack)
        folder.release("1.0.0", AT_ONCE)  # whatever fails, it goes on
        folder.stop()
        calm, seen = self.play(*folder.words(), "--duration", "1500"), {}
        for fault in ("network:dns 3600 @ 90%", "network:mtu 300 @ 100%", "network:replay 60 @ 20%", "device:throttle 8 @ 50%",
                      "device:memory 128 @ 20%", "device:killer @ 20%", "device:saver 600 @ 100%", "device:doze 900 @ 80%"):
            kind = fault.split(" ")[0]
            result = self.play(*folder.words(), "--fault", fault, "--faults-until", "900", "--until-rest", "--own-signatures", "--duration", "7200")
            self.assertGreater(result["faults"][kind], 0, fault)
            oracles = {oracle["name"]: oracle for oracle in result["oracles"]}
            self.assertTrue(all(oracle["holds"] for oracle in oracles.values()), oracles)
            self.assertTrue(oracles["ended"]["checked"], fault)
            self.assertEqual((oracles["ended"]["of"], result["rollouts"][-1]["state"]), (80, "completed"), fault)
            self.assertEqual(result["ended"], "everybody is where the rollout has them", fault)
            self.assertEqual(result["versions"][0]["ran"] + result["versions"][0]["failed"], 80, fault)
            with open(self.stack.path("out", "coverage.csv"), encoding="utf-8") as file:
                rows = [line.strip().split(",") for line in file if ",ran," in line]
            early = max((int(row[3]) for row in rows if float(row[2]) < 899), default=0)
            # Hardly anybody hears of it while no name is found, nothing fits or no request is let out; all others have it at once.
            self.assertEqual(early < 40, kind in ("network:dns", "network:mtu", "device:saver"), (fault, early))
            seen[kind] = result
        for kind in ("network:dns", "device:saver"):
            self.assertGreater(seen[kind]["totals"]["request_errors"], calm["totals"]["request_errors"], kind)
        # What comes once more, the gateway does not count twice.
        self.assertEqual({row["gap"] for row in seen["network:replay"]["truth_gap"][0]["devices"].values()}, {0})
        # Where there is less memory, runs fail and say so; where the process is taken with it, it is killed, and tries again.
        memory, killer = seen["device:memory"], seen["device:killer"]
        self.assertEqual(memory["versions"][0]["failed"], memory["faults"]["device:memory"])
        self.assertEqual((killer["totals"]["crashes"], killer["versions"][0]["failed"]), (killer["faults"]["device:killer"], 0))
        # A phone that sleeps deeply asks less often.
        self.assertLess(seen["device:doze"]["totals"]["checkins"], calm["totals"]["checkins"])

    # A script that is done in its time is not where the processor is hot.
    def test_a_script_that_heat_makes_too_slow(self):
        stack = self.enterContext(Stack())
        folder = FleetFolder(stack)
        folder.release("1.0.0", AT_ONCE, "len([i for i in range(40000) if i < 0])")
        folder.stop()
        for fault, failed in (("device:throttle 8 @ 100%", 0), ("device:throttle 1000 @ 100%", 20)):
            result = self.play(*folder.words(), "--fault", fault, "--duration", "30", devices=20, status=(0, 1))
            self.assertEqual((result["faults"]["device:throttle"], result["versions"][0]["failed"]), (20, failed))
        self.assertIn("fail_timeout", json.dumps(result))

    # All of them at once, on any number of threads, and a line with them is made small.
    def test_many_of_them_at_once(self):
        faults = [word for fault in ("network:dns @ 5%", "network:mtu @ 5%", "network:replay @ 10%", "device:throttle @ 20%", "device:saver @ 20%",
                                     'device:doze @ 50% where os == "android"', "device:killer @ 5%") for word in ("--fault", fault)]
        first, second = (self.play(*faults, "--threads", threads, "--faults-until", "900", "--duration", "1200", devices=250, status=(0, 1))
                         for threads in ("1", "2"))
        self.assertEqual(first["virtual"]["digest"], second["virtual"]["digest"])
        self.assertEqual(first["faults"], second["faults"])
        less = self.play(*[word for fault in ("network:dns @ 5%", "network:replay @ 10%") for word in ("--fault", fault)], "--duration", "60")
        self.assertEqual(set(less["faults"]), {"network:dns", "network:replay"})

    # Ten minutes after the faults, or after the last device came where it should be.
    def test_a_run_ends_when_all_is_at_rest(self):
        words = ("--fault", "network:loss @ 20%", "--fault", "process:kill @ 20%", "--faults-until", "600", "--until-rest")
        result = self.play(*words, "--duration", "7200")
        self.assertEqual(result["ended"], "everybody is where the rollout has them")
        self.assertTrue(1200 <= result["duration_s"] < 3600, result["duration_s"])
        ended = {oracle["name"]: oracle for oracle in result["oracles"]}["ended"]
        self.assertTrue(ended["checked"] and ended["holds"], ended)
        self.assertEqual(ended["of"], 80)
        short = self.play(*words, "--duration", "1100")
        self.assertEqual(short["ended"], "1100 s are over")
        for rest, said in ((("--gateway", "http://127.0.0.1:1", "--faults-until", "9"), "--until-rest is for virtual time"),
                           (tuple(self.folder.words()), "faults that end")):
            self.assertIn(said, self.tool("run", *rest, "--until-rest", "--duration", "20", status=2))

    # What the core signed in the run is not verified again, and the run is the same.
    def test_own_signatures_change_nothing(self):
        words = ("--fault", "network:corrupt @ 5%", "--fault", "network:loss @ 5%", "--duration", "900")
        first, second = self.play(*words), self.play(*words, "--own-signatures")
        self.assertEqual(first["virtual"]["digest"], second["virtual"]["digest"])
        verified, left = (result["verified_for_real"]["signatures_verified"] for result in (first, second))
        self.assertTrue(0 < left < verified / 4, (verified, left))
        self.assertIn("--own-signatures is for virtual time",
                      self.tool("run", "--gateway", "http://127.0.0.1:1", "--own-signatures", status=2))

    # Whatever the gateway had said, it still says when it was killed and is there again.
    def test_a_gateway_that_is_killed(self):
        words = ("--fault", "gateway:restart 20 @ 100%", "--faults-until", "600", "--duration", "3600")
        first, second = (self.play(*words, "--threads", threads, devices=200) for threads in ("1", "2"))
        self.assertEqual(first["faults"], {"gateway:restart": 30})
        self.assertEqual(first["virtual"]["digest"], second["virtual"]["digest"])
        self.assertGreater(first["totals"]["request_errors"], 0)
        oracles = {oracle["name"]: oracle for oracle in first["oracles"]}
        self.assertTrue(oracles["ended"]["checked"], oracles["ended"])
        self.assertTrue(all(oracle["holds"] for oracle in oracles.values()), oracles)
        self.assertEqual(first["rollouts"][-1]["state"], "completed")
        text = self.tool("run", "--gateway", "http://127.0.0.1:1", *words, status=2)
        self.assertIn("--fault gateway:restart is for virtual time", text)

    # Who loses all comes to the release once more, as itself or as a device that the gateway has never heard of.
    def test_devices_that_are_installed_anew(self):
        words = ("--reinstalls", "40%", "--kills", "2%", "--duration", "7200", "--fault", "network:loss @ 1%", "--faults-until", "3600")
        first, second = (self.play(*words, "--threads", threads, devices=200) for threads in ("1", "2"))
        self.assertEqual(first["virtual"]["digest"], second["virtual"]["digest"])
        totals = first["totals"]
        self.assertTrue(50 < totals["reinstalls"] < 110, totals)
        self.assertTrue(200 + 20 < totals["enrolled"] < 200 + 60, totals)
        self.assertEqual((totals["enrolled_before"], totals["unenrolled"]), (0, 0))
        self.assertGreater(totals["activations"], 200 + 50)
        oracles = {oracle["name"]: oracle for oracle in first["oracles"]}
        self.assertTrue(oracles["ended"]["checked"] and all(oracle["holds"] for oracle in oracles.values()), oracles)
        self.assertEqual(first["rollouts"][-1]["state"], "completed")
        self.assertIn("--reinstalls is for virtual time", self.tool("run", "--gateway", "http://127.0.0.1:1", *words[:2], status=2))

    # What is drawn and does not come about is none, and what comes about is one.
    def test_a_fault_counts_where_it_happens(self):
        drawn = self.play("--fault", "process:kill 10000 @ 100%", "--fault", "storage:full 10000 @ 100%", "--duration", "600")
        self.assertEqual((drawn["faults"], drawn["totals"]["crashes"]), ({}, 0))
        killed = self.play("--fault", "process:kill 10 @ 50%", "--duration", "600")
        self.assertGreater(killed["totals"]["crashes"], 0)
        self.assertEqual(killed["faults"], {"process:kill": killed["totals"]["crashes"]})

    def test_the_same_faults_give_the_same_run(self):
        options = ("--fault", "network:delay 3000 @ 20%", "--fault", "storage:backup @ 10%", "--fault", "process:kill @ 20%",
                   "--fault", "network:duplicate @ 10%", "--duration", "900")
        first, second = (self.play(*options, "--threads", threads, devices=250) for threads in ("1", "2"))
        self.assertEqual(first["virtual"]["digest"], second["virtual"]["digest"])
        self.assertEqual(first["faults"], second["faults"])

    def test_a_fault_is_of_those_it_means(self):
        result = self.play("--fault", 'gateway:503 @ 100% where os == "ios"', "--duration", "300")
        androids = 80 - self.play("--where", 'os == "android"', "--duration", "5")["totals"]["arrived"]
        self.assertEqual(androids, 0)
        self.assertGreater(result["totals"]["checkins"], 0)
        self.assertGreater(result["faults"]["gateway:503"], 0)
        text = self.tool("run", *self.folder.words(), "--fault", 'gateway:503 @ 100% where os == "windows"', "--duration", "300",
                         "--out", self.stack.path("nobody"), status=6)
        self.assertIn("--fault: none of the 1000 virtual devices is like this: gateway:503", text)
        self.assertFalse(os.path.exists(self.stack.path("nobody")))
        text = self.tool("run", *self.folder.words(), "--devices", "20", "--no-live", "--duration", "30", "--out", self.stack.path("out"),
                         "--fault", "network:loss @ 0%")
        self.assertIn("faults      network:loss 0", text)  # asked for, and never happened
        self.assertIn("NOT TRIED   after the faults every device came to the release, or off the one that went back: faults do not end", text)

    # A gateway that is down meets no storm: devices wait longer and longer, over their sleeps too.
    def test_a_gateway_that_is_down_is_not_stormed(self):
        for slots in ("4096", "20"):  # they stay awake meanwhile, or sleep
            result = self.play("--fault", "gateway:503 @ 100%", "--duration", "3600", "--awake", slots, status=8)
            self.assertLess(result["totals"]["requests"] / 80, 100)  # in an hour

    # Nor is one by devices that read wrong whatever they stored: all is answered, and all comes again, later and later.
    def test_a_broken_flash_is_no_storm(self):
        result = self.play("--fault", "storage:flip @ 100%", "--duration", "1800", devices=20, status=(1, 9))
        calm = {oracle["name"]: oracle for oracle in result["oracles"]}["calm"]
        self.assertTrue(calm["checked"] and calm["holds"], calm)
        self.assertGreater(result["faults"]["storage:flip"], 0)
        self.assertLess(result["totals"]["requests"] / 20, 300)  # in half an hour

    # What the command line names, and devices never met: nothing was shown of it.
    def test_a_release_that_is_named_has_to_come(self):
        for words, said in ((("--rollout", "0" * 15 + "1"), "no such rollout: the gateway has no 0000000000000001"),
                            (("--version", "9.9.9"), "version 9.9.9 reached none")):
            result = self.play(*words, "--duration", "300", status=9)
            self.assertIn(said, result["failed_because"])
        result = self.play("--until-rollout", "0" * 15 + "1", status=9)  # and no end is set
        self.assertEqual(result["ended"], "no such rollout")
        result = self.play("--fault", "network:loss @ 100%", "--duration", "60", status=7)
        self.assertIn("requests was answered; the faults may be why", result["failed_because"])

    def test_words_that_make_no_sense_are_refused(self):
        for fault, said in (("network:lost", "FAMILY:KIND"), ("network:loss @ 2", "a probability"), ("network:loss", "'@ PROBABILITY'"), ("network:delay 0 @ 1%", "whole number"),
                            ("network:loss @ 1% where os ==", "column")):
            self.assertIn(said, self.play("--fault", fault, status=2))
        self.assertIn("--faults-until", self.tool("swarm", *self.folder.words(), "--faults-until", "99", "--duration", "9", status=2))


if __name__ == "__main__":
    unittest.main()
