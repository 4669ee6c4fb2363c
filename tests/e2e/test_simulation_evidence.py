"""The simulate stage goes by signed evidence: made by `walle rollout start` itself or by the simulator, taken only when all it is bound
to agrees; typed numbers count once a second person approved them, and stand where everybody sees them."""
import base64
import json
import os
import subprocess
import unittest

import evil_gateway as evil
from walle_stack import Stack, program, wait_until

TASK = "shop/score"
STAGES = [{"name": "simulate", "kind": "simulate", "min_sample": 50, "max_failure": 0.1},
          {"name": "full", "kind": "full", "percent": 100, "min_sample": 5, "max_failure": 0.1}]
GOOD = "import walle\nwalle.result(1)\n"
OLD_ANDROID_FAILS = "import walle\nwalle.result(walle.device['os'] != 'android' or 1 // 0)\n"
DEVICES = 200


class Evidence(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway("--set", "rollout.tick_ms=50")
        for name in ("lead", "ci", "stranger"):
            self.stack.walle("key", "new", "--out", self.path(name + ".key"))
        with open(self.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(STAGES, file)

    def path(self, *names):
        return self.stack.path(*names)

    def root(self):
        self.stack.walle("root", "init", "--out", self.path("root.1"), "--key", self.path("lead.key"), "--release",
                         self.path("ci.key.pub"), "--narrow", "1", "--wide", "1")
        self.stack.walle("root", "push", self.path("root.1"))

    def build(self, number, script=GOOD, task=TASK, **fields):
        source, build = self.path(f"source{number}"), self.path(f"build{number}")
        os.mkdir(source)
        for name, text in (("task.py", script), ("task.json", json.dumps({"name": task, "version": f"1.0.{number}", "entry": "task",
                                                                           "files": ["task.py"], **fields}))):
            with open(os.path.join(source, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", source, "--out", build)
        self.stack.walle("task", "push", build)
        return build

    def start(self, build, *more, check=True):
        return self.stack.walle("rollout", "start", TASK, "--build", build, "--key", self.path("ci.key"), "--stages", self.path("stages.json"),
                                *more, check=check)

    def begin(self, rollout, *more):
        """Starts one that was made, without what the stack adds to the making of one."""
        return subprocess.run([program("walle"), "rollout", "start", rollout, *more], capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, env={**os.environ, "WALLE_GATEWAY": self.stack.gateway.url})

    def waiting(self, build, *more):
        """A rollout in its simulate stage, without a result."""
        rollout = self.start(build, "--no-start", *more).stdout[:16]
        self.assertEqual(self.stack.api(f"/api/v1/rollouts/{rollout}/start", "POST", {})[0], 200)
        return rollout

    def simulate(self, build, *more, key="ci", root=True, check=True):
        file = self.path(f"evidence{len(os.listdir(self.stack.folder))}.json")
        run = subprocess.run([program("walle-fleet-sim"), "simulate", "--task", build, "--devices", str(DEVICES), "--seed", "7", "--no-live",
                              *(("--root", self.path("root.1")) if root else ()), "--out", self.path("simulated"), "--evidence", file,
                              "--evidence-key", self.path(key + ".key"), *more], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(run.returncode in (0, 1), check, run.stdout + run.stderr)
        return file if check else run.stdout + run.stderr

    def signed_by(self, evidence, key):
        """The same run, signed by this key in place of its own."""
        with open(evidence, encoding="utf-8") as file:
            envelope = base64.urlsafe_b64decode(json.load(file)["evidence"] + "==")
        kind, payload, _ = evil.open_envelope(envelope)
        again = evil.Key(self.path(key + ".key"), self.stack.folder).envelope(kind, payload)
        file = self.path(f"evidence-{key}.json")
        with open(file, "w", encoding="utf-8") as out:
            json.dump({"evidence": base64.urlsafe_b64encode(again).decode().rstrip("=")}, out)
        return file

    def view(self, rollout):
        return self.stack.api(f"/api/v1/rollouts/{rollout}")[1]

    def await_stage(self, rollout, name):
        wait_until(lambda: (self.view(rollout)["stage"] or {}).get("name") == name, 60, name)

    def test_failures_are_told_by_their_evidence(self):
        self.root()
        build = self.build(1, OLD_ANDROID_FAILS)
        rollout = self.waiting(build)
        evidence = self.simulate(build)
        with open(evidence, encoding="utf-8") as file:
            says = json.load(file)["says"]
        self.assertEqual((list(says["classes"]), says["classes"]["fail_exception"]["devices"]), (["fail_exception"], says["failed"]))
        self.assertIn("ZeroDivisionError", says["classes"]["fail_exception"]["detail"])
        run = self.stack.walle("rollout", "simulation", rollout, "--evidence", evidence, check=False)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn(f"{says['failed']} virtual devices: fail_exception ZeroDivisionError", run.stdout)
        self.assertEqual(self.view(rollout)["simulation"]["not_run"], says["matched"] - says["completed"])

    def test_refused_evidence_leaves_nothing_open(self):
        self.root()
        build, other = self.build(1), self.build(2, GOOD + "walle.log('x')\n")
        wrong = self.simulate(other)
        run = self.start(build, "--evidence", wrong, check=False)
        self.assertEqual(run.returncode, 4, run.stderr)
        self.assertIn("evidence: manifest: ", run.stderr)
        self.assertEqual(self.stack.api("/api/v1/rollouts")[1]["items"], [])
        rollout = self.start(build, "--no-start").stdout[:16]
        run = self.begin(rollout, "--evidence", wrong)
        self.assertEqual((run.returncode, self.view(rollout)["state"]), (4, "draft"), run.stderr)

    def test_a_rollout_that_waits_is_simulated_when_it_starts(self):
        self.root()
        build, other = self.build(1), self.build(2, GOOD + "walle.log('x')\n")
        rollout = self.start(build, "--no-start", "--target", 'os == "android"').stdout[:16]
        self.assertEqual(self.view(rollout)["target"], 'os == "android"')
        key = ("--key", self.path("ci.key"), "--accept-empty", "--build")
        run = self.begin(rollout, *key, other)
        self.assertEqual((run.returncode, "holds manifest" in run.stderr), (4, True), run.stderr)
        self.assertEqual(self.view(rollout)["state"], "draft")
        run = self.begin(rollout, *key, build)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn('simulating the version on 1000 virtual devices: os == "android"', run.stderr)
        self.await_stage(rollout, "full")
        # For everybody, and by the beginning of its id.
        rollout = self.start(other, "--no-start").stdout[:16]
        self.assertEqual(self.begin(rollout[:12], *key, other).returncode, 0)
        self.await_stage(rollout, "full")

    def refused(self, rollout, evidence, text, code=4):
        run = self.stack.walle("rollout", "simulation", rollout, "--evidence", evidence, check=False)
        self.assertEqual((run.returncode, text in run.stderr), (code, True), run.stderr)
        self.assertIsNone(self.view(rollout)["simulation"])

    def test_start_simulates_by_itself(self):
        self.root()
        run = self.start(self.build(1), "--target", "app_version >= 9.2")
        self.assertIn("simulating the version on 1000 virtual devices: app_version >= 9.2", run.stderr)
        rollout = run.stdout[:16]
        self.await_stage(rollout, "full")
        simulation = self.view(rollout)["simulation"]
        self.assertEqual((simulation["source"], simulation["completed"], simulation["failed"], simulation["matched"]),
                         ("evidence", 1000, 0, 1000))
        self.assertGreater(simulation["drawn"], 1000, "not every device is of the target")
        self.assertIn("simulated: 1000 virtual devices, 0 failed; evidence " + simulation["evidence"][:16],
                      self.stack.walle("rollout", "status", rollout).stdout)
        self.assertIn("evidence " + simulation["evidence"][:16], self.stack.walle("rollout", "log", rollout).stdout)
        self.assertIn(simulation["evidence"], self.stack.walle("audit", "tail", "-o", "json").stdout)
        self.stack.walle("rollout", "replay", rollout)
        # A version that fails where the target is goes no further.
        run = self.start(self.build(2, OLD_ANDROID_FAILS), check=False)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        wait_until(lambda: self.view(run.stdout[:16])["state"] == "rolled_back", 60, "rolled back")
        view = self.view(run.stdout[:16])
        self.assertGreater(view["simulation"]["failed"], 100)
        self.assertEqual(view["counts"]["offered"], 0)
        # Why, wherever somebody looks: and it stays the cause when every device is back.
        self.assertEqual([(one["kind"], one["devices"]) for one in view["simulation"]["classes"]],
                         [("fail_exception", view["simulation"]["failed"])])
        self.assertIn("ZeroDivisionError", view["simulation"]["classes"][0]["detail"])
        self.assertEqual(view["cause"]["reason"], "failures_over_limit")
        said = self.stack.walle("rollout", "log", run.stdout[:16]).stdout
        line = next(line for line in said.splitlines() if " simulation " in line)
        self.assertRegex(line, r" fail failures_over_limit \([1-9][0-9.]* % of 1000 completed had failed\)", said)
        for command in ("status", "explain"):
            said = self.stack.walle("rollout", command, run.stdout[:16], check=False).stdout
            self.assertIn(f"{view['simulation']['failed']} virtual devices: fail_exception ZeroDivisionError", said)
            self.assertIn(view["cause"]["text"] + "; " + view["reason_text"], said)
        # What was stored is there after a restart.
        self.stack.gateway.stop()
        self.stack.restart_gateway("--set", "rollout.tick_ms=50")
        self.assertEqual(self.view(rollout)["simulation"], simulation)

    def stage_with(self, **fields):
        with open(self.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump([{**STAGES[0], **fields}, STAGES[1]], file)

    def test_a_simulation_has_the_limit_of_its_stage(self):
        """More fail than the simulator allows by itself, and the stage's gate is asked for more or for less."""
        self.root()
        build = self.build(1, OLD_ANDROID_FAILS)
        for fields, more, limit in (({"max_failure": 0.95}, (), None), ({"max_failure": 0.025}, (), "2.50"), ({}, ("--max-failure", "0.5"), "10.00")):
            self.stage_with(**fields)
            run = self.start(build, *more, check=False)
            self.assertEqual((run.returncode, "FAILED" in run.stderr), (int(limit is not None), limit is not None), run.stderr)
            simulation = self.view(run.stdout[:16])["simulation"]
            share = f"{100 * simulation['failed'] / simulation['completed']:.2f}"
            said = f"walle: stage simulate will not pass: {simulation['failed']} of 1000 virtual devices failed, {share} %, at most {limit} % may\n"
            self.assertEqual(said in run.stderr, limit is not None, run.stderr)
            self.assertEqual(f"{share} %: at most {limit} % may (--max-failure)" in run.stderr, limit is not None, run.stderr)
        self.stage_with(name="virtual", on_fail="hold")  # and one that was made before
        rollout = self.start(build, "--no-start").stdout[:16]
        run = self.begin(rollout, "--key", self.path("ci.key"), "--accept-empty", "--build", build)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertRegex(run.stderr, r"walle: stage virtual will not pass: \d+ of 1000 virtual devices failed, \S+ %, at most 10.00 % may\n")

    def test_a_simulation_that_fails_for_what_no_gate_asks(self):
        self.root()
        build = self.build(1, "import walle\nwalle.data.upload('spent', {'total': 1})\nwalle.result(1)\n",
                           uploads=[{"name": "spent", "class": "realtime", "schema": {"fields": {"total": "string"}}}])
        run = self.start(build)
        self.assertIn("records are not as their schemas say", run.stderr)
        self.assertIn("walle: warning: the simulation failed, and stage simulate asks for less: of 1000 virtual devices 0 failed, 10.00 % may\n", run.stderr)
        self.await_stage(run.stdout[:16], "full")

    def test_a_dry_run_says_what_evidence_comes_to(self):
        self.root()
        good, bad = self.build(1), self.build(2, OLD_ANDROID_FAILS)
        evidence = self.simulate(bad)
        run = self.start(bad, "--evidence", evidence, "--dry-run", check=False)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertRegex(run.stderr, rf"walle: stage simulate would not pass: \d+ of {DEVICES} virtual devices failed, \S+ %, at most 10.00 % may\n")
        self.assertNotIn("the gateway would start it", run.stdout)
        self.stage_with(min_sample=DEVICES + 1)
        few = self.simulate(good)
        draft = self.path("draft.json")
        self.start(good, "--draft", draft)
        says = (f"walle: stage simulate {{}} not pass: it asks for {DEVICES + 1} virtual devices and {DEVICES} completed; walle-fleet-sim simulate --devices "
                f"{DEVICES + 1} --evidence FILE brings more\n")
        runs = [(self.start(good, "--evidence", few, "--dry-run", check=False), "would"), (self.start(good, "--evidence", few, check=False), "will"),
                (self.stack.walle("rollout", "submit", draft, "--evidence", few, check=False), "will")]
        self.assertEqual(self.stack.api("/api/v1/rollouts")[1]["items"], [], "nothing is made")
        rollout = self.start(good, "--no-start").stdout[:16]
        runs += [(self.begin(rollout, "--evidence", few, "--accept-empty", *more), word) for more, word in ((("--dry-run",), "would"), ((), "will"))]
        for run, word in runs:
            self.assertEqual((run.returncode, run.stdout.count("would start")), (4, 0), run.stderr)
            self.assertTrue(run.stderr.endswith(says.format(word)), run.stderr)
        self.assertEqual(self.view(rollout)["state"], "draft")

    def test_what_does_not_agree_is_refused(self):
        self.root()
        build, other = self.build(1), self.build(2, GOOD + "walle.log('x')\n")
        rollout = self.waiting(build, "--target", 'os == "android"')
        self.refused(rollout, self.simulate(build), "evidence: target: '', the rollout's is 'os == \"android\"'")
        self.refused(rollout, self.simulate(build, "--target", 'os == "ios"'), "evidence: target: 'os == \"ios\"'")
        self.refused(rollout, self.simulate(other, "--target", 'os == "android"'), "evidence: manifest: ")
        for key in ("stranger", "lead"):  # the simulator would not sign with these
            other_key = self.signed_by(self.simulate(build, "--target", 'os == "android"'), key)
            self.refused(rollout, other_key, "is not of the release role of root 1")
        self.refused(rollout, self.simulate(build, "--target", 'os == "android"', root=False),
                     "the devices were born with root 0, this gateway serves root 1")
        # A byte that was changed after it was signed.
        whole = self.simulate(build, "--target", 'os=="android"')
        with open(whole, encoding="utf-8") as file:
            document = json.load(file)
        envelope = bytearray(base64.urlsafe_b64decode(document["evidence"] + "=="))
        at = envelope.index(DEVICES.to_bytes(8, "little") * 2)
        envelope[at] += 1  # more were drawn
        bent = self.path("bent.json")
        with open(bent, "w", encoding="utf-8") as file:
            json.dump({"evidence": base64.urlsafe_b64encode(envelope).decode().rstrip("=")}, file)
        self.refused(rollout, bent, "did not sign these bytes")
        self.refused(rollout, self.path("stages.json"), "no evidence in it", 5)
        # The root has changed since the run.
        self.stack.walle("root", "rotate", self.path("root.1"), "--out", self.path("root.2"), "--key", self.path("lead.key"))
        self.stack.walle("root", "push", self.path("root.2"))
        self.refused(rollout, whole, "the devices were born with root 1, this gateway serves root 2")
        # The says of the file are for people; the one that fits is taken, however its target was spelt.
        self.assertEqual(document["says"]["matched"], DEVICES)
        self.assertEqual(document["says"]["target"], 'os == "android"')
        os.rename(self.path("root.2"), self.path("root.1"))
        self.stack.walle("rollout", "simulation", rollout, "--evidence", self.simulate(build, "--target", 'os ==  "android"'))
        self.await_stage(rollout, "full")
        self.assertIn("not in a running simulate stage",
                      self.stack.walle("rollout", "simulation", rollout, "--evidence", whole, check=False).stderr)

    def test_the_simulator_says_what_is_no_evidence(self):
        self.root()
        build = self.build(1)
        self.assertIn("no virtual device is like this", self.simulate(build, "--target", 'os == "amiga"', check=False))
        self.assertIn("neither --where, --first-device, --bad nor --fault goes with it", self.simulate(build, "--where", "os == ios", check=False))
        self.assertIn("--target, line 1, column 4", self.simulate(build, "--target", "os = 1", check=False))

    def test_a_draft_is_refused_before_anything_is_made(self):
        self.root()
        build, draft = self.build(1), self.path("draft.json")
        self.start(build, "--draft", draft)
        first = self.waiting(build)
        run = self.stack.walle("rollout", "submit", draft, check=False)
        self.assertEqual((run.returncode, "release_counter 1 is not above the task's 1" in run.stderr), (4, True), run.stderr)
        run = self.stack.walle("rollout", "start", TASK, "--build", build, "--key", self.path("stranger.key"), "--stages",
                               self.path("stages.json"), check=False)
        self.assertEqual((run.returncode, "stage full is signed by 0 of the 1 release keys that root 1 asks for; the key with the SHA-256 " in run.stderr), (4, True))
        self.assertIn("is not of its release role", run.stderr)
        self.assertNotIn("simulating", run.stderr, "nothing is run for what cannot be")
        self.assertEqual([item["id"] for item in self.stack.api("/api/v1/rollouts")[1]["items"]], [first])

    def test_without_a_root_the_settings_name_the_key(self):
        build = self.build(1)
        rollout = self.waiting(build)
        file = self.simulate(build, root=False)
        self.refused(rollout, file, "is none of rollout.evidence_keys")
        with open(self.path("ci.key.pub"), encoding="ascii") as key:
            self.stack.gateway.stop()
            self.stack.restart_gateway("--set", "rollout.tick_ms=50", "--set", "rollout.evidence_keys=" + key.read().strip())
        self.stack.walle("rollout", "simulation", rollout, "--evidence", file)
        self.await_stage(rollout, "full")
        self.assertIn("simulating the version", self.start(self.build(2)).stderr)

    def test_typed_numbers_need_two_people(self):
        self.root()
        rollout = self.waiting(self.build(1), "--by", "ana")
        numbers = ("rollout", "simulation", rollout, "--completed", "50", "--failed", "1")
        for arguments, code, text in ((numbers, 2, "--evidence FILE is needed"), ((*numbers, "--override"), 2, "--override needs --reason")):
            run = self.stack.walle(*arguments, check=False)
            self.assertEqual((run.returncode, text in run.stderr), (code, True), run.stderr)
        status, problem = self.stack.api(f"/api/v1/rollouts/{rollout}/simulation", "POST", {"completed": 50, "failed": 1})
        self.assertEqual((status, "override" in problem["detail"]), (400, True), problem)
        run = self.stack.walle("rollout", "promote", rollout, "--reason", "in a hurry", check=False)
        self.assertEqual((run.returncode, "the simulate stage has no result" in run.stderr), (4, True), run.stderr)
        bo, cleo = (self.stack.walle("token", "new", "--name", name, "--role", "approver").stdout.strip() for name in ("bo", "cleo"))
        run = self.stack.walle(*numbers, "--override", "--reason", "ran on the bench", "--token", bo)
        self.assertIn("walle rollout approve", run.stderr)
        self.assertEqual((self.view(rollout)["simulation"]["source"], self.view(rollout)["stage"]["name"]), ("override_pending", "simulate"))
        self.assertEqual(self.stack.walle("rollout", "promote", rollout, check=False).returncode, 4)
        for who in (("--by", "another name"), ("--token", bo)):  # who made the rollout, who typed the numbers
            run = self.stack.walle("rollout", "approve", rollout, *who, check=False)
            self.assertEqual((run.returncode, "another person has to approve" in run.stderr), (4, True), run.stderr)
        self.assertIn("NOT APPROVED YET: ran on the bench", self.stack.walle("rollout", "status", rollout).stdout)
        self.assertIn("Another person than bo approves", self.stack.walle("rollout", "explain", rollout).stdout)
        self.stack.walle("rollout", "approve", rollout, "--token", cleo)
        self.await_stage(rollout, "full")
        self.assertIn("as typed by bo, approved by cleo: ran on the bench", self.stack.walle("rollout", "status", rollout).stdout)
        log = self.stack.walle("rollout", "log", rollout).stdout
        self.assertIn("override, to be approved: 50 completed, 1 failed: ran on the bench", log)
        self.assertIn("override of bo approved (50 completed, 1 failed): ran on the bench", log)
        audit = self.stack.walle("audit", "tail", "-o", "json").stdout
        self.assertIn("override_pending", audit)
        self.assertIn("ran on the bench", audit)
        self.stack.walle("rollout", "replay", rollout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
