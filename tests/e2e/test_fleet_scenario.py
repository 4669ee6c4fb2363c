"""Scenario files that ship, each played with few devices in virtual time: the release curve of 7 and 19 minutes reaches both of
its points, and its report says by how much a gateway that loses no time would have been earlier."""
import json
import os
import re
import subprocess
import unittest

from fleet_folder import FleetFolder
from walle_stack import SOURCE, Stack, program

SCENARIOS = os.path.join(SOURCE, "conf", "scenarios")
INCIDENTS = os.path.join(SCENARIOS, "incidents")


class FleetScenario(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = stack = Stack()
        cls.addClassCleanup(stack.__exit__, None, None, None)
        cls.folder = FleetFolder(stack)
        cls.folder.release("1.0.0", [{"name": "full", "kind": "full", "percent": 100, "min_sample": 50, "min_dwell_s": 1,
                                      "max_failure": 0.05}])
        cls.folder.stop()

    def play(self, name, *arguments, status=0):
        out = self.stack.path("out-" + os.path.basename(name))
        run = subprocess.run([program("walle-fleet-sim"), "run", "--scenario", os.path.join(SCENARIOS, name), "--virtual",
                              self.stack.path("gateway"), "--root", self.stack.path("root.1"), "--no-live", "--out", out, *arguments],
                             capture_output=True, text=True, timeout=500, stdin=subprocess.DEVNULL, cwd=SOURCE)
        text = run.stdout + run.stderr
        self.assertEqual(run.returncode, status, text[-3000:])
        if status not in (0, 1):
            return text, None, out
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            return text, json.load(file), out

    def test_the_curve_of_7_and_19_minutes(self):
        text, result, out = self.play("walle-19m.conf", "--devices", "2200")
        ideal = result["delay_over_ideal"]
        self.assertEqual([(row["ideal_s"], row["devices"]) for row in ideal["at_points"]], [(420, 700), (1140, 2200)])
        for row in ideal["at_points"] + ideal["at_shares"]:
            # Everybody has it a moment after it came online: two way's delays of a few messages, and a second of the timeline.
            self.assertLess(row["short_points"], 0.2, row)
            self.assertTrue(0 <= row["delay_s"] < 3, row)
        self.assertEqual([row["share"] for row in ideal["at_shares"]], [0.5, 0.9, 0.99, 1])
        self.assertIn("over ideal: 50 % ", text)
        with open(os.path.join(out, "report.html"), encoding="utf-8") as file:
            self.assertIn("Delay over ideal of shop/score 1.0.0", file.read())

    def test_a_population_of_a_file(self):
        cheap = os.path.join(SOURCE, "conf", "populations", "cheap-phones.conf")
        _, result, _ = self.play("walle-19m.conf", "--devices", "300", "--population", cheap, "--where", 'chip == "mt-6"')
        self.assertEqual((result["outcome"], result["versions"][0]["ran"]), ("passed", 300))
        text, _, _ = self.play("walle-19m.conf", "--devices", "300", "--population", cheap, "--where", 'region == "eu"', status=6)
        self.assertIn("no virtual device is like this", text)
        path = self.stack.path("wrong-people.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write("table os\n1 android\nzone eu 1\n")
        self.assertIn("wrong-people.conf:3: no row above", self.play("walle-19m.conf", "--population", path, status=2)[0])

    def test_networks_are_near_and_far(self):
        """On links of the built-in population the release takes longer than where all are equally far, and reaches everybody."""
        _, near, _ = self.play("walle-19m.conf", "--devices", "1500")
        _, far, _ = self.play("walle-19m.conf", "--devices", "1500", "--links", "network")
        for result in (near, far):
            self.assertEqual((result["outcome"], result["versions"][0]["ran"]), ("passed", 1500))
        # All check in, two ways of 20 ms; of the others most are on wifi and 5g, whose three round trips (two open the connection)
        # take 92 and 150 ms, some lose messages, some are away.
        near, far = (result["latency_us"]["checkin_from_intended"] for result in (near, far))
        self.assertLess(near["p99"], 50000)
        self.assertGreater(far["p99"], 200000)
        self.assertGreater(far["max"], 1000000)
        self.assertTrue(60000 < far["p50"] < 160000, far)

    def test_scenarios_that_ship(self):
        """Each passes, with few devices; of a day its first hours."""
        shorter = {"day.conf": ("--until-coverage", "3%"), "walle-19m.conf": ("--duration", "1200")}
        names = sorted(name for name in os.listdir(SCENARIOS) if name.endswith(".conf"))
        self.assertEqual(len(names), 5)
        for name in names:
            with self.subTest(name):
                _, result, _ = self.play(name, "--devices", "400", *shorter.get(name, ()))
                self.assertEqual((result["outcome"], result["totals"]["run_failures"]), ("passed", 0))

    def test_incidents(self):
        """What went wrong elsewhere: each of the pack goes wrong here, too, and as often as the file asks; no invariant breaks, and in
        the end everybody has the release, or is off the one that is bad."""
        names = sorted(os.listdir(INCIDENTS))
        self.assertEqual(len(names), 9)
        for name in names:
            with self.subTest(name), open(os.path.join(INCIDENTS, name), encoding="utf-8") as file:
                kinds = set(re.findall(r"(?m)^fault = (\S+)", file.read()))
                bad = name == "old-system.conf"
                self.assertNotEqual(bool(kinds), bad)
                _, result, _ = self.play(os.path.join("incidents", name), "--devices", "300", *(("--bad-version", "1.0.0") if bad else ()))
                version = result["versions"][0]
                self.assertEqual(result["outcome"], "passed")
                self.assertEqual(set(result["faults"] or ()), kinds)
                self.assertTrue(all(oracle["holds"] for oracle in result["oracles"]), result["oracles"])
                if bad:
                    self.assertEqual((result["rollouts"][0]["state"], version["current"]), ("rolled_back", 0))
                    self.assertIn("os_version", result["failing_slice"]["predicate"])
                else:
                    ended = next(oracle for oracle in result["oracles"] if oracle["name"] == "ended")
                    self.assertTrue(ended["compared"], ended)
                    self.assertEqual((version["ran"], version["current"]), (300, 300))

    def test_who_comes_once_and_who_is_double(self):
        options = ("--devices", "600", "--checkin-interval", "60", "--until-coverage", "0", "--duration", "1140")
        totals = {}
        for name, more in (("plain", ()), ("zombies", ("--zombies", "50%")), ("presence", ("--presence", "day:16")), ("clones", ("--clones", "10%"))):
            _, result, _ = self.play("walle-19m.conf", *options, *more)
            self.assertEqual(result["outcome"], "passed", name)
            self.assertEqual(result["totals"]["arrived"], 600)
            totals[name] = result["totals"]["wakes"]
        self.assertTrue(0.45 < (totals["zombies"] - 600) / (totals["plain"] - 600) < 0.6, totals)  # half of them wake no more
        self.assertLess(totals["presence"] - 600, 0.2 * (totals["plain"] - 600), totals)  # at midnight
        self.assertGreater(totals["clones"], 0.9 * totals["plain"])

    def test_a_line_with_nul_is_named(self):
        path = self.stack.path("wrong.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write("# of ours\ndevices = 100\0 + 5\n")
        self.assertIn("wrong.conf:2: a NUL byte", self.play(path, status=2)[0])

    def test_a_name_that_is_none_is_named(self):
        path = self.stack.path("wrong-name.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write("# of ours\ndevices = 100\narrival = steady:10\n")
        self.assertIn("wrong-name.conf:3: a line is `name = value`", self.play(path, status=2)[0])

    def test_a_population_of_a_gateway(self):
        """Devices of a running gateway, and of its folder when it has stopped, are the same population: that which came."""
        with Stack() as stack:
            gateway = stack.start_gateway()
            key = stack.walle("key", "new", "--out", stack.path("key")).stdout.strip().splitlines()[-1]
            cheap = os.path.join(SOURCE, "conf", "populations", "cheap-phones.conf")
            fleet = subprocess.run([program("walle-fleet-sim"), "run", "--gateway", gateway.url, "--trust", key, "--devices", "300",
                                    "--population", cheap, "--enroll-token", stack.path("gateway", "enroll.token"), "--arrival-rate", "300", "--duration", "6", "--no-live", "--out", stack.path("out")],
                                   capture_output=True, text=True, timeout=120)
            self.assertEqual(fleet.returncode, 10, fleet.stdout + fleet.stderr)  # there was no release

            def harvest(source, out, *more, status=0):
                run = subprocess.run([program("walle-fleet-sim"), "population", "--from-gateway", source, "--out", stack.path(out), *more],
                                     capture_output=True, text=True, timeout=120)
                self.assertEqual(run.returncode, status, run.stdout + run.stderr)
                return run.stdout + run.stderr
            token = stack.path("gateway", "admin.token")
            self.assertIn("the population of 300 devices", harvest(gateway.url, "running", "--token-file", token))
            self.assertIn("the population of 100 devices", harvest(gateway.url, "some", "--token-file", token, "--at-most", "100"))
            harvest("http://127.0.0.1:1", "nobody", status=7)
            harvest(stack.path("nosuch"), "nosuch", status=4)
            harvest(stack.path("gateway"), "busy", status=4)
            self.assertEqual(gateway.stop(), 0)
            harvest(stack.path("gateway"), "stopped")
            harvest(self.stack.path("gateway"), "none", status=6)  # no device was ever there
            with open(stack.path("running"), encoding="utf-8") as running, open(stack.path("stopped"), encoding="utf-8") as stopped:
                text = running.read()
                self.assertEqual(text, stopped.read())
        rows = [line.split() for line in text.splitlines() if line[:1].isdigit()]
        self.assertEqual(sum(int(row[0]) for row in rows), 300)
        for row in rows:  # joint: a chip of its model
            self.assertEqual(row[3] == "mt-6", row[4] in ("go-1", "go-2"), row)
        path = self.stack.path("harvested.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        _, result, _ = self.play("walle-19m.conf", "--devices", "200", "--population", path, "--where", 'chip == "mt-6"')
        self.assertEqual(result["versions"][0]["ran"], 200)


if __name__ == "__main__":
    unittest.main()
