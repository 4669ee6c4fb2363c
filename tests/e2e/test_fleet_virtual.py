"""A release tried in virtual time: the simulator runs a fleet against the gateway's core in its own process, which goes on from
the folder of a gateway that was stopped. Minutes pass in a second, every signature is real, the folder stays as it was, and the
same options give the same run."""
import hashlib
import json
import os
import re
import shutil
import subprocess
import unittest

from walle_stack import Gateway, Stack, program, wait_until

DEVICES = 600
STAGES = [{"name": "gray", "kind": "gray", "percent": 10, "min_sample": 20, "min_dwell_s": 60, "max_failure": 0.05},
          {"name": "full", "kind": "full", "percent": 100, "min_sample": 50, "min_dwell_s": 5, "max_failure": 0.05}]


def folder_sums(folder):
    sums = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            with open(path, "rb") as file:
                sums[os.path.relpath(path, folder)] = hashlib.sha256(file.read()).hexdigest()
    return sums


class FleetVirtual(unittest.TestCase):
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
        os.mkdir(stack.path("source"))
        with open(stack.path("source", "task.json"), "w", encoding="utf-8") as file:
            json.dump({"name": "shop/score", "version": "1.0.0", "entry": "task", "files": ["task.py"]}, file)
        with open(stack.path("source", "task.py"), "w", encoding="utf-8") as file:
            file.write("import walle\nwalle.result({'version': 1})\n")
        with open(stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(STAGES, file)
        stack.walle("task", "build", stack.path("source"), "--out", stack.path("build"))
        stack.walle("task", "push", stack.path("build"))
        run = stack.walle("rollout", "start", "shop/score", "--build", stack.path("build"), "--stages", stack.path("stages.json"), "--key",
                    stack.path("ci.key"), "--key", stack.path("lead.key"), "--accept-empty")
        cls.rollout = re.match(r"[0-9a-f]{16}", run.stdout).group(0)
        cls.running = cls.run_fleet("running", "--duration", "10", status=4)  # a gateway runs there
        assert gateway.stop() == 0
        cls.before = folder_sums(stack.path("gateway"))

    @classmethod
    def run_fleet(cls, out, *arguments, status=0, devices=DEVICES):
        out = cls.stack.path("out-" + out)
        run = subprocess.run([program("walle-fleet-sim"), "run", "--virtual", cls.stack.path("gateway"), "--root",
                              cls.stack.path("root.1"), "--devices", str(devices), "--no-live", "--out", out, *arguments],
                             capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        text = run.stdout + run.stderr
        assert run.returncode in (status if isinstance(status, tuple) else (status,)), f"{run.returncode}: {text[-3000:]}"
        if run.returncode not in (0, 1):
            return text
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_the_release_reaches_everybody(self):
        result = self.run_fleet("all", "--until-coverage", "100%", "--duration", "7200", "--real-every", "10")
        version = result["versions"][0]
        self.assertEqual((result["outcome"], version["ran"], version["failed"]), ("passed", DEVICES, 0))
        self.assertEqual(result["rollouts"][0]["state"], "completed")
        # Devices ask every five minutes (the gateway's default) and the gray stage dwells a minute.
        self.assertGreater(result["duration_s"], 300)
        self.assertLess(result["virtual"]["took_s"], result["duration_s"])
        self.assertTrue(all(oracle["holds"] for oracle in result["oracles"]), result["oracles"])
        self.assertEqual(result["totals"]["request_errors"], 0)
        self.assertEqual((result["totals"]["enrolled"], result["totals"]["enrol_refused"]), (DEVICES, 0))
        # The script looks at nothing of its device: each of 64 shards makes one run of its kind, and the devices that share
        # nothing make theirs.
        real = result["verified_for_real"]
        self.assertGreater(real["devices"], 0)
        self.assertIn(real["runs_shared"], range(DEVICES - real["devices"] - 64, DEVICES - real["devices"]))
        self.assertEqual(real["disagreed"], 0)
        self.assertEqual(result["fidelity"], {"release_path": DEVICES, "behaviour": 0, "unshared": real["devices"], "own_connection": 0,
                                              "byte_exact": 0, "http2": False, "tls": False, "own_tls": False})
        self.assertEqual(folder_sums(self.stack.path("gateway")), self.before)
        # What the gateway heard is what was, and a latency in virtual time is nobody's lateness.
        gap = result["truth_gap"][0]
        self.assertTrue(gap["said"], gap)
        self.assertEqual({row: (count["truth"], count["gap"], count["percent"]) for row, count in gap["devices"].items()},
                         {"offered": (DEVICES, 0, 0), "ran": (DEVICES, 0, 0), "failed": (0, 0, 0), "undecided": (0, 0, 0),
                          "rolled_back": (0, 0, 0), "current": (DEVICES, 0, 0)})
        self.assertIsNone(result["latency_warning"])

    def test_memory_is_as_the_preflight_said(self):
        """Most of it is the awake devices', and all of them are awake at once. What one that sleeps takes is measured in the same run."""
        devices = 3000
        out = self.stack.path("out-memory")
        run = subprocess.run([program("walle-fleet-sim"), "run", "--virtual", self.stack.path("gateway"), "--root", self.stack.path("root.1"),
                              "--devices", str(devices), "--no-live", "--out", out, "--arrival-rate", "20000", "--duration", "8"],
                             capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertGreater(result["saved_states"]["devices"], 100)  # of the first stage: others have nothing to save
        self.assertLess(result["saved_states"]["without_base"], 10)
        self.assertGreater(result["saved_states"]["checked"], 0)
        self.assertEqual(result["saved_states"]["disagreed"], 0)
        self.assertGreater(result["virtual"]["folder_bytes"], 50 * devices)
        budget = int(re.search(r"(?m)^  memory +(\d+) MiB of", run.stdout + run.stderr).group(1))
        if not os.environ.get("WALLE_SANITIZE"):  # a sanitizer has memory of its own
            self.assertLess(result["peak_rss_bytes"] / 2**20, 1.1 * budget)
            self.assertGreater(result["peak_rss_bytes"] / 2**20, 0.75 * budget)  # nine of ten are offered nothing yet
            self.assertGreater(result["virtual"]["dormant_bytes"], 200)
            self.assertLess(result["virtual"]["dormant_bytes"], 6500)  # so few pay for the tables of every shard, and for who is awake

    def test_nothing_is_left_behind(self):
        def there():
            return {name for name in os.listdir("/dev/shm") if name.startswith("walle-virtual-")}
        before = there()
        self.run_fleet("left", "--duration", "5")
        os.rename(self.stack.path("gateway", "keys"), self.stack.path("keys"))
        try:
            self.assertIn("keys/timestamp.key", self.run_fleet("keyless", "--duration", "5", status=4))
        finally:
            os.rename(self.stack.path("keys"), self.stack.path("gateway", "keys"))
        wait_until(lambda: not there() - before)  # another test's are there for a while

    def test_what_a_killed_run_leaves_holds_no_key_and_goes(self):
        def there():
            return {os.path.join("/dev/shm", name) for name in os.listdir("/dev/shm") if name.startswith("walle-virtual-")}
        before = there()
        run = subprocess.Popen([program("walle-fleet-sim"), "run", "--virtual", self.stack.path("gateway"), "--root", self.stack.path("root.1"),
                                "--devices", "200", "--no-live", "--until-stopped", "--out", self.stack.path("killed")],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        def copies():  # of this run: it holds the folder
            return {os.path.realpath(f"/proc/{run.pid}/fd/{name}") for name in os.listdir(f"/proc/{run.pid}/fd")} & there()
        mine = wait_until(lambda: copies() if all(os.path.exists(os.path.join(name, "store.mdb")) for name in copies()) else None)
        self.assertEqual(len(mine), 1)
        copy = mine.pop()
        os.utime(copy, (1, 1))
        self.run_fleet("beside", "--duration", "5")
        self.assertTrue(os.path.exists(copy), "a run that lives keeps its copy")
        run.kill()
        run.wait()
        seeds = [os.path.join(at, name) for at, _, names in os.walk(copy) for name in names if name.endswith(".key")]
        self.assertEqual(seeds, [])
        os.utime(copy, (1, 1))
        self.run_fleet("after", "--duration", "5")
        self.assertFalse(os.path.exists(copy))
        self.assertFalse({name for name in there() - before if os.stat(name).st_mtime == 1})

    def test_what_is_no_store_is_not_an_empty_gateway(self):
        def refused(name, *words):
            text = self.run_fleet("odd", "--virtual", odd, "--duration", "5", status=4)
            for word in (os.path.join(odd, name), *words):
                self.assertIn(word, text)
        odd = self.stack.path("odd")
        for make, said in ((lambda path: os.symlink(self.stack.path("gateway", "store.mdb"), path), "symbolic link"),
                           (os.mkfifo, "named pipe"), (os.mkdir, "folder")):
            shutil.copytree(self.stack.path("gateway"), odd, ignore=shutil.ignore_patterns("store.mdb"))
            make(os.path.join(odd, "store.mdb"))
            refused("store.mdb", said)
            shutil.rmtree(odd)
        for make in (lambda path: os.symlink(self.stack.path("gateway", "blobs"), path), os.mkfifo):
            shutil.copytree(self.stack.path("gateway"), odd, ignore=shutil.ignore_patterns("blobs"))
            make(os.path.join(odd, "blobs"))
            refused("blobs")
            shutil.rmtree(odd)
        shutil.copytree(self.stack.path("gateway"), odd)
        os.symlink(os.path.join(odd, "elsewhere"), os.path.join(odd, "blobs", "other"))
        refused(os.path.join("blobs", "other"), "symbolic link")
        shutil.rmtree(odd)

    def test_the_same_options_give_the_same_run(self):
        options = ("--kills", "5%", "--duration", "900")
        first, second = (self.run_fleet(f"same-{number}", *options) for number in range(2))
        other = self.run_fleet("other", *options, "--seed", "2")
        self.assertEqual(first["virtual"]["digest"], second["virtual"]["digest"])
        self.assertEqual(first["totals"], second["totals"])
        self.assertEqual(first["latency_us"], second["latency_us"])
        self.assertNotEqual(first["virtual"]["digest"], other["virtual"]["digest"])
        self.assertGreater(first["totals"]["crashes"], 0)

    def test_any_number_of_threads_gives_the_same_run(self):
        for name, options in (("calm", ()), ("kills", ("--kills", "5%", "--seed", "3"))):
            runs = [self.run_fleet(f"{name}-{threads}", "--threads", str(threads), "--until-coverage", "100%", "--duration", "900",
                                   "--arrival-rate", "400", "--real-every", "100", *options, devices=2000) for threads in (1, 2, 5)]
            for run in runs[1:]:
                self.assertEqual(run["virtual"]["digest"], runs[0]["virtual"]["digest"])
                for part in ("totals", "latency_us", "versions", "trust", "oracles", "duration_s"):
                    self.assertEqual(run[part], runs[0][part], part)
            self.assertEqual(runs[0]["outcome"], "passed")
            self.assertEqual(runs[0]["totals"]["crashes"] > 0, name == "kills")

    def diff(self, first, second, status):
        run = subprocess.run([program("walle-fleet-sim"), "diff", self.stack.path("out-" + first), self.stack.path("out-" + second)],
                             capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def test_where_two_runs_part_is_found_to_the_event(self):
        options = ("--kills", "5%", "--duration", "400", "--arrival-rate", "100")
        plain = self.run_fleet("plain", *options, devices=1000)
        self.run_fleet("again", *options, "--threads", "3", devices=1000)
        self.assertIn(f"the same run: digest {plain['virtual']['digest']}", self.diff("plain", "again", 0))
        # One thing differs: a script fails on few devices. Nothing else is different before the first of them has run it.
        self.run_fleet("planted", *options, "--bad", 'os == "ios" => exception @ 20%', "--bad-version", "1.0.0", "--threads", "2",
                       devices=1000, status=(0, 1))  # are all back before its end?
        text = self.diff("plain", "planted", 1)
        place = re.search(r"they part in second (\d+), in shard (\d+)\n", text)
        events = re.findall(r": (\d+)\.(\d{6}) device (\d+) run (\w+)\n", text)
        self.assertEqual(len(events), 2, text)
        (second, micro, device, good), (other_second, other_micro, other_device, bad) = events
        self.assertEqual((second, micro, device), (other_second, other_micro, other_device))
        self.assertEqual((good, bad), ("ran", "fail_exception"))
        self.assertEqual(int(second), int(place.group(1)))
        self.assertEqual(int(device) // 100, int(place.group(2)))  # ten shards of 100 devices
        self.assertRegex(text, r"after [1-9]\d* that are the same")
        for out in ("plain", "planted"):  # two runs were made for it, no more
            self.assertEqual(os.listdir(self.stack.path("out-" + out, "again")).count("trace.txt"), 1)
        # A run that does not come again as it was is no proof of anything.
        with open(self.stack.path("out-plain", "repro.txt"), encoding="utf-8") as file:
            line = file.read()
        with open(self.stack.path("out-plain", "repro.txt"), "w", encoding="utf-8") as file:
            file.write(line.rstrip() + " --seed 2\n")
        self.assertIn("does not come again as it was", self.diff("plain", "planted", 4))

    def test_what_cannot_be_compared_is_refused(self):
        self.run_fleet("few", "--duration", "5", devices=100)
        self.run_fleet("many", "--duration", "5", devices=1000)
        self.assertIn("1 shards and 10", self.diff("few", "many", 4))
        self.assertIn("digest.bin", self.diff("few", "nowhere", 4))
        self.assertIn("SHARD:SECOND", self.run_fleet("refused", "--trace", "1", status=2))
        self.assertIn("there are 6 shards", self.run_fleet("refused", "--trace", "7:1", status=4))
        self.run_fleet("late", "--trace", "0:900", "--duration", "5", devices=100)
        self.assertEqual(os.path.getsize(self.stack.path("out-late", "trace.txt")), 0)
        self.run_fleet("core", "--trace", "6:0")
        with open(self.stack.path("out-core", "trace.txt"), encoding="utf-8") as file:
            kinds = {line.split()[3] for line in file}
        self.assertEqual(kinds, {"handled", "replied"})

    def test_a_bad_release_is_rolled_back(self):
        result = self.run_fleet("bad", "--bad", 'os == "android" => exception @ 100%', "--bad-version", "1.0.0", "--duration", "1200",
                                devices=1500)
        version = result["versions"][0]
        self.assertEqual(result["rollouts"][0]["state"], "rolled_back")
        self.assertGreater(version["failed"], 0)
        self.assertEqual(version["current"], 0)
        self.assertLess(result["exposed"], 0.3 * 1500)
        # Devices on which it did no harm are waited for until they are told: minutes.
        self.assertTrue(all(oracle["holds"] for oracle in result["oracles"]), result["oracles"])

    def test_a_gate_that_counts_none_of_them_is_no_pass(self):
        bad = ("--bad", "all => crash @ 100%", "--bad-version", "1.0.0", "--duration", "900")
        text = self.run_fleet("strangers", "--strangers", *bad, status=11)
        self.assertRegex(text, rf"NOT COUNTED: the gate of rollout {self.rollout} of shop/score 1.0.0 counts devices that show who they are, "
                               r"and these are strangers to it: leave out --strangers")
        self.assertIn("--strangers is for virtual time", self.run_fleet("real", "--strangers", "--virtual", "", "--gateway",
                                                                        "http://127.0.0.1:1", status=2))

    def certify(self, *arguments, status=0):
        with open(self.stack.path("pack"), "w", encoding="utf-8") as file:
            file.write("# one that everybody has, one that few have\ncrash: all => crash @ 100%\nfew: os == \"ios\" => exception @ 60%\n")
        run = subprocess.run([program("walle-fleet-sim"), "certify", "--virtual", self.stack.path("gateway"), "--root",
                              self.stack.path("root.1"), "--rollout", self.rollout, "--version", "1.0.0", "--devices", "800",
                              "--arrival-rate", "40", "--seeds", "2", "--out", self.stack.path("certificate"), "--pack",
                              self.stack.path("pack"), *arguments],
                             capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def test_a_certificate(self):
        text = self.certify()
        self.assertIn("healthy releases stopped: 0 of 2", text)
        with open(self.stack.path("certificate", "certificate.json"), encoding="utf-8") as file:
            found = json.load(file)
        cases = {case["name"]: case for case in found["cases"]}
        self.assertEqual(set(cases), {"healthy", "crash", "few"})
        self.assertEqual([cases[name]["stopped"] for name in ("healthy", "crash", "few")], [0, 2, 2])
        self.assertEqual([case["good"] for case in cases.values()], [2, 2, 2])
        # The gray stage has a tenth of them.
        for name in ("crash", "few"):
            self.assertTrue(0 < cases[name]["harmed_p50"] <= cases[name]["harmed_max"] < 800 / 2, cases)
        self.assertGreater(cases["few"]["stopped_s_max"], 0)
        self.assertAlmostEqual(found["bounds"]["share_alone"], 0.05 ** 0.5)
        self.assertAlmostEqual(found["bounds"]["share"], (0.05 / 3) ** 0.5)
        about = found["about"]
        self.assertEqual((about["task"], about["version"], about["rollout"]), ("shop/score", "1.0.0", self.rollout))
        self.assertRegex(about["manifest"], "^[0-9a-f]{64}$")
        self.assertIn("may fail, of", about["stages"])
        self.assertEqual((found["limits"]["devices"], found["limits"]["arrival_rate"], found["limits"]["seeds"]), (800, 40, 2))
        with open(self.stack.path("certificate", "certificate.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("<svg", page)
        self.assertIn("a sample of seeds", page)
        self.assertIn(about["stages"], page)
        self.assertIn("a sample of seeds", text)
        self.assertIn("os == &quot;ios&quot; =&gt; exception @ 60%", page)
        self.assertIn("did not end by themselves, or broke an invariant: 0 of 6.", page)
        self.assertEqual(sorted(os.listdir(self.stack.path("certificate"))), ["certificate.html", "certificate.json"])
        again = self.certify()
        self.assertEqual(re.sub("it took.*", "", text), re.sub("it took.*", "", again))

    # No device is hit so often that the gate sees it; the release comes to everybody, and that is what the certificate says.
    def test_a_release_that_the_gate_lets_through_is_certified_as_such(self):
        with open(self.stack.path("mild"), "w", encoding="utf-8") as file:
            file.write("mild: all => exception @ 0.2%\n")
        text = self.certify("--pack", self.stack.path("mild"), "--devices", "300", "--out", self.stack.path("mild-out"))
        self.assertIn("mild: not stopped in 2 of 2", text)
        with open(self.stack.path("mild-out", "certificate.json"), encoding="utf-8") as file:
            mild = json.load(file)["cases"][1]
        self.assertEqual((mild["name"], mild["good"], mild["stopped"], mild["not_stopped"]), ("mild", 2, 0, 2))
        self.assertEqual((mild["harmed_p50"], mild["harmed_max"]), (300, 300))
        with open(self.stack.path("mild-out", "certificate.html"), encoding="utf-8") as file:
            self.assertIn("0 of 2, not stopped in 2 of 2", file.read())

    def test_a_rollout_that_is_not_there_or_over_is_not_certified(self):
        text = self.certify("--rollout", "00000000000000aa", "--duration", "60", status=2)
        self.assertIn("--rollout 00000000000000aa: no such rollout in ", text)
        self.assertNotIn("harmed p50", text)
        over = self.stack.path("over")
        shutil.copytree(self.stack.path("gateway"), over)
        self.stack.gateway = Gateway(over, (), 0, 0)
        self.stack.walle("rollout", "abort", self.rollout, "--reason", "over")
        wait_until(lambda: "rolled_back" in self.stack.walle("rollout", "list").stdout)
        self.assertEqual(self.stack.gateway.stop(), 0)
        text = self.certify("--virtual", over, "--duration", "60", status=2)
        self.assertIn(f"--rollout {self.rollout}: it is over (rolled_back)", text)
        self.assertNotIn("harmed p50", text)

    # Two hundred devices that the folder knows, of the seed that every fleet has by default.
    def folder_with_devices(self):
        folder = self.stack.path("known")
        shutil.copytree(self.stack.path("gateway"), folder)
        self.stack.gateway = Gateway(folder, (), 0, 0)
        self.stack.walle("rollout", "pause", self.rollout, "--reason", "they come first")
        token = self.stack.secret("enrol.token", self.stack.walle("device", "enroll-token", "--name", "fleet").stdout.strip())
        run = subprocess.run([program("walle-fleet-sim"), "run", "--gateway", self.stack.gateway.url, "--devices", "200", "--duration", "8",
                              "--root", self.stack.path("root.1"), "--enroll-token", token, "--no-live", "--out", self.stack.path("real")],
                             capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertIn("200 online of 200", run.stdout + run.stderr)
        self.stack.walle("rollout", "resume", self.rollout)
        self.assertEqual(self.stack.gateway.stop(), 0)
        return folder

    def test_a_folder_that_has_devices(self):
        folder = self.folder_with_devices()
        said = "200 of 400 devices never came online: they are enrolled already, in that folder: another --seed"
        text = self.run_fleet("again", "--virtual", folder, "--duration", "1200", devices=400, status=8)
        self.assertRegex(text, r"(?m)^DEVICES REFUSED after .*; " + said)
        with open(self.stack.path("out-again", "run.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual((report["outcome"], report["passed"], report["failed_because"]), ("devices refused", False, said))
        with open(self.stack.path("out-again", "report.html"), encoding="utf-8") as file:
            self.assertIn("<span class=bad>devices refused</span>", file.read())
        run = subprocess.run([program("walle-fleet-sim"), "swarm", "--virtual", folder, "--root", self.stack.path("root.1"), "--devices",
                              "400", "--seeds", "1", "--faults-until", "300", "--duration", "1200", "--out", self.stack.path("swarm")],
                             capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, 8, run.stdout + run.stderr)
        self.assertIn("came to nothing: nothing is shown, see", run.stderr)
        self.assertIn("--first-seed", run.stderr)
        # Those of the folder never come, so it is guarded to the end; its stages have passed.
        text = self.certify("--virtual", folder, "--duration", "3600", "--out", self.stack.path("known-out"))
        with open(self.stack.path("known-out", "certificate.json"), encoding="utf-8") as file:
            cases = {case["name"]: case for case in json.load(file)["cases"]}
        self.assertEqual([case["good"] for case in cases.values()], [2, 2, 2], text)
        self.assertEqual([cases[name]["stopped"] for name in ("healthy", "crash", "few")], [0, 2, 2])

    def test_what_is_not_there_is_not_certified(self):
        shutil.rmtree(self.stack.path("certificate"), ignore_errors=True)
        os.makedirs(self.stack.path("certificate"))
        with open(self.stack.path("certificate", "certificate.html"), "w", encoding="utf-8") as file:
            file.write("of before")
        self.assertIn("is of another one", self.certify("--version", "9.9.9", status=2))
        left = self.stack.path("certificate", "run-0")
        os.makedirs(left, exist_ok=True)
        with open(os.path.join(left, "run.json"), "w", encoding="utf-8") as file:
            json.dump({"rollouts": [{"id": self.rollout, "version": "1.0.0", "state": "completed"}], "oracles": []}, file)
        self.assertIn("nothing is certified", self.certify("--duration", "2", status=1))
        self.assertFalse(os.path.exists(self.stack.path("certificate", "certificate.html")))
        self.assertIn("came to nothing", self.certify("--virtual", self.stack.path("nowhere"), status=4))

    def test_a_pack_that_is_wrong_is_named(self):
        for line, said in (("crash all => crash", "pack:1: NAME: RULE is expected"), ("a: all => explode", "pack:1: column"),
                           ("# nothing", "no rule in it")):
            with open(self.stack.path("wrong.pack"), "w", encoding="utf-8") as file:
                file.write(line + "\n")
            self.assertIn(said, self.certify("--pack", self.stack.path("wrong.pack"), status=2))

    def test_what_does_not_go_with_it_is_refused(self):
        self.assertIn("a gateway runs there: stop it", self.running)
        for word, arguments in (("--hints", ("--hints",)), ("--gateway", ("--gateway", "http://127.0.0.1:1")),
                                ("--business", ("--business", "6")), ("--metrics", ("--metrics", "0"))):
            self.assertIn(f"{word}", self.run_fleet("refused", *arguments, status=2))
        os.symlink(self.stack.path("gateway"), self.stack.path("link"))
        for name in ("gateway/", "link", "link//"):  # the same folder
            result = self.run_fleet("named", "--virtual", self.stack.path(name), "--duration", "30")
            self.assertEqual(result["totals"]["request_errors"], 0)
        text = self.run_fleet("nowhere", "--virtual", self.stack.path("source"), "--duration", "1", status=4)
        self.assertIn("no gateway's data folder", text)


if __name__ == "__main__":
    unittest.main()
