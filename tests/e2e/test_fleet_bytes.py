"""Virtual devices that speak real bytes: the device's own HTTP/2 client and TLS against the gateway's own transport, in virtual time.
Requests and answers are those that the model hands over; the report says what they cost; the run stays the same on any number of
threads."""
import json
import os
import subprocess
import unittest

from fleet_folder import FleetFolder
from walle_stack import Stack, program


class FleetBytes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = stack = Stack()
        cls.addClassCleanup(stack.__exit__, None, None, None)
        cls.folder = FleetFolder(stack)
        cls.folder.release("1.0.0")
        cls.folder.stop()

    def play(self, out, *arguments, devices=200, status=(0,)):
        out = self.stack.path("out-" + out)
        run = subprocess.run([program("walle-fleet-sim"), "run", *self.folder.words(), "--devices", str(devices), "--no-live", "--out", out,
                              *arguments], capture_output=True, text=True, timeout=500, stdin=subprocess.DEVNULL)
        self.assertIn(run.returncode, status, (run.stdout + run.stderr)[-3000:])
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            return json.load(file), run.stdout + run.stderr

    def oracle(self, result):
        return next(oracle for oracle in result["oracles"] if oracle["name"] == "bytes")

    def test_real_bytes_say_what_the_model_says_and_what_they_cost(self):
        result, text = self.play("few", "--byte-devices", "8", "--until-coverage", "100%", "--duration", "3600")
        self.assertEqual(result["outcome"], "passed")
        self.assertTrue(all(oracle["holds"] for oracle in result["oracles"]), result["oracles"])
        exact = result["byte_exact"]
        self.assertEqual((exact["devices"], result["fidelity"]["byte_exact"]), (8, 8))
        self.assertGreaterEqual(exact["connections"], 8)
        self.assertEqual((exact["handshakes"], exact["cut"], exact["mismatches"]), (exact["connections"], 0, 0))
        self.assertGreaterEqual(exact["answers"], 2 * exact["connections"])  # enrols, checks in, pulls, reports
        for way in ("up", "down"):
            sums = exact[way]
            self.assertLess(sums["handshake"] + sums["body"], sums["wire"], way)
            self.assertGreater(sums["handshake"], 0, way)
            self.assertGreater(sums["wire"], sums["modelled"], way)
        # Each handshake is as long as any other: nothing of it is left to chance.
        self.assertEqual(exact["up"]["handshake"] % exact["handshakes"], 0)
        self.assertEqual(exact["down"]["handshake"] % exact["handshakes"], 0)
        # Two round trips of 40 ms before the first request of a connection goes.
        self.assertGreaterEqual(exact["answer_us"], exact["modelled_us"] + exact["connections"] * 80000)
        self.assertTrue(self.oracle(result)["compared"])
        self.assertIn("but on 8, which speak real HTTP/2 and TLS", text)

    def test_nobody_speaks_bytes_by_default(self):
        result, _ = self.play("none", "--duration", "60")
        self.assertIsNone(result["byte_exact"])
        self.assertFalse(self.oracle(result)["checked"])

    def test_any_number_of_threads_gives_the_same_run(self):
        """With a link that loses and delays, processes that die, and a gateway that is killed: whatever keys were drawn."""
        runs = []
        for threads in (1, 2, 5):
            result, _ = self.play(f"threads-{threads}", "--byte-devices", "40", "--threads", str(threads), "--duration", "900", "--links",
                                  "network", "--kills", "5%", "--fault", "gateway:restart 200 @ 100%", devices=400, status=(0, 1, 9))
            runs.append(result)
        for run in runs[1:]:
            self.assertEqual(run["virtual"]["digest"], runs[0]["virtual"]["digest"])
            self.assertEqual(run["byte_exact"], runs[0]["byte_exact"])
        exact = runs[0]["byte_exact"]
        self.assertEqual((exact["devices"], exact["mismatches"]), (40, 0))
        self.assertGreater(exact["connections"], 40)
        self.assertGreater(exact["answers"], 40)

    def test_real_time_has_sockets_of_its_own(self):
        run = subprocess.run([program("walle-fleet-sim"), "run", "--gateway", "http://127.0.0.1:1", "--trust", "00" * 32, "--byte-devices",
                              "1"], capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 2)
        self.assertIn("--byte-devices is for virtual time", run.stderr)


if __name__ == "__main__":
    unittest.main()
