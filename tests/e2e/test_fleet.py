"""The fleet simulator against a real gateway: its ledger and the gateway's counts agree, a bad release is stopped, taken back
and explained, kills do no harm, and what cannot work is refused before it starts."""
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import unittest

from walle_stack import SOURCE, Stack, program, wait_until

ONE_STAGE = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 50, "min_dwell_s": 0, "max_failure": 0.05}]
TWO_STAGES = [{"name": "gray", "kind": "gray", "percent": 30, "min_sample": 100, "min_dwell_s": 1, "max_failure": 0.15}, *ONE_STAGE]
BAD = "os == android && os_version < 13"


class Fleet(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def start_stack(self):
        self.stack.start_gateway("--set", "rollout.tick_ms=100", "--set", "device.hint_rate_per_s=0", "--set", "device.hint_spread_ms=100")
        self.public_key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]

    def build(self, version=None):
        """Builds and pushes conf/tasks/ipv, as another version if asked; returns (build folder, manifest hash)."""
        source = os.path.join(SOURCE, "conf/tasks/ipv")
        if version:
            source = shutil.copytree(source, self.stack.path("source" + version))
            path = os.path.join(source, "task.json")
            with open(path, encoding="utf-8") as file:
                task = json.load(file)
            task["version"] = version
            with open(path, "w", encoding="utf-8") as file:
                json.dump(task, file)
        folder = self.stack.path("build" + (version or ""))
        self.stack.walle("task", "build", source, "--out", folder)
        if self.stack.gateway:
            self.stack.walle("task", "push", folder)
        with open(os.path.join(folder, "build.json"), encoding="utf-8") as file:
            return folder, json.load(file)["manifest"]

    def release(self, folder, stages):
        path = self.stack.path("stages.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(stages, file)
        run = self.stack.walle("rollout", "start", "ipv", "--build", folder, "--key", self.stack.path("key"), "--stages", path, "-o",
                               "json")
        return json.loads(run.stdout)["id"]

    def start_fleet(self, devices, *arguments):
        log = open(self.stack.path("fleet.log"), "wb")
        self.addCleanup(log.close)
        return self.stack.spawn("walle-fleet-sim", "run", "--devices", str(devices), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--trust",
                                self.public_key, "--task", "ipv", "--until-stopped", "--no-live", "--threads", "2", "--out", self.stack.path("fleet"),
                                *arguments, stdout=log, stderr=subprocess.STDOUT)

    def log_text(self):
        with open(self.stack.path("fleet.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def stop_fleet(self, fleet):
        """Ends the run in order; its ledger must be in order too. Returns run.json."""
        fleet.send_signal(signal.SIGTERM)
        code = fleet.wait(60)
        self.assertEqual(code, 0, self.log_text()[-3000:])
        return self.run_json("fleet")

    def run_json(self, name):
        with open(self.stack.path(name, "run.json"), encoding="utf-8") as file:
            return json.load(file)

    def await_rollout(self, rollout, what, test):
        seen = {}

        def look():
            status, seen["state"] = self.stack.api(f"/api/v1/rollouts/{rollout}")
            return seen["state"] if status == 200 and test(seen["state"]) else None
        try:
            return wait_until(look, timeout_s=240, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen['state']} {self.log_text()[-600:]}") from error

    def assert_agrees(self, state, result, devices):
        version = next(v for v in result["versions"] if v["manifest"] == state["manifest"])
        for gateway_name, ledger_name in (("downloaded", "downloaded"), ("activated", "activated"), ("succeeded", "ran"),
                                          ("failed", "failed")):
            self.assertEqual(state["counts"][gateway_name], version[ledger_name], f"{gateway_name}: {state['counts']} {version}")
        self.assertEqual(version["current"], devices)
        self.assertEqual(version["ran"], devices)

    def test_ledger_equals_the_gateways_counts(self):
        devices = 1000
        self.start_stack()
        folder, _ = self.build()
        fleet = self.start_fleet(devices, "--hints", "--per-carrier", "100")
        rollout = self.release(folder, ONE_STAGE)
        state = self.await_rollout(rollout, "every device",
                                   lambda r: r["counts"]["succeeded"] >= devices and r["state"] == "completed")
        result = self.stop_fleet(fleet)
        self.assert_agrees(state, result, devices)
        self.assertTrue(all(oracle["holds"] for oracle in result["oracles"]))
        self.assertEqual(result["totals"]["runs"], devices)
        self.assertIsNone(result["failing_slice"])
        self.assertNotIn("?", self.log_text())
        for name in ("report.html", "timeline.csv"):
            self.assertGreater(os.path.getsize(self.stack.path("fleet", name)), 300)

    def test_bad_release_is_stopped_taken_back_and_explained(self):
        devices = 600
        self.start_stack()
        good, good_hash = self.build()
        bad, bad_hash = self.build("2.0.0")
        self.assertNotEqual(good_hash, bad_hash)
        fleet = self.start_fleet(devices, "--hints", "--per-carrier", "100", "--bad-version", bad_hash, "--bad",
                                 f"{BAD} => exception", "--max-exposed", "60%")
        first = self.release(good, ONE_STAGE)
        self.await_rollout(first, "version 1 on every device", lambda r: r["counts"]["succeeded"] >= devices)
        second = self.release(bad, TWO_STAGES)
        state = self.await_rollout(second, "rollback", lambda r: r["state"] == "rolled_back")
        self.assertEqual(state["stage"]["name"], "gray", "it never left the first stage")
        # The log says where it turned by which share, and that what comes behind is of later answers; nothing reads as a stop that is none.
        log = self.stack.walle("rollout", "log", second, "--limit", "500").stdout
        turn = next(i for i, line in enumerate(log.splitlines()) if " roll_back " in line)
        self.assertTrue(log.splitlines()[turn].endswith(" completed had failed)"), log)
        for i, line in enumerate(log.splitlines()):
            self.assertEqual(line.endswith(", with answers since it turned)"), i > turn, log)
        self.assertNotIn(" hold ", log)
        result = self.stop_fleet(fleet)
        self.assertTrue(result["passed"])
        oracles = {oracle["name"]: oracle for oracle in result["oracles"]}
        self.assertTrue(oracles["back"]["checked"] and oracles["back"]["holds"])
        self.assertTrue(oracles["exposure"]["checked"] and oracles["exposure"]["holds"])
        self.assertEqual(result["exposed"], result["exposed_back_as_before"])
        self.assertGreater(result["exposed"], 15)  # what it takes to be over the gate, whatever the rest would do
        versions = {version["manifest"]: version for version in result["versions"]}
        self.assertEqual((versions[bad_hash]["current"], versions[good_hash]["current"]), (0, devices))
        self.assertEqual(versions[bad_hash]["failed"], state["counts"]["failed"])
        found = result["failing_slice"]
        self.assertIn("os_version", found["predicate"])
        self.assertEqual((found["version"], found["support"], found["precision"]), ("2.0.0", 1.0, 1.0))
        # From the counts to devices, and to what the gateway says of one.
        ways = {way["outcome"]: way for way in result["failing"]}
        self.assertEqual({name: way["devices"] for name, way in ways.items()}, {"fail_exception": found["failed"]})
        first = ways["fail_exception"]["first"]
        self.assertEqual((len(first), first), (5, found["first"]))
        self.assertEqual([device["index"] for device in first], sorted({device["index"] for device in first}))
        look = re.search(r"  one of them (walle device why .*)", self.log_text()).group(1)
        self.assertEqual(look.split()[:6], ["walle", "device", "why", first[0]["id"], "--task", "ipv"])
        self.assertIn("2.0.0", self.stack.walle(*shlex.split(look)[1:]).stdout)
        for device in first:
            self.assertLess(int(device["attrs"]["os_version"].split(".")[0]), 13)
            self.assertIn("2.0.0", self.stack.walle("device", "why", device["id"], "--task", "ipv").stdout)

    def test_the_ledger_follows_a_stop(self):
        devices = 200
        self.start_stack()
        folder, manifest = self.build()
        # It calls the version bad, though it never fails: at the end nobody may be on it.
        fleet = self.start_fleet(devices, "--hints", "--per-carrier", "100", "--bad-version", manifest, "--bad", "os_version < 1 => exception")
        rollout = self.release(folder, ONE_STAGE)
        self.await_rollout(rollout, "completion", lambda r: r["state"] == "completed" and r["counts"]["succeeded"] >= devices)
        self.stack.walle("rollout", "undo", rollout, "--reason", "there is nothing before it: everybody is told to stop")
        self.await_rollout(rollout, "everybody off it", lambda r: r["state"] == "rolled_back" and r["counts"]["on_version"] == 0)
        result = self.stop_fleet(fleet)
        version = next(v for v in result["versions"] if v["manifest"] == manifest)
        self.assertEqual((version["ran"], version["rolled_back"], version["current"]), (devices, devices, 0))
        self.assertEqual(result["exposed"], devices)

    def test_kills_do_no_harm(self):
        devices = 300
        self.start_stack()
        folder, _ = self.build()
        fleet = self.start_fleet(devices, "--kills", "40%", "--checkin-interval", "3", "--per-carrier", "50")
        # A kill during a run is a crash to the device and to the gateway; the ledger knows better.
        rollout = self.release(folder, [{**ONE_STAGE[0], "max_failure": 1}])
        state = self.await_rollout(rollout, "every device", lambda r: r["counts"]["succeeded"] + r["counts"]["failed"] >= devices
                                   and r["counts"]["offered"] == devices)
        wait_until(lambda: f"{devices} run it" in self.log_text(), what="every device running it")
        result = self.stop_fleet(fleet)
        version = next(v for v in result["versions"] if v["manifest"] == state["manifest"])
        self.assertEqual((version["ran"], version["current"], version["failed"]), (devices, devices, 0))
        self.assertGreater(result["totals"]["crashes"], devices // 10)
        self.assertTrue(all(oracle["holds"] for oracle in result["oracles"]))

    def run_fleet(self, *arguments, preexec=None):
        return subprocess.run([program("walle-fleet-sim"), *arguments], capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, preexec_fn=preexec)

    def test_simulate_says_how_it_went(self):
        folder, _ = self.build()
        common = ("simulate", "--task", folder, "--no-live", "--threads", "2", "--devices", "200", "--out", self.stack.path("sim"))
        for arguments, code, said in (
                ((), 0, "passed"),
                (("--bad", f"{BAD} => exception"), 1, "os_version"),
                (("--bad", "region == latam => exception @ 50%", "--max-failure", "50%"), 0, "too few failures to name a slice"),
                (("--bad", "all => crash", "--max-failure", "10%"), 1, "FAILED"),
                # By itself: the limit, what was measured, how most failed, and what to do next.
                (("--bad", "all => exception"), 1, "200 of 200 devices failed, 100.00 %: at most 1.00 % may (--max-failure); most often, on 200, "),
                (("--bad", "all => exception"), 1, "next: walle task run "),
                (("--bad", f"{BAD} => exception"), 1, "sim/failing_attrs.json runs it once as one of them"),
                (("--bad", "os ~ android => crash"), 2, "column 4"),
                (("--devices", "0"), 2, "--devices"),
                (("--no-such-option",), 2, ""),
                (("--task", self.stack.path("none")), 4, "none"),
        ):
            run = self.run_fleet(*common, *arguments)
            self.assertEqual(run.returncode, code, f"{arguments}: {run.stdout}{run.stderr}")
            self.assertIn(said, run.stdout + run.stderr, f"{arguments}")
            if code < 2:
                result = self.run_json("sim")
                self.assertEqual(result["completed"], 200)
                self.assertEqual(result["passed"], code == 0)

    def test_preflight_refuses_and_says_what_to_change(self):
        common = ("run", "--gateway", "http://127.0.0.1:9", "--trust", "00" * 32, "--no-live", "--out", self.stack.path("none"))

        def few_files():
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))

        run = self.run_fleet(*common, "--devices", "1000", "--dedicated", "500", preexec=few_files)
        self.assertEqual(run.returncode, 3, run.stdout + run.stderr)
        self.assertRegex(run.stdout + run.stderr, r"\d+ open files needed, the limit is 200: fewer --dedicated .*ulimit -n")
        run = self.run_fleet(*common, "--devices", "30000000", "--hints", "--per-carrier", "60000")
        self.assertEqual(run.returncode, 3, run.stdout + run.stderr)
        self.assertRegex(run.stdout + run.stderr, r"\d+ MiB needed, \d+ MiB available: fewer --devices")
        self.assertFalse(os.path.exists(self.stack.path("none")), "refused before anything was written")


if __name__ == "__main__":
    unittest.main(verbosity=2)
