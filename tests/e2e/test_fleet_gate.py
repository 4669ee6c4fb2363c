"""The fleet simulator as a gate: thresholds with an exit status of their own, the verdict as JUnit XML, live metrics."""
import json
import os
import re
import socket
import subprocess
import unittest
import urllib.error
import urllib.request
import xml.etree.ElementTree

from firsthour_03_http1 import lint
from walle_stack import BIN, SOURCE, Stack, program, wait_until

FULL = [{"name": "full", "kind": "full", "min_sample": 1, "min_dwell_s": 0}]
SCRIPT = "import walle\nwalle.result(1)\n"
FAILS = "import walle\nwalle.result(walle.device['nothing'])\n"


class Gate(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def build(self, script):
        source = self.stack.path("source")
        os.mkdir(source)
        for name, text in (("task.json", '{"name": "shop/score", "version": "1.0.0", "entry": "task", "files": ["task.py"]}'), ("task.py", script)):
            with open(os.path.join(source, name), "w", encoding="ascii") as file:
                file.write(text)
        self.stack.walle("task", "build", source, "--out", self.stack.path("build"))

    def simulate(self, *arguments, thresholds=()):
        words = [word for threshold in thresholds for word in ("--threshold", threshold)]
        said = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", self.stack.path("build"), "--devices", "50", "--no-live",
                               "--out", self.stack.path("fleet"), "--junit", self.stack.path("fleet.xml"), *words, *arguments],
                              capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL)
        return said

    def report(self):
        with open(self.stack.path("fleet", "run.json"), encoding="utf-8") as file:
            result = json.load(file)
        with open(self.stack.path("fleet", "report.html"), encoding="utf-8") as file:
            return result, file.read()

    def junit(self):
        """The one suite, after what the schemas of Ant and of Jenkins ask of it."""
        root = xml.etree.ElementTree.parse(self.stack.path("fleet.xml")).getroot()
        self.assertEqual((root.tag, [suite.tag for suite in root]), ("testsuites", ["testsuite"]))
        suite = root[0]
        self.assertEqual(set(suite.attrib), {"package", "id", "name", "timestamp", "hostname", "tests", "failures", "errors", "skipped", "time"})
        self.assertRegex(suite.get("timestamp"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$")
        self.assertGreater(float(suite.get("time")), 0)
        cases = suite.findall("testcase")
        self.assertEqual([child.tag for child in suite], ["properties", *["testcase"] * len(cases), "system-out", "system-err"])
        counts = {"tests": len(cases), "errors": 0}
        for name in ("failures", "skipped"):
            counts[name] = sum(case.find({"failures": "failure"}.get(name, name)) is not None for case in cases)
        self.assertEqual({name: int(suite.get(name)) for name in counts}, counts)
        for case in cases:
            self.assertEqual(set(case.attrib), {"classname", "name", "time"})
            self.assertLessEqual(len(case), 1)
        return {case.get("name"): case for case in cases}

    def test_thresholds_that_hold_and_one_that_does_not(self):
        self.build(SCRIPT)
        held = ["failed_share<=0%", "coverage>=100%", "completed==50", "generator_lag_p99<1m", "offer_to_run_p90 < 100s"]
        said = self.simulate(thresholds=held)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        result, page = self.report()
        self.assertEqual([(row["threshold"], row["holds"]) for row in result["thresholds"]], [(text, True) for text in held])
        self.assertEqual(result["thresholds"][2]["value"], 50)
        cases = self.junit()
        for text in held:
            self.assertEqual(len(cases[text]), 0)
            self.assertIn(f"  threshold   {text}: ", said.stdout)
            self.assertIn(text.replace("<", "&lt;").replace(">", "&gt;"), page)

        missed = ["completed>=51", "run_failures_share<1%", "exposed<=0", "business_p50<1s"]
        said = self.simulate(thresholds=missed)
        self.assertEqual(said.returncode, 99, said.stdout + said.stderr)
        last = said.stdout.strip().splitlines()[-1]
        self.assertRegex(last, r"^THRESHOLD MISSED: 3 of 4 thresholds do not hold; completed>=51: 50, does not hold; .*\(exit status 99\)$")
        self.assertIn("exposed<=0: nothing was measured, so it does not hold", last)
        result, page = self.report()
        self.assertEqual((result["outcome"], result["passed"]), ("threshold missed", False))
        self.assertEqual([row["holds"] for row in result["thresholds"]], [False, True, False, False])
        self.assertIsNone(result["thresholds"][2]["value"])
        self.assertIn("threshold missed</span>", page)
        cases = self.junit()
        self.assertEqual(cases["completed>=51"].find("failure").get("message"), "completed>=51: 50, does not hold")
        self.assertEqual(len(cases["the run showed what it was to show"]), 0, "all else passed")

    def test_what_failed_goes_first(self):
        """The release failed: that is the status, whatever the thresholds say."""
        self.build(FAILS)
        said = self.simulate(thresholds=["failed_share<=1%"])
        self.assertEqual(said.returncode, 1, said.stdout + said.stderr)
        self.assertIn("  MISSED      failed_share<=1%: 100 %, does not hold", said.stdout)
        goal = self.junit()["the run showed what it was to show"].find("failure")
        self.assertRegex(goal.get("message"), "50 of 50 devices failed")

    def test_what_makes_no_sense_is_refused(self):
        self.build(SCRIPT)
        for arguments, words in ((("--threshold", "checkin_p98<1s"), r"--threshold checkin_p98<1s, column 1: no metric is called checkin_p98: checkin_p90 is one"),
                                 (("--threshold", "runs>=1%"), "column 8: a number without a unit is expected"),
                                 (("--threshold", "checkin_p99<=200"), "column 17: a latency has us, ms, s or m behind its number"),
                                 (("--metrics", "localhost:1"), "--metrics localhost:1: PORT, 127.0.0.1:PORT or"),
                                 (("--metrics", "65536"), "--metrics 65536: PORT")):
            said = self.simulate(*arguments)
            self.assertEqual(said.returncode, 2, said.stdout + said.stderr)
            self.assertRegex(said.stderr, words)
        said = self.simulate("--junit", self.stack.path("none", "fleet.xml"))
        self.assertEqual(said.returncode, 2, said.stdout + said.stderr)
        self.assertRegex(said.stderr, "--junit .*/none/fleet.xml: No such file or directory")
        places = {"source": "a folder, not a regular file", "link.xml": "a symbolic link, not a regular file", "source/task.json/x": "Not a directory"}
        os.symlink(self.stack.path("elsewhere.xml"), self.stack.path("link.xml"))
        for name, words in places.items():
            said = self.simulate("--junit", self.stack.path(name))
            self.assertEqual(said.returncode, 2, said.stdout + said.stderr)
            self.assertRegex(said.stderr, f"--junit .*/{name}: {words}")
            self.assertNotIn("preflight", said.stdout)
        self.assertFalse(os.path.exists(self.stack.path("elsewhere.xml")))

    def test_no_junit_file_of_before_is_taken_for_this_run(self):
        self.build(SCRIPT)
        path = self.stack.path("fleet.xml")
        for arguments, status in ((("--where", 'os == "amiga"'), 6), (("--devices", "29000000", "--awake", "29000000"), 3)):
            with open(path, "w", encoding="utf-8") as file:
                file.write("of before")
            said = self.simulate(*arguments)
            self.assertEqual(said.returncode, status, said.stdout + said.stderr)
            self.assertFalse(os.path.exists(path), arguments)
        said = self.simulate("--junit", "/dev/null")
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        self.assertTrue(os.path.exists("/dev/null"))

    def test_what_compared_nothing_says_so(self):
        self.build(SCRIPT)
        for every, devices in (("0", 0), ("1", 50)):
            said = self.simulate("--real-every", every)
            self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
            result, page = self.report()
            real = result["verified_for_real"]
            self.assertEqual((real["real_every"], real["devices"], real["disagreed"]), (int(every), devices, 0))
            self.assertEqual(real["compared"] > 0, devices > 0)
            oracle = next(oracle for oracle in result["oracles"] if oracle["name"] == "exact")
            self.assertEqual((oracle["checked"], oracle["compared"], oracle["of"]), (True, devices > 0, real["compared"]))
            self.assertIn(f"(--real-every {every}): {real['compared']} hashes, signatures, checks of bytecode and runs made both ways", said.stdout)
            self.assertIn(f"(--real-every {every})", page)
            skipped = self.junit()[oracle["text"]].find("skipped")
            self.assertEqual("no device did its work for real" in said.stdout, devices == 0)
            self.assertEqual("no device did its work for real" in page, devices == 0)
            self.assertEqual(skipped is not None, devices == 0)
        self.assertEqual(skipped, None)

    def test_every_metric_is_in_the_help(self):
        said = subprocess.run([program("walle-fleet-sim"), "run", "--help"], capture_output=True, text=True, timeout=60).stdout
        self.assertIn("99 all else passed, and a --threshold does not hold", " ".join(said.split()))
        with open(os.path.join(SOURCE, "docs", "OPERATIONS.md"), encoding="utf-8") as file:
            page = file.read()
        names = re.findall(r"(?m)^  ([a-z_]+?)(?:_PART)?: ", said[said.index("Metrics of --threshold"):])
        self.assertGreater(len(names), 30)
        self.assertEqual([name for name in names if f"`{name}`" not in page], [])

    def scrape(self, path="/metrics", method="GET"):
        with urllib.request.urlopen(urllib.request.Request(self.metrics + path.removeprefix("/metrics"), method=method), timeout=60) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def sample(self, name):
        found = re.search(rf"(?m)^{re.escape(name)} (\S+)$", self.scrape()[1])
        return float(found.group(1)) if found else -1

    def slow_clients_take_their_places_alone(self):
        """So many may be connected and say nothing; one more is closed as it comes, and they are closed soon."""
        port = int(re.search(r"\d+(?=/)", self.metrics).group(0))
        clients = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(40)]
        try:
            for client in clients:
                client.setblocking(False)

            def gone():
                count = 0
                for client in clients:
                    try:
                        count += client.recv(1) == b""
                    except BlockingIOError:
                        pass
                    except ConnectionResetError:
                        count += 1
                return count
            wait_until(lambda: gone() == 40 - 16, timeout_s=4, what="those above 16 to be closed")
            wait_until(lambda: gone() == 40, timeout_s=30, what="the slow ones to be closed")
        finally:
            for client in clients:
                client.close()
        self.assertEqual(self.scrape()[0], "text/plain; version=0.0.4; charset=utf-8")
        for request, status in ((b"GET /metrics HTTP/1.1\r\nx: " + b"y" * 9000, 431), (b"GET /metrics\r\n\r\n", 400), (b"\r\n\r\n", 400),
                                (b"GET /metrics?a=b HTTP/1.0\r\n\r\n", 200)):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                client.sendall(request)
                self.assertEqual(int(client.makefile("rb").read().split()[1]), status, request[:40])

    def test_live_metrics(self):
        devices = 40
        self.stack.start_hasty_gateway()
        self.stack.release('shop/score', 1, SCRIPT, FULL)
        with open(self.stack.path("release.key.pub"), encoding="ascii") as file:
            key = file.read().split()[-1]
        with open(self.stack.path("log"), "wb") as log:
            fleet = self.stack.spawn("walle-fleet-sim", "run", "--devices", str(devices), "--gateway", self.stack.gateway.url, "--enroll-token",
                                     self.stack.enroll_token, "--trust", key, "--until-stopped", "--no-live", "--threads", "2", "--out",
                                     self.stack.path("fleet"), "--metrics", "0", "--checkin-interval", "1", stdout=log, stderr=subprocess.STDOUT)

        def address():
            with open(self.stack.path("log"), encoding="utf-8") as file:
                return re.search(r"(?m)^  metrics     (http://127\.0\.0\.1:\d+/metrics)$", file.read())
        self.metrics = wait_until(address, what="the address").group(1)
        wait_until(lambda: self.sample("walle_fleet_runs_total") == devices, what="a run on each device")
        for name, value in (("walle_fleet_devices", devices), ("walle_fleet_devices_online", devices), ("walle_fleet_run_failures_total", 0),
                            ('walle_fleet_requests_total{kind="enrolment"}', devices), ('walle_fleet_invariant_violations_total{invariant="verified"}', 0)):
            self.assertEqual(self.sample(name), value, name)
        kind, page = self.scrape()
        self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
        for pattern in (r'walle_fleet_offers_total\{task="shop/score",version="1\.0\.1",manifest="[0-9a-f]{64}"\} 40', r'walle_fleet_version_current\{task="shop/score".*\} 40',
                        r'walle_fleet_generator_lag_seconds\{quantile="0\.99"\} [0-9.]+', r"walle_fleet_response_bytes_total [1-9]", r"walle_fleet_connections [1-9]"):
            self.assertRegex(page, r"(?m)^" + pattern)
        asked = sum(float(value) for value in re.findall(r'(?m)^walle_fleet_requests_total\{kind="\w+"\} (\S+)$', page))
        self.assertGreaterEqual(asked, 3 * devices)
        self.assertEqual(lint(page)[0], [])
        self.assert_promtool_agrees(page)
        self.assertEqual(self.scrape(method="HEAD")[1], "")
        for path, method, status in (("/", "GET", 404), ("/metrics", "POST", 405), ("/metrics/x", "GET", 404)):
            with self.assertRaises(urllib.error.HTTPError) as raised:
                urllib.request.urlopen(urllib.request.Request(self.metrics.removesuffix("/metrics") + path, method=method), timeout=60)
            self.assertIn(raised.exception.code, (status, 501), path)
            raised.exception.close()
        self.slow_clients_take_their_places_alone()
        taken = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", self.stack.path("build1"), "--out", self.stack.path("other"),
                                "--metrics", re.search(r"\d+(?=/)", self.metrics).group(0)], capture_output=True, text=True, timeout=60)
        self.assertEqual(taken.returncode, 4, taken.stdout + taken.stderr)
        self.assertIn("cannot listen there: Address already in use", taken.stdout)
        fleet.terminate()
        self.assertEqual(fleet.wait(60), 0)
        self.assertEqual(self.report()[0]["totals"]["runs"], devices)

    def assert_promtool_agrees(self, page):
        tool = os.path.join(os.path.dirname(os.path.abspath(BIN)), "tools", "promtool")
        fetched = subprocess.run([os.path.join(SOURCE, ".ci", "fetch-promtool"), tool], capture_output=True, text=True, timeout=300)
        if fetched.returncode == 0:
            run = subprocess.run([tool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=60)
            self.assertEqual((run.stdout, run.stderr, run.returncode), ("", "", 0))


if __name__ == "__main__":
    unittest.main()
