"""All that one device of a run did and was told, by playing the run again: it is the same run, what is told agrees with what the run
counted, and with what the gateway believes of the device."""
import json
import os
import re
import subprocess
import unittest

from fleet_folder import FleetFolder
from walle_stack import Stack, program

DEVICES = 300


class FleetReplay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.addClassCleanup(cls.stack.__exit__, None, None, None)
        cls.folder = FleetFolder(cls.stack)
        cls.rollout = cls.folder.release("1.0.0", [{"name": "full", "kind": "full", "percent": 100, "min_sample": 50, "min_dwell_s": 5,
                                                    "max_failure": 0.9}])
        cls.folder.stop()
        cls.run_json = cls.run_fleet("run", "--duration", "400", "--arrival-rate", "20", "--checkin-interval", "60", "--kills", "20%",
                                     "--fault", "network:reset @ 20%", "--bad", 'os == "ios" => exception @ 100%', "--bad-version", "1.0.0",
                                     "--threads", "3")

    @classmethod
    def sim(cls, *arguments, status=(0,)):
        run = subprocess.run([program("walle-fleet-sim"), *arguments], capture_output=True, text=True, timeout=300,
                             stdin=subprocess.DEVNULL)
        assert run.returncode in status, f"{run.returncode}: {(run.stdout + run.stderr)[-3000:]}"
        return run.stdout + run.stderr

    @classmethod
    def run_fleet(cls, out, *arguments):
        cls.sim("run", *cls.folder.words(), "--devices", str(DEVICES), "--no-live", "--out", cls.stack.path(out), *arguments, status=(0, 1))
        with open(cls.stack.path(out, "run.json"), encoding="utf-8") as file:
            return json.load(file)

    def replay(self, *arguments, out="run", status=0):
        return self.sim("replay", self.stack.path(out), *arguments, status=(status,))

    def story(self, device):
        return json.loads(self.replay("--device", str(device), "-o", "json"))

    def test_the_report_leads_from_a_count_to_a_device(self):
        ways = {way["outcome"]: way for way in self.run_json["failing"]}
        self.assertEqual(sum(way["devices"] for way in ways.values()), self.run_json["failed"])
        device = self.run_json["failing_slice"]["first"][0]
        self.assertEqual(device["attrs"]["os"], "ios")
        story = self.story(device["id"])
        self.assertEqual(story["device"]["index"], device["index"])
        self.assertTrue(any("fail_exception" in json.dumps(event) for event in story["events"]), story["events"][-20:])
        with open(self.stack.path("run", "report.html"), encoding="utf-8") as file:
            self.assertIn(f"<code>walle-fleet-sim replay {self.stack.path('run')} --device {device['id']}</code>", file.read())

    def test_stories_agree_with_what_is_true_and_believed(self):
        kinds = set()
        failed = good = 0
        for device in range(0, DEVICES, 40):
            story = self.story(device)
            events = story["events"]
            truth = story["gateway"]["truth"]
            self.assertEqual(story["device"]["index"], device)
            moments = [event["t_s"] for event in events]
            self.assertEqual(moments, sorted(moments))
            self.assertLessEqual(moments[-1], 400)
            whats = [event["what"] for event in events]
            kinds |= set(whats)
            wakes = [event for event in events if event["what"] == "wake" and event["text"].startswith("wake ")]
            self.assertEqual(len(wakes), truth["wakes"])
            # Each life begins with a wake and ends with sleep, a kill before it or not.
            self.assertIn(whats.count("sleep"), (len(wakes), len(wakes) - 1))
            ran = [event for event in events if event["what"] == "outcome"]
            if not ran:
                continue
            self.assertTrue(truth["activated_ms"] / 1e3 <= ran[0]["t_s"] + 1)
            runs = [event for event in events if event["what"] == "run"]
            self.assertEqual(runs[0]["version"], "shop/score 1.0.0")
            ios = story["device"]["attributes"]["os"] == "ios"
            self.assertEqual(ran[0]["text"].startswith("fail_exception"), ios, ran)
            self.assertEqual("the bad release hits it" in runs[0]["text"], ios)
            self.assertEqual(truth["failed"], ios)
            believed = story["gateway"]["why"]["rollouts"][0]
            self.assertEqual(believed["rollout"], self.rollout)
            self.assertEqual("failed" in believed["states"], ios, believed)
            failed += ios
            good += not ios
            if ios:
                self.assertIn("back", whats)
        self.assertGreater(failed, 0)
        self.assertGreater(good, 0)
        for kind in ("wake", "boot", "ask", "answer", "offer", "activate", "run", "outcome", "save", "sleep", "fault", "killed", "no-answer"):
            self.assertIn(kind, kinds)

    def test_the_timeline_says_the_same(self):
        story = self.story(7)
        text = self.replay("--device", "7")
        self.assertEqual(self.replay("--device", story["device"]["id"]), text)
        lines = [line for line in text.splitlines() if re.match(r" +\d+\.\d{6}  ", line)]
        self.assertEqual(len(lines), len(story["events"]))
        for line, event in zip(lines, story["events"]):
            self.assertIn(f"{event['t_s']:.6f}  {event['what']}", line)
        self.assertIn(f"device 7, id {story['device']['id']}: ", text)
        self.assertIn("ask        enrolment: POST /v1/enroll", text)
        self.assertRegex(text, r"offer +shop/score, release 1, .*\[shop/score 1\.0\.0 [0-9a-f]{8}\]")
        self.assertRegex(text, rf"\ntruth +{story['gateway']['truth']['wakes']} wakes, offered at ")
        self.assertRegex(text, rf"\ngateway +rollout {self.rollout} of 1\.0\.0: ")
        self.assertNotIn("replay", os.listdir(self.stack.path("run")))  # the second run goes

    def test_a_run_that_does_not_come_again_explains_nothing(self):
        self.run_fleet("moved", "--duration", "30")
        with open(self.stack.path("moved", "repro.txt"), "r+", encoding="utf-8") as file:
            line = file.read()
            file.seek(0)
            file.write(line.rstrip() + " --seed 2\n")
        text = self.replay("--device", "7", out="moved", status=4)
        self.assertIn("the run does not come again as it was", text)
        self.assertNotIn("wake 1", text)

    def test_an_enrolment_travels_on_its_devices_own_network(self):
        """Not all of them on the one of device 0, which takes them as long each time."""
        self.run_fleet("links", "--duration", "40", "--arrival-rate", "20", "--links", "network")
        took = set()
        for device in range(0, 60, 6):
            text = self.replay("--device", str(device), out="links")
            took |= set(re.findall(r"answer +enrolment: 201, ([\d.]+) ms", text))
        self.assertGreater(len(took), 5)

    def test_what_is_not_there_is_said(self):
        self.assertIn(f"no device of the run has the index {DEVICES}", self.replay("--device", str(DEVICES), status=2))
        self.assertIn("no device of the run has the id 00000000000000aa", self.replay("--device", "00000000000000aa", status=2))
        self.assertIn("an index, or an id of 16 hex digits", self.replay("--device", "x", status=2))
        self.assertIn("--device are expected", self.replay(status=2))
        self.assertIn("text or json is expected", self.replay("--device", "1", "-o", "xml", status=2))
        self.assertIn("nowhere", self.replay("--device", "1", out="nowhere", status=4))


if __name__ == "__main__":
    unittest.main()
