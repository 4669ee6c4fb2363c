"""What `walle rollout plan`, a dry run and `explain` tell of a rollout: its gates whole, what to do, and afterwards why it ended."""
import json
import os
import pwd
import re
import subprocess
import unittest

import raw_device
from walle_stack import Stack, program, wait_until

FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 5, "min_dwell_s": 0, "max_failure": 0.5}]
SCRIPT = "import walle\nwalle.result(1)\n"


class RolloutWords(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway()

    def walle(self, *arguments):
        return subprocess.run([program("walle"), *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                              env={**os.environ, "WALLE_GATEWAY": self.stack.gateway.url})

    def explained(self, rollout):
        return self.stack.walle("rollout", "explain", rollout).stdout

    # ---- Before

    def test_a_plan_shows_what_its_gates_ask(self):
        stages = [{"name": "gray", "kind": "gray", "percent": 10, "rule": "logrank", "max_rise": 0.01, "min_answered": 0.8, "on_pass": "pause"},
                  {"name": "full", "kind": "full", "on_fail": "hold"}]
        path = self.stack.secret("stages.json", json.dumps(stages))
        said = self.walle("rollout", "plan", "--stages", path).stdout
        self.assertRegex(said, r"stage +kind +share +sample +dwell +failures +answered +rule +on fail +on pass\n")
        self.assertRegex(said, r"gray +gray +10% .* 80% +logrank +roll_back pause\n")
        self.assertRegex(said, r"full +full +100% .* 90% +threshold +hold +advance\n")
        self.assertIn("guarded until nobody is outstanding, for 24 hours at most", said)
        self.assertIn("for 60 seconds at most", self.walle("rollout", "plan", "--guard", "60").stdout)
        self.assertIn("(guard 0)", self.walle("rollout", "plan", "--guard", "0").stdout)

    def test_a_dry_run_as_json_says_whether_it_starts(self):
        rollout = self.stack.release("shop/score", 1, SCRIPT, FULL)
        self.stack.walle("rollout", "abort", rollout, "--reason", "that was one")
        start = ("rollout", "start", "shop/score", "--build", self.stack.path("build1"), "--key", self.stack.path("release.key"), "--stages",
                 self.stack.path("stages.json"), "--dry-run", "-o", "json")
        run = self.walle(*start, "--accept-empty")
        self.assertEqual((run.returncode, json.loads(run.stdout)["starts"]), (0, True), run.stderr)
        run = self.walle(*start)
        self.assertEqual((run.returncode, json.loads(run.stdout)["starts"]), (4, False), run.stderr)
        self.assertNotIn("starts", json.loads(self.walle("rollout", "plan", "-o", "json").stdout))

    def test_what_was_meant_is_asked(self):
        self.stack.release("shop/score", 1, SCRIPT, FULL)
        for command in (("task", "get", "shop/scoer"), ("device", "why", "00000000000000d1", "--task", "shop/scor"), ("task", "get", "b")):
            run = self.walle(*command)
            self.assertEqual(run.returncode, 4, run.stderr)
            self.assertEqual("did you mean shop/score?" in run.stderr, command[-1] != "b", run.stderr)

    def test_a_manifest_by_its_beginning(self):
        rollout = self.stack.release("shop/score", 1, SCRIPT, FULL)
        manifest = self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["manifest"]
        self.stack.walle("rollout", "abort", rollout, "--reason", "that was one")
        other = "f" if manifest[0] != "f" else "e"
        for text, code, word in ((manifest[:9], 0, ""), (other + manifest[1:9], 4, "no version whose manifest begins with"),
                                 ("0x12", 2, "64 hex digits, or the first of them")):
            run = self.walle("rollout", "start", "shop/score", "--manifest", text, "--key", self.stack.path("release.key"), "--stages",
                             self.stack.path("stages.json"), "--accept-empty", "--dry-run")
            self.assertEqual((run.returncode, word in run.stderr), (code, True), run.stderr)

    # ---- Meanwhile

    def test_a_gate_is_explained_whole(self):
        rollout = self.stack.release("shop/score", 1, SCRIPT, [{**FULL[0], "min_answered": 0.75, "execution_timeout_s": 77}])
        said = self.explained(rollout)
        self.assertIn("Its gate (threshold) passes when at least 5 devices completed, 75 % of them answered, 0 s have gone by, and at most 50 % of "
                      "them failed.\nA device has 77 s from its offer to answer.\n", said)
        self.assertIn(f"End the last stage, and the rollout with it, now, its gate unasked: walle rollout promote {rollout}", said)
        self.assertIn(f"walle rollout abort {rollout} --reason TEXT", said)

    # ---- Afterwards

    def test_what_a_person_did_is_named(self):
        rollout = self.stack.release("shop/score", 1, SCRIPT, FULL)
        self.stack.walle("rollout", "promote", rollout, "--reason", "a hotfix", "--by", "ana")
        for said in (self.stack.walle("rollout", "status", rollout).stdout, self.explained(rollout)):
            self.assertRegex(said, "[Vv]erdict none: an operator promoted it")
            self.assertNotIn("no_data", said)
        said = self.explained(rollout)
        self.assertRegex(said, r"It completed 20\S+Z, in stage full: an operator promoted it, by ana: a hotfix\.\n")
        self.assertIn(f"walle rollout undo {rollout} --reason TEXT", said)
        self.stack.walle("rollout", "undo", rollout, "--reason", "sales fell")
        wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["state"] == "rolled_back", what="the way back")
        said = self.explained(rollout)
        self.assertRegex(said, r"It went back 20\S+Z, in stage full: an operator took it back, by \S+: sales fell\.\n")
        self.assertNotIn("walle rollout abort", said)

    def test_who_acts_is_named_without_user(self):
        rollout = self.stack.release("shop/score", 1, SCRIPT, FULL)
        env = {name: value for name, value in os.environ.items() if name != "USER"}
        subprocess.run([program("walle"), "rollout", "pause", rollout], env={**env, "WALLE_GATEWAY": self.stack.gateway.url}, timeout=120,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        try:
            name = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            name = f"uid {os.getuid()}"
        log = self.stack.walle("rollout", "log", rollout).stdout.splitlines()
        self.assertRegex(next(line for line in log if " pause " in line), rf"by (\S+ \()?{name}\)?$")

    def test_the_audit_log_names_the_task(self):
        rollout = self.stack.release("shop/score", 1, SCRIPT, FULL)
        self.stack.walle("rollout", "pause", rollout, "--reason", "look")
        log = self.stack.walle("audit", "tail").stdout.splitlines()
        for path in ("/api/v1/rollouts", f"/api/v1/rollouts/{rollout}/pause"):
            line = next(line for line in log if f" POST {path} " in line)
            self.assertIn(f" POST {path} of shop/score", line)

    def test_why_it_failed_is_kept(self):
        stages = [{**FULL[0], "min_sample": 3, "max_failure": 0, "execution_timeout_s": 2}]
        rollout = self.stack.release("shop/score", 1, SCRIPT, stages, more=("--trust-unproven",))
        with raw_device.Requests(self.stack.gateway.ports["h2c"]) as requests:
            requests.settle([requests.checkin(device, raw_device.profile()) for device in (1, 2, 3)])
        wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["state"] == "rolled_back", what="the way back")
        said = self.explained(rollout)
        found = re.search(r"It went back 20\S+Z, in stage full: (.*)\.\n", said)
        self.assertIsNotNone(found, said)
        self.assertEqual(found.group(1), "failure ratio over the gate (100.00 % of 3 completed had failed)")


if __name__ == "__main__":
    unittest.main()
