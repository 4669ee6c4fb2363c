"""Behaviour in the fleet simulator: triggers fire in the real pipeline, runs happen in the real VM, records go up the real tunnel to a
real gateway, and what the devices say of them is what the gateway's log holds; also with kills. One seed gives one set of events."""
import collections
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import unittest

from walle_stack import Stack, program

FULL = [{"name": "full", "kind": "full", "min_sample": 1, "min_dwell_s": 0}]
SCRIPT = """import walle
from walle import data
events = data.events()
if len(events) > 0:
    n = len(data.query("seen", "", 0))
    data.store("seen", "", n)
    walle.result({"events": len(events), "item": events[0].item or "", "before": n})
"""
TASK = {"name": "shop/seen", "version": "1.0.0", "entry": "seen", "files": ["seen.py"],
        "triggers": ["exit(item_detail)", "enter(cart) * click(cart, price > 3) page"],
        "events": {"take": "visit", "attributes": ["price"]},
        "uploads": [{"name": "seen", "class": "behaviour", "schema": {"type": "object"}}], "result": "seen"}


def visit(item, at_ms):
    return [{"kind": kind, "page": "item_detail", "item": item, "t": at_ms + i * 700} for i, kind in enumerate(("enter", "scroll", "exit"))]


class FleetBehaviour(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def build(self, task, script=SCRIPT):
        folder = self.stack.path("source")
        os.makedirs(folder, exist_ok=True)
        for name, text in (("task.json", json.dumps(task)), ("seen.py", script)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", folder, "--out", self.stack.path("build"))
        return self.stack.path("build")

    def fleet(self, *arguments, out="fleet", code=0):
        run = subprocess.run([program("walle-fleet-sim"), *arguments, "--no-live", "--out", self.stack.path(out)], capture_output=True,
                             text=True, timeout=300, check=False)
        self.assertEqual(run.returncode, code, run.stdout[-3000:] + run.stderr)
        if code != 0:
            return run, None
        with open(self.stack.path(out, "run.json"), encoding="utf-8") as file:
            return run, json.load(file)

    def log(self, lines):
        path = self.stack.path("events.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        return path

    def simulate(self, *arguments, out="fleet", code=0):
        return self.fleet("simulate", "--task", self.stack.path("build"), *arguments, out=out, code=code)

    def test_simulate_fires_the_tasks_triggers(self):
        self.build(TASK)
        run, result = self.simulate("--devices", "20", "--sessions", "8")
        behaviour = result["behaviour"]
        self.assertEqual(behaviour["totals"]["sessions"], 160)
        self.assertEqual([trigger["sessions"] for trigger in behaviour["triggers"]], [160, 160])
        for trigger in behaviour["triggers"]:
            self.assertGreater(trigger["fired"], 60, trigger)
            self.assertIsNone(trigger["miss"])
        task = behaviour["tasks"][0]
        self.assertEqual(task["ran"], task["starts"])
        self.assertEqual(task["ran"], behaviour["totals"]["records"])
        self.assertEqual(task["starts"], sum(trigger["fired"] for trigger in behaviour["triggers"]))
        self.assertLessEqual(behaviour["cost"]["work_max"], task["certificate"]["work"])
        self.assertLessEqual(behaviour["cost"]["trigger_bytes"], task["certificate"]["bytes"])
        self.assertNotIn("WARNING", run.stdout)
        with open(self.stack.path("fleet", "report.html"), encoding="utf-8") as file:
            self.assertIn("<h2>Behaviour</h2>", file.read())

    def test_simulate_with_kills_ends(self):
        self.build(TASK)
        # Pauses between sessions are not waited for: --session-every is for run.
        _, result = self.simulate("--devices", "12", "--sessions", "2", "--kills", "20%", "--behaviour", "ipv")
        self.assertEqual(result["behaviour"]["totals"]["sessions"], 24)
        self.assertGreater(result["behaviour"]["totals"]["sessions_killed"], 0)

    def test_one_seed_one_run(self):
        self.build(TASK)
        path = self.log(visit("i-1", 1800000000000) + visit("i-2", 1800000060000) + [{"kind": "click", "page": "home"}] * 3)

        def look(*arguments):
            behaviour = self.simulate("--devices", "30", "--sessions", "3", *arguments)[1]["behaviour"]
            totals = {name: value for name, value in behaviour["totals"].items() if name != "commits"}
            return totals, [(t["fired"], t["step_events"]) for t in behaviour["triggers"]]
        for source in ("ipv", "triggers", path):
            first = look("--behaviour", source, "--seed", "5")
            self.assertEqual(look("--behaviour", source, "--seed", "5", "--threads", "2"), first, source)
            self.assertNotEqual(look("--behaviour", source, "--seed", "6"), first, source)
            self.assertGreater(first[0]["records"], 0)

    def test_a_trigger_that_never_fires_is_told(self):
        self.build({**TASK, "triggers": ["exit(item_detail)", "enter(item_detail) * click(basket)"]})
        run, result = self.simulate("--devices", "5", "--sessions", "4", "--behaviour", "ipv")
        self.assertIn("WARNING", run.stdout)
        self.assertIn("never fired in 20 sessions", run.stdout)
        self.assertIn("none matched step 2 of 2, click(basket)", result["behaviour"]["triggers"][1]["miss"])

    def test_bad_logs_are_refused(self):
        self.build(TASK)
        for lines, words in ((["{"], "line 1"), ([{"kind": "click", "page": "a"}, {"kind": "jump", "page": "a"}], "line 2"),
                             ([{"kind": "click"}], "line 1"), ([], "no event")):
            run, _ = self.simulate("--behaviour", self.log(lines), code=4)
            self.assertIn(words, run.stdout)
        run, _ = self.simulate("--behaviour", self.stack.path("nothing.jsonl"), code=4)
        self.assertIn("No such file", run.stdout)
        self.simulate("--sessions", "0", code=2)

    def start_gateway(self, task=TASK, script=SCRIPT):
        self.stack.start_gateway("--set", "rollout.tick_ms=100")
        if not os.path.exists(self.stack.path("key")):
            self.key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]
        self.stack.walle("task", "push", self.build(task, script))
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(FULL, file)
        self.stack.walle("rollout", "start", TASK["name"], "--build", self.stack.path("build"), "--key", self.stack.path("key"),
                         "--stages", self.stack.path("stages.json"))

    def run_fleet(self, *arguments):
        return self.fleet("run", "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--trust", self.key, "--devices", "200", "--threads", "2",
                          "--behaviour", "ipv", "--checkin-interval", "2", *arguments)[1]

    def check_law(self, result):
        """Every device's account against the gateway's log, record by record."""
        path = self.stack.path("records.jsonl")
        self.stack.walle("tunnel", "export", "--out", path)
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
        entries = [json.loads(line) for line in lines]
        records = [entry for entry in entries if "lost" not in entry]  # the others declare a loss
        keys = {(r["device"], r["class"], r["epoch"], r["seq"]) for r in entries}
        self.assertEqual(len(keys), len(entries), "nothing is there twice")
        there = collections.Counter((r["device"], r["class"]) for r in records)
        with open(self.stack.path("fleet", "tunnel.csv"), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertGreater(len(rows), 0)
        for row in rows:
            count = there.pop((row["device"], int(row["class"])), 0)
            durable, queued = int(row["durable"]), int(row["queued"])
            self.assertTrue(durable <= count <= durable + queued, (row, count))
        self.assertEqual(there, {}, "of devices nobody simulated")
        law = result["behaviour"]["law"]
        self.assertTrue(law["holds"])
        oracle = next(o for o in result["oracles"] if o["name"] == "law")
        self.assertTrue(oracle["checked"] and oracle["holds"])
        run = subprocess.run([program("walle-fleet-sim"), "law", self.stack.path("fleet", "tunnel.csv"), path], capture_output=True,
                             text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn(f"{len(records)} records", run.stdout)
        # An agent's records are in the same log, and no business of this run's law; those of a device of the run are.
        other = json.dumps({**records[0], "device": "0123456789abcdef"}) + "\n"
        with open(self.stack.path("others"), "w", encoding="utf-8") as file:
            file.writelines(lines + [other])
        run = subprocess.run([program("walle-fleet-sim"), "law", self.stack.path("fleet", "tunnel.csv"), self.stack.path("others")],
                             capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertRegex(run.stdout, r"(?m)^1 records of 1 other devices are not of the run: not judged$")
        self.assertEqual(len({row["device"] for row in rows}), 200, "each device of the run is named")
        foreign = json.dumps({**records[0], "class": 0}) + "\n"
        settled = {(row["device"], int(row["class"])) for row in rows if row["queued"] == "0"}
        gone = next(i for i, r in enumerate(entries) if (r["device"], r["class"]) in settled and "lost" not in r)
        for name, change in (("twice", lines + lines[:1]), ("less", lines[:gone] + lines[gone + 1:]), ("foreign", lines + [foreign])):
            with open(self.stack.path(name), "w", encoding="utf-8") as file:
                file.writelines(change)
            run = subprocess.run([program("walle-fleet-sim"), "law", self.stack.path("fleet", "tunnel.csv"), self.stack.path(name)],
                                 capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 1, f"{name}: {run.stdout}")
        return records

    def test_records_come_up_the_tunnel(self):
        self.start_gateway()
        result = self.run_fleet("--sessions", "2", "--session-every", "1", "--duration", "60", "--active", "64")
        behaviour = result["behaviour"]
        self.assertEqual(behaviour["totals"]["devices"], 200)
        self.assertGreater(behaviour["triggers"][0]["fired"], 200)
        self.assertEqual(behaviour["law"]["classes"][2]["gone_with_kills"], 0)
        records = self.check_law(result)
        self.assertGreaterEqual(len(records), behaviour["totals"]["durable"])
        self.assertGreater(len(records), 200)

    def test_with_kills_every_record_is_accounted_for(self):
        self.start_gateway({**TASK, "uploads": [{"name": "seen", "class": "realtime"}]})  # what is late is declared lost
        result = self.run_fleet("--sessions", "3", "--session-every", "1", "--duration", "60", "--kills", "40%")
        self.assertGreater(result["behaviour"]["totals"]["sessions_killed"], 20)
        self.check_law(result)

    def test_in_virtual_time(self):
        """The same pipeline and both sides of the tunnel, in virtual time: one run whatever the threads, also with kills, networks and
        a gateway that is killed; and a panel behaves where not everybody does."""
        self.start_gateway()
        self.assertEqual(self.stack.gateway.stop(), 0)

        def play(name, *arguments):
            result = self.fleet("run", "--virtual", self.stack.path("gateway"), "--trust", self.key, "--devices", "200", "--behaviour", "ipv",
                                "--checkin-interval", "60", "--session-every", "20", "--sessions", "2", "--duration", "3600", *arguments, out=name)[1]
            totals, law = result["behaviour"]["totals"], result["behaviour"]["law"]
            self.assertTrue(law["holds"], law)
            self.assertGreater(result["behaviour"]["triggers"][0]["fired"], totals["devices"] / 2)
            self.assertEqual(totals["sessions"], 2 * totals["devices"])
            self.assertEqual(result["fidelity"]["behaviour"], totals["devices"])
            self.assertEqual(result["versions"][0]["ran"], 200)
            durable, offered = (sum(row[name] for row in law["classes"]) for name in ("durable", "offered"))
            self.assertGreater(durable, totals["devices"] / 2)
            self.assertTrue(durable <= law["taken"] <= offered, law)
            return result
        calm = play("calm")
        self.assertEqual(calm["behaviour"]["totals"]["devices"], 200)
        self.assertIsNone(calm["behaviour"]["cost"]["event_p99_us"], "the host's time is not measured")
        self.assertEqual(calm["behaviour"]["law"]["classes"][2]["gone_with_kills"], 0)
        for name, options in (("kills", ("--kills", "30%")), ("restart", ("--links", "network", "--fault", "gateway:restart 20 @ 100%")),
                              ("panel", ("--panel", "25%"))):
            first, second = (play(f"{name}-{threads}", "--threads", str(threads), *options) for threads in (1, 2))
            self.assertEqual(first["virtual"]["digest"], second["virtual"]["digest"], name)
            self.assertNotEqual(first["virtual"]["digest"], calm["virtual"]["digest"], name)
            for part in ("totals", "law", "triggers"):
                self.assertEqual(first["behaviour"][part], second["behaviour"][part], f"{name}: {part}")
            self.assertEqual(first["behaviour"]["totals"]["sessions_killed"] > 0, name == "kills")
            self.assertEqual((first["faults"] or {}).get("gateway:restart", 0) > 0, name == "restart")
            if name == "panel":
                self.assertIn(first["behaviour"]["totals"]["devices"], range(20, 81))
            else:
                self.assertEqual(first["behaviour"]["totals"]["devices"], 200)
        run, _ = self.fleet("run", "--virtual", self.stack.path("gateway"), "--trust", self.key, "--panel", "0%", code=2)
        self.assertIn("--panel: nobody behaves then", run.stderr)
        run, _ = self.fleet("run", "--virtual", self.stack.path("gateway"), "--trust", self.key, "--panel", "1%", code=2)
        self.assertIn("--panel: of what? --behaviour says", run.stderr)

    def test_the_preflight_counts_users(self):
        """What they take more than the same devices without any is what it said, within a tenth of the peak."""
        self.start_gateway()
        self.assertEqual(self.stack.gateway.stop(), 0)

        def play(*arguments):
            run, result = self.fleet("run", "--virtual", self.stack.path("gateway"), "--trust", self.key, "--devices", "600",
                                     "--checkin-interval", "60", "--session-every", "20", "--duration", "600", *arguments)
            said = re.search(r"(?m)^  memory +(\d+) MiB of .*, users (\d+)\)$", run.stdout + run.stderr)
            return int(said.group(1)), int(said.group(2)), result["peak_rss_bytes"] / 2**20
        budget, users, peak = play()
        self.assertEqual(users, 0)
        for words in (("--sessions", "1"), ("--sessions", "4"), ("--sessions", "2", "--panel", "25%"), ("--sessions", "2", "--active", "200")):
            all_of_it, more, with_users = play("--behaviour", "ipv", *words)
            self.assertAlmostEqual(all_of_it - budget, more, delta=1)
            if not os.environ.get("WALLE_SANITIZE"):  # a sanitizer has memory of its own
                self.assertLess(abs(with_users - peak - more), 0.1 * with_users, (words, more, peak, with_users))

    def test_batches_are_made_with_the_version_s_dictionary(self):
        """Trained from what a first fleet sent, released with a version, and used by a second one, whose records all arrive."""
        script = SCRIPT.replace('"before": n', '"seen": [[e.kind, e.page, e.item] for e in events]')
        self.start_gateway(script=script)
        arguments = ("--sessions", "1", "--session-every", "1", "--duration", "60")
        before = self.run_fleet(*arguments)["behaviour"]["totals"]
        self.stack.walle("tunnel", "export", "--out", self.stack.path("first.jsonl"))
        dictionary = self.stack.path("source", "tunnel.dict")
        self.stack.walle("tunnel", "train", "--from", self.stack.path("first.jsonl"), "--out", dictionary, "--size", "4096")
        self.stack.gateway.stop()
        shutil.rmtree(self.stack.path("gateway"))  # the second fleet's records alone are compared with its law
        self.start_gateway({**TASK, "version": "1.1.0", "files": [*TASK["files"], "tunnel.dict"]}, script)
        result = self.run_fleet(*arguments)
        after = result["behaviour"]["totals"]
        self.check_law(result)
        ratios = [totals["raw_bytes"] / totals["sent_bytes"] for totals in (before, after)]
        print(f"raw bytes for each byte sent: {ratios[0]:.2f} without, {ratios[1]:.2f} with the dictionary")
        self.assertGreater(ratios[1], 1.2 * ratios[0], "the same records in fewer bytes")
        with open(dictionary, "rb") as file:
            name = hashlib.sha256(file.read()).digest()[:4]
        logged = b""
        for part in os.listdir(self.stack.path("gateway", "tunnel")):
            if part.startswith("segment-"):
                with open(self.stack.path("gateway", "tunnel", part), "rb") as file:
                    logged += file.read()
        self.assertGreater(logged.count(name), after["devices"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
