#!/usr/bin/env python3
"""walle-fleet-sim never says that a run passed which showed nothing: each such end has an exit status, a last line and words of its own. Devices
that pull the same content share it from its first byte on."""
import json
import os
import re
import signal
import subprocess
import unittest

from page_commands import free_ports
from walle_stack import Stack, program, wait_until

FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 5, "min_dwell_s": 0, "max_failure": 0.5}]
SCRIPT = "import walle\nwalle.result(1)\n"
FAILS = "import walle\nwalle.result(walle.device['nothing'])\n"
INTERRUPTED, NOBODY_FITS, NO_GATEWAY, NOBODY_ONLINE, UNREACHED, NO_RELEASE = 5, 6, 7, 8, 9, 10
MIB = 1 << 20


class Ends(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)

    def trusted(self):
        if not os.path.exists(self.stack.path("release.key")):
            self.stack.walle("key", "new", "--out", self.stack.path("release.key"))
        with open(self.stack.path("release.key.pub"), encoding="ascii") as file:
            return file.read().split()[-1]

    def words(self, *arguments, url=None, enrol=True):
        token = ["--enroll-token", self.stack.enroll_token] if enrol else []
        return ["run", "--devices", "20", "--gateway", url or self.stack.gateway.url, "--trust", self.trusted(), *token, "--no-live",
                "--checkin-interval", "1", "--out", self.stack.path("fleet"), *arguments]

    def run_fleet(self, *arguments, **options):
        return subprocess.run([program("walle-fleet-sim"), *self.words(*arguments, **options)], capture_output=True, text=True, timeout=240,
                              stdin=subprocess.DEVNULL)

    def spawn_fleet(self, *arguments):
        log = open(self.stack.path("fleet.log"), "wb")
        self.addCleanup(log.close)
        return self.stack.spawn("walle-fleet-sim", *arguments, stdout=log, stderr=subprocess.STDOUT)

    def log(self):
        with open(self.stack.path("fleet.log"), encoding="utf-8") as file:
            return file.read()

    def report(self):
        with open(self.stack.path("fleet", "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        with open(self.stack.path("fleet", "report.html"), encoding="utf-8") as file:
            return result, file.read()

    def assert_end(self, text, outcome, words, passed=False):
        """All three say it: the last line, the JSON, the page."""
        last = text.strip().splitlines()[-1]
        self.assertRegex(last, words)
        self.assertNotRegex(text, r"(?m)^passed")
        result, page = self.report()
        if outcome in ("nobody online", "no gateway"):
            self.assertNotRegex(text, r"  devices +\d+ online")
            self.assertNotIn("devices came online", page)
        self.assertEqual((result["outcome"], result["passed"]), (outcome, passed), text)
        self.assertRegex(page, words)
        self.assertNotIn("passed</span>", page)
        return result

    def release(self, **options):
        return self.stack.release("shop/score", 1, SCRIPT, FULL, **options)

    def test_connections_that_cannot_be_opened_are_no_pass(self):
        self.stack.start_hasty_gateway()
        self.release(more=("--trust-unproven",))
        said = self.run_fleet("--duration", "6", "--dedicated", "3", "--gateway-tls", "http://127.0.0.1:1")
        self.assertEqual(said.returncode, 1, said.stdout + said.stderr)
        self.assertRegex(said.stdout, r"FAILED: 3 connections to the gateway never came up, nor the devices behind them: 127\.0\.0\.1:1: ")

    def test_devices_that_nobody_is(self):
        """Refused before anything is started, for both commands and both ways to say which devices."""
        os.mkdir(self.stack.path("source"))
        for name, text in (("task.json", '{"name": "shop/score", "version": "1.0.0", "entry": "task", "files": ["task.py"]}'), ("task.py", SCRIPT)):
            with open(self.stack.path("source", name), "w", encoding="ascii") as file:
                file.write(text)
        build = self.stack.path("build")
        self.stack.walle("task", "build", self.stack.path("source"), "--out", build)
        port = free_ports(1)[0]
        for arguments in (self.words("--where", "os == amiga", url=f"http://127.0.0.1:{port}", enrol=False),
                          ["simulate", "--task", build, "--where", "os == amiga", "--out", self.stack.path("fleet")],
                          ["simulate", "--task", build, "--target", 'os == "amiga"', "--out", self.stack.path("fleet")]):
            said = subprocess.run([program("walle-fleet-sim"), *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
            self.assertEqual(said.returncode, NOBODY_FITS, said.stdout + said.stderr)
            self.assertRegex(said.stderr, r"--(where|target): no virtual device is like this: .*amiga")
            self.assertFalse(os.path.exists(self.stack.path("fleet")))

    def test_no_gateway(self):
        """It gives up by itself, without --duration, too."""
        url = f"http://127.0.0.1:{free_ports(1)[0]}"
        for more in (("--duration", "1"), ()):
            said = self.run_fleet(*more, url=url, enrol=False)
            self.assertEqual(said.returncode, NO_GATEWAY, said.stdout + said.stderr)
            self.assert_end(said.stdout, "no gateway", r"no gateway answered: 127\.0\.0\.1:\d+: Connection refused")

    def test_nobody_online(self):
        self.stack.start_hasty_gateway()
        token = self.stack.secret("wrong.token", "wet_" + "A" * 43)
        said = self.run_fleet("--duration", "3", "--enroll-token", token, enrol=False)
        self.assertEqual(said.returncode, NOBODY_ONLINE, said.stdout + said.stderr)
        self.assert_end(said.stdout, "nobody online", "the gateway refused every enrolment")
        self.assertRegex(said.stdout + said.stderr, r"(?m)^\d+ s: none online, up 20,")
        self.assertNotRegex(said.stdout + said.stderr, r"(?m)^\d+ s: online")
        said = self.run_fleet("--duration", "3", "--arrival-rate", "0.001")
        self.assertEqual(said.returncode, NOBODY_ONLINE, said.stdout + said.stderr)
        self.assert_end(said.stdout, "nobody online", "no device came online: 0 of 20 came up")

    def test_no_release_at_all(self):
        """Who only wants to see check-ins gets them, and is told that nothing was there to be judged: that is no pass."""
        self.stack.start_hasty_gateway()
        said = self.run_fleet("--duration", "3")
        self.assertEqual(said.returncode, NO_RELEASE, said.stdout + said.stderr)
        self.assert_end(said.stdout, "no release", r"20 devices checked in, and nothing was there to be judged: the gateway released nothing while the")
        self.stack.walle("rollout", "abort", self.release(target='os == "amiga"'), "--reason", "for nobody")
        said = self.run_fleet("--duration", "3", "--credentials", self.stack.path("fleet", "credentials"))
        self.assertEqual(said.returncode, NO_RELEASE, said.stdout + said.stderr)
        self.assert_end(said.stdout, "no release", r"the last rollout, of shop/score 1\.0\.1, is rolled_back")

    def test_a_release_that_reached_nobody(self):
        self.stack.start_hasty_gateway()
        said = self.run_fleet("--duration", "3", "--task", "shop/scoer")
        self.assertEqual(said.returncode, UNREACHED, said.stdout + said.stderr)
        self.assert_end(said.stdout, "nobody reached", "no release of shop/scoer reached any of the 20 devices")
        self.release(target='os == "amiga"')
        said = self.run_fleet("--duration", "3")
        self.assertEqual(said.returncode, UNREACHED, said.stdout + said.stderr)
        self.assert_end(said.stdout, "nobody reached", r"the rollout of shop/score 1\.0\.1 is running, at full")

    def release_of(self, task, *more):
        """Another task, with the version that every first release has."""
        rollout = self.stack.release(task, 1, SCRIPT, FULL, more=("--trust-unproven", *more))
        for name in ("source1", "build1"):
            os.rename(self.stack.path(name), self.stack.path(name + "-" + task.replace("/", "-")))
        return rollout

    def test_a_run_is_of_one_task(self):
        """What becomes of another task, newer and with the same version, is neither its outcome nor in its figures."""
        self.stack.start_hasty_gateway()
        self.release_of("shop/score")
        other = self.release_of("shop/other")

        def state():
            return self.stack.api(f"/api/v1/rollouts/{other}")[1]["state"]

        fleet = self.spawn_fleet(*self.words("--until-stopped", "--task", "shop/score"))
        wait_until(lambda: state() == "completed" and re.search(r"1\.0\.1: 20 run it", self.log()), timeout_s=120, what="both tasks")
        self.stack.walle("rollout", "undo", other, "--reason", "not wanted")
        wait_until(lambda: state() == "rolled_back", timeout_s=120, what="the way back")
        fleet.send_signal(signal.SIGTERM)
        self.assertEqual(fleet.wait(60), 0, self.log())
        result, _ = self.report()
        self.assertEqual(result["outcome"], "passed", self.log())
        self.assertEqual([version["task"] for version in result["versions"]], ["shop/score"])
        self.assertEqual(result["not_counted"], ["shop/other 1.0.1"])
        self.assertRegex(self.log(), r"(?m)^  shop/score 1\.0\.1: 20 offered")
        self.assertNotRegex(self.log(), r"(?m)^  shop/other[^:]*: ")
        self.assertRegex(self.log(), r"(?m)^  also met    shop/other 1\.0\.1: not counted here \(--task\)$")

    def end_of_two(self, *arguments):
        """A run of the task: its first version goes back, its second one completes. Exit status, what was said, run.json, the page."""
        self.stack.start_hasty_gateway()
        fleet = self.spawn_fleet(*self.words("--until-stopped", "--task", "shop/score", *arguments))
        self.rollouts = []
        for number, script, state in ((1, FAILS, "rolled_back"), (2, SCRIPT, "completed")):
            rollout = self.stack.release("shop/score", number, script, FULL, more=("--trust-unproven",))
            self.rollouts.append(rollout)
            wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["state"] == state, timeout_s=120, what=state)
        wait_until(lambda: re.search(r"1\.0\.2: 20 run it", self.log()), what="the second version everywhere")
        fleet.send_signal(signal.SIGTERM)
        return (fleet.wait(60), self.log(), *self.report())

    def test_firsthour_a_release_went_back_before_another(self):
        """A later release that went well does not make a run pass in which one went back: it fails, and names that one, everywhere."""
        status, said, result, page = self.end_of_two()
        self.assertEqual(status, 1, said)
        self.assert_end(said, "failed", r"the release of shop/score 1\.0\.1 was rolled back", passed=False)
        self.assertEqual(result["about"]["version"], "1.0.1")
        self.assertEqual([(r["id"], r["version"], r["state"], r["as_meant"]) for r in result["rollouts"]],
                         [(self.rollouts[0], "1.0.1", "rolled_back", False), (self.rollouts[1], "1.0.2", "completed", True)])
        self.assertRegex(said, r"(?m)^  release     shop/score 1\.0\.1, manifest")
        self.assertRegex(said, rf"(?m)^  rollout     {self.rollouts[0]} of shop/score 1\.0\.1: rolled back: .*fail.*; no --bad-version names it$")
        self.assertRegex(said, rf"(?m)^  rollout     {self.rollouts[1]} of shop/score 1\.0\.2: completed$")
        self.assertIn("<tr><th>task<td>shop/score 1.0.1", page)
        # While it lasts, a rollout's line says which one it is.
        self.assertRegex(said, rf"(?m)^\d+ s: .*, rollout {self.rollouts[1]} of shop/score 1\.0\.2 \w+ at ")

    def test_firsthour_a_release_went_back_as_meant(self):
        """With --bad-version it passes, and names the one that came after it."""
        status, said, result, page = self.end_of_two("--bad-version", "1.0.1")
        self.assertEqual((status, result["outcome"], result["about"]["version"]), (0, "passed", "1.0.2"), said)
        self.assertEqual([r["as_meant"] for r in result["rollouts"]], [True, True])
        self.assertRegex(said, rf"(?m)^  rollout     {self.rollouts[0]} of shop/score 1\.0\.1: rolled back: .*; as --bad-version wants$")
        self.assertIn("as --bad-version wants", page)

    def test_firsthour_aborted_before_it_offered_anything(self):
        """Rollouts that end by an operator's hand: of the version these devices run already, and of one for none of them. Neither is a failure."""
        self.stack.start_hasty_gateway()
        first = self.release(more=("--trust-unproven",))
        fleet = self.spawn_fleet(*self.words("--until-stopped", "--task", "shop/score"))

        def state(rollout):
            return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["state"]
        wait_until(lambda: state(first) == "completed" and re.search(r"1\.0\.1: 20 run it", self.log()), timeout_s=120, what="the first everywhere")
        slow = self.stack.path("slow.json")
        with open(slow, "w", encoding="ascii") as file:
            json.dump([{**FULL[0], "min_dwell_s": 600}], file)
        again = json.loads(self.stack.walle("rollout", "start", "shop/score", "--build", self.stack.path("build1"), "--key", self.stack.path("release.key"),
                                            "--stages", slow, "--trust-unproven", "-o", "json").stdout)["id"]
        other = self.stack.release("shop/score", 2, SCRIPT, FULL, target='os == "amiga"', more=("--trust-unproven",))
        for rollout in (again, other):
            wait_until(lambda: re.search(rf"rollout {again}|rollout {other}", self.log()), what="the fleet to have seen them")
            self.stack.walle("rollout", "abort", rollout, "--reason", "not wanted")
            wait_until(lambda: state(rollout) == "rolled_back", timeout_s=120, what="the end")
        seen = len(self.log())
        wait_until(lambda: len(re.findall(r"(?m)^\d+ s: ", self.log()[seen:])) > 2, what="another look of the fleet")
        fleet.send_signal(signal.SIGTERM)
        self.assertEqual(fleet.wait(60), 0, self.log())
        self.assertRegex(self.log(), rf"(?m)^  rollout     {again} of shop/score 1\.0\.1: rolled back: .*; offered to none of these devices$")

    def test_firsthour_a_bad_version_that_never_came(self):
        """Who names a version that no rollout brings is told so, and which came instead: nothing was shown of its way back."""
        self.stack.start_hasty_gateway()
        self.release(more=("--trust-unproven",))
        said = self.run_fleet("--task", "shop/score", "--until-coverage", "100%", "--duration", "100", "--bad-version", "9.9.9")
        self.assertEqual(said.returncode, 1, said.stdout + said.stderr)
        self.assert_end(said.stdout, "failed", r"--bad-version 9\.9\.9: never came to these devices.*; those that came: shop/score 1\.0\.1")

    def test_firsthour_more_tasks_than_a_device_holds(self):
        """A device that holds as many tasks as it can is not offered another: the run says so while it lasts and at its end. --tasks is how many."""
        self.stack.start_hasty_gateway()
        for task, priority in (("shop/one", "2"), ("shop/two", "2"), ("shop/three", "1")):
            self.release_of(task, "--priority", priority)
        arguments = ("--task", "shop/three", "--duration", "8")
        said = self.run_fleet(*arguments, "--tasks", "2")
        self.assertEqual(said.returncode, UNREACHED, said.stdout + said.stderr)
        result = self.assert_end(said.stdout, "nobody reached", r"came online: 20 hold 2 tasks and have no room for it \(--tasks\); the rollout of shop/three")
        self.assertEqual(result["totals"]["no_room"], 20)
        self.assertRegex(said.stdout + said.stderr, r"(?m)^\d+ s: .*, no room for it on 20 \(--tasks\)")
        self.assertRegex(said.stdout, r"(?m)^  WARNING     20 devices hold 2 tasks, and have no room for the one that the run is of")
        self.assertRegex(said.stdout, r"(?m)^  tasks       a device holds 2 at most \(--tasks\): up to \d+ MiB")
        said = self.run_fleet(*arguments, "--credentials", self.stack.path("fleet", "credentials"))
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        self.assertRegex(said.stdout, r"(?m)^  shop/three 1\.0\.1: 20 offered, 20 activated, 20 ran")
        self.assertRegex(said.stdout, r"(?m)^  tasks       a device holds 32 at most")
        self.assertNotIn("no room", said.stdout + said.stderr)

    def test_firsthour_a_million_devices_hold_fewer_tasks(self):
        """What each place for a task costs, all devices that are in memory pay: many of them have few. The preflight says so."""
        url = f"http://127.0.0.1:{free_ports(1)[0]}"
        for arguments, tasks in ((("--devices", "30000000", "--hints", "--per-carrier", "60000"), 2),
                                 (("--devices", "30000000", "--hints", "--per-carrier", "60000", "--tasks", "64"), 64)):
            said = self.run_fleet(*arguments, url=url, enrol=False)
            self.assertEqual(said.returncode, 3, said.stdout + said.stderr)
            self.assertRegex(said.stdout, rf"(?m)^  tasks       a device holds {tasks} at most")
        self.assertIn("fewer --tasks", said.stdout + said.stderr)

    def test_firsthour_check_ins_of_devices_that_are_awake(self):
        """With hints a device checks in often without sleeping: the live line times these, too."""
        self.stack.start_hasty_gateway()
        fleet = self.spawn_fleet(*self.words("--until-stopped", "--task", "shop/score", "--hints"))
        wait_until(lambda: re.search(r"online 20", self.log()), what="the devices online")
        self.release()
        wait_until(lambda: re.search(r"1\.0\.1: 20 run it", self.log()), timeout_s=120, what="the release everywhere")
        fleet.send_signal(signal.SIGTERM)
        self.assertEqual(fleet.wait(60), 0, self.log())
        lines = [line for line in self.log().splitlines() if re.match(r"\d+ s: .*, 1\.0\.1: ", line)]
        self.assertTrue(lines, self.log())
        for line in lines:
            self.assertNotIn("check-in p99 none", line)

    def test_a_release_that_nobody_takes(self):
        """Devices that trust another key are offered it, and refuse it."""
        self.stack.start_hasty_gateway()
        self.release(more=("--trust-unproven",))
        other = self.stack.walle("key", "new", "--out", self.stack.path("other.key")).stdout.strip().splitlines()[-1]
        words = self.words("--duration", "3", "--task", "shop/score")
        words[words.index("--trust") + 1] = other
        said = subprocess.run([program("walle-fleet-sim"), *words], capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL)
        self.assertEqual(said.returncode, UNREACHED, said.stdout + said.stderr)
        self.assert_end(said.stdout, "nobody reached", "no device took a release: they refused [1-9][0-9]* offers")

    def test_interrupted(self):
        """Neither passed nor failed, by either signal, in both commands; --until-stopped makes the signal the end of the run."""
        self.stack.start_hasty_gateway()
        rollout = self.release()
        for number in (signal.SIGINT, signal.SIGTERM):
            fleet = self.spawn_fleet(*self.words("--duration", "600", "--task", "shop/score"))
            wait_until(lambda: re.search(r"1\.0\.1: 20 run it", self.log()), what="the devices running it")
            fleet.send_signal(number)
            self.assertEqual(fleet.wait(60), INTERRUPTED, self.log())
            result = self.assert_end(self.log(), "interrupted", "neither passed nor failed", None)
            self.assertIs(result["interrupted"], True)
        fleet = self.spawn_fleet("simulate", "--task", self.stack.path("build1"), "--devices", "200000", "--no-live", "--out",
                                 self.stack.path("fleet"))
        wait_until(lambda: re.search(r"online [1-9]", self.log()), what="virtual devices")
        fleet.send_signal(signal.SIGINT)
        self.assertEqual(fleet.wait(60), INTERRUPTED, self.log())
        self.assert_end(self.log(), "interrupted", "neither passed nor failed", None)
        fleet = self.spawn_fleet(*self.words("--until-stopped", "--task", "shop/score", "--credentials", self.stack.path("fleet", "credentials")))
        wait_until(lambda: re.search(r"1\.0\.1: 20 run it", self.log()), what="the devices running it")
        fleet.send_signal(signal.SIGTERM)
        self.assertEqual(fleet.wait(60), 0, self.log())
        result, page = self.report()
        self.assertEqual((result["outcome"], result["passed"], result["interrupted"]), ("passed", True, False))
        self.assertEqual(self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["state"], "completed")

    def test_every_status_is_listed(self):
        said = subprocess.run([program("walle-fleet-sim"), "--help"], capture_output=True, text=True, timeout=60).stdout
        words = " ".join(said.split())
        for status in ("5 interrupted", "6 no device is like", "7 no gateway", "8 nobody came online", "9 no release reached", "10 there was no release"):
            self.assertIn(status, words)

    def test_a_large_file_is_there_once(self):
        """500 devices pull 4 MB at the same time: what they share is there once, and the preflight counts what it comes to."""
        devices, size = 500, 4 * MIB
        self.stack.start_hasty_gateway()
        self.release(data=("large.bin", os.urandom(size)))
        said = self.run_fleet("--devices", str(devices), "--task", "shop/score", "--until-coverage", "100%", "--duration", "200", "--real-every", "0",
                              "--content-mib", "5")
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        result, _ = self.report()
        self.assertGreater(result["totals"]["response_bytes"], devices * size)
        self.assertGreater(result["content_bytes"], size)
        self.assertRegex(said.stdout, r"preflight: [^$]*content 5[ ,)]")
        budget = int(re.search(r"(?m)^  memory +(\d+) MiB of", said.stdout).group(1))
        if not os.environ.get("WALLE_SANITIZE"):  # a sanitizer has memory of its own
            self.assertLess(result["peak_rss_bytes"], 100 * MIB)
            self.assertAlmostEqual(budget, result["peak_rss_bytes"] / MIB, delta=0.1 * budget)


if __name__ == "__main__":
    unittest.main()
