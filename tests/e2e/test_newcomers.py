"""What somebody meets who does it for the first time and gets something wrong: names, numbers, keys, tokens, limits. The program refuses it
where it is done and says what is wrong in words, not later, not in a dump, and never with 'passed'."""
import json
import os
import resource
import subprocess
import unittest

import raw_device
from walle_stack import Stack, program, wait_until

FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.5}]
SCRIPT = "import walle\nwalle.result(1)\n"
DEVICE = "00000000000000d1"


class Newcomers(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway()
        self.keys("release")

    def keys(self, *names):
        for name in names:
            if not os.path.exists(self.stack.path(name + ".key")):
                self.stack.walle("key", "new", "--out", self.stack.path(name + ".key"))

    def build(self, number, name="shop/score", script=SCRIPT):
        source, build = self.stack.path(f"source{number}"), self.stack.path(f"build{number}")
        os.mkdir(source)
        with open(os.path.join(source, "task.json"), "w", encoding="utf-8") as file:
            json.dump({"name": name, "version": f"1.0.{number}", "entry": "task", "files": ["task.py"]}, file)
        with open(os.path.join(source, "task.py"), "w", encoding="utf-8") as file:
            file.write(script)
        return build, self.stack.walle("task", "build", source, "--out", build, check=False)

    def device(self, *arguments, **options):
        return subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path("device"), "--id",
                               DEVICE, "--trust", self.stack.path("release.key.pub"), "--enroll-token", self.stack.enroll_token, "--once",
                               *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, **options)

    # ---- Names and numbers

    def test_names_of_tasks(self):
        bad = ("a/../../b", "a//b", "a/", "/a", "a/./b", "..", "a/.git")
        for number, name in enumerate(bad):
            with self.subTest(name=name):
                status, body = self.stack.api("/api/v1/tasks", "POST", {"name": name})
                self.assertEqual(status, 400, body)
                self.assertRegex(body["detail"], "name: it (has a part|does not begin)")
                _, run = self.build(number, name)
                self.assertNotEqual(run.returncode, 0)
                self.assertRegex(run.stderr, 'name ".*": it (has a part|does not begin)')
        self.assertEqual(self.stack.api("/api/v1/tasks", "POST", {"name": "a/b.c/-d"})[0], 201)

    def test_a_version_with_v(self):
        """Git tags have it; it is found all the same."""
        rollout = self.stack.release("shop/score", 1, SCRIPT, FULL)
        self.assertTrue(rollout)

        def start(version):
            run = self.stack.walle("rollout", "start", "shop/score", "--version", version, "--key", self.stack.path("release.key"),
                                   "--stages", self.stack.path("stages.json"), check=False)
            self.assertEqual(run.returncode, 0 if version == "v1.0.1" else 4, run.stderr)
            return run.stderr
        self.assertNotIn("push it first", start("v1.0.1"))
        self.assertIn("push it first", start("v1.0.2"))
        self.assertIn("push it first", start("1.0.2"))

    # ---- Output

    def test_what_a_script_chose_stays_in_its_line(self):
        build, run = self.build(1, script="raise type('Odd\\nFAKE: all is well\\x1b[31m', (Exception,), {})('one\\ntwo')\n")
        self.assertEqual(run.returncode, 0, run.stderr)
        run = self.stack.walle("task", "run", build, check=False)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertFalse([line for line in run.stdout.splitlines() if line.startswith(("FAKE", "two"))], run.stdout)
        self.assertIn("Odd\\u000aFAKE", run.stdout)
        self.assertNotIn("\x1b", run.stdout)

    def test_output_that_is_cut_says_so(self):
        build, run = self.build(1, script="print('\u20ac' * 10000)\nprint('more')\n")
        self.assertEqual(run.returncode, 0, run.stderr)
        run = self.stack.walle("task", "run", build)
        kept = 16384 // 3 * 3
        self.assertIn("\u20ac" * (kept // 3) + f"\n... {3 * 10000 + 1 + 5 - kept} more bytes were printed\n", run.stdout)
        answer = json.loads(self.stack.walle("task", "run", build, "-o", "json").stdout)
        self.assertEqual((len(answer["output"].encode()), answer["output_cut"]), (kept, 3 * 10000 + 1 + 5 - kept))

    def test_why(self):
        rollout = self.stack.release("shop/score", 1, SCRIPT, FULL)
        self.assertEqual(self.device().returncode, 0)
        wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["state"] == "completed", what="the rollout")
        said = self.stack.walle("device", "why", DEVICE, "--task", "shop/score").stdout
        self.assertIn(f"device {DEVICE} should run 1.0.1 of shop/score", said)
        self.assertIn(f"rollout {rollout} of 1.0.1 completed", said)
        self.assertNotIn("open stage", said)
        told = self.stack.api(f"/api/v1/devices/{DEVICE}/why?task=shop%2Fscore")[1]
        self.assertEqual((told["should_version"], told["rollouts"][0]["version"]), ("1.0.1", "1.0.1"))

    def test_a_root_that_is_refused(self):
        self.keys("a", "b")
        for number, key in ((1, "a"), (2, "b")):
            self.stack.walle("root", "init", "--out", self.stack.path(f"root.{number}"), "--key", self.stack.path(key + ".key"), "--release",
                             self.stack.path("release.key.pub"))
        self.stack.walle("root", "push", self.stack.path("root.1"))
        run = self.stack.walle("root", "push", self.stack.path("root.2"), check=False)
        self.assertNotEqual(run.returncode, 0)
        self.assertRegex(run.stderr, r"refused \(\d+\): .*root: ")
        self.assertNotIn("{", run.stderr)

    def test_the_chmod_of_a_note(self):
        folder = os.path.join(os.environ["XDG_STATE_HOME"], "walle", "gateways")
        path = os.path.join(folder, self.stack.gateway.url.removeprefix("http://"))
        os.chmod(path, 0o644)
        run = self.stack.walle("task", "list", check=False)
        self.assertIn("chmod 600 " + path, run.stderr)

    # ---- A dry run says what the start says

    def start(self, build, *more, stages=FULL, key="release"):
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(stages, file)
        keys = ("--key", self.stack.path(key + ".key")) if key else ()
        return self.stack.walle("rollout", "start", "shop/score", "--build", build, "--stages", self.stack.path("stages.json"), *keys, *more,
                                check=False, reaching=True)

    def assert_both_refuse(self, words, build, *more, **options):
        dry, real = (self.start(build, *more, *last, **options) for last in (("--dry-run",), ()))
        for run in (dry, real):
            self.assertEqual(run.returncode, 4, run.stdout + run.stderr)
            self.assertIn(words, run.stderr)
        self.assertEqual(dry.stderr.splitlines()[-1], real.stderr.splitlines()[-1])

    def test_a_dry_run_is_checked_as_a_start_is(self):
        build, _ = self.build(1)
        self.stack.walle("task", "push", build)
        self.assert_both_refuse("target: no device is known yet", build)
        self.assert_both_refuse("add --accept-empty", build)
        self.keys("a", "stranger")
        self.stack.walle("root", "init", "--out", self.stack.path("root.1"), "--key", self.stack.path("a.key"), "--release",
                         self.stack.path("release.key.pub"))
        self.stack.walle("root", "push", self.stack.path("root.1"))
        self.assert_both_refuse("keys: stage full is signed by 0 of the 1", build, "--accept-empty", key="stranger")
        run = self.start(build, "--accept-empty", "--dry-run", key=None)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("--key FILE is missing", run.stderr)
        self.assertIn("share    sample", run.stdout)  # the plan is shown all the same
        simulated = [{"name": "simulate", "kind": "simulate", "min_sample": 10}, *FULL]
        made_up = self.stack.secret("made-up.json", json.dumps({"evidence": "AAAA"}))
        run = self.start(build, "--accept-empty", "--evidence", made_up, "--dry-run", stages=simulated)
        self.assertEqual(run.returncode, 4, run.stdout + run.stderr)
        self.assertIn("evidence: not evidence of a simulation", run.stderr)
        run = self.start(build, "--accept-empty", "--evidence", made_up, "--dry-run")
        self.assertIn("evidence: the first stage is full, no simulate stage", run.stderr)
        run = self.start(build, "--accept-empty", "--dry-run")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("the gateway would start it; nothing was made", run.stdout)
        self.assertEqual(self.stack.api("/api/v1/rollouts")[1]["items"], [])
        self.assertEqual(self.start(build, "--accept-empty").returncode, 0)
        with open(os.path.join(build, "build.json"), encoding="utf-8") as file:
            self.stack.walle("release", "kill", json.load(file)["manifest"], "--reason", "leaks")
        self.assert_both_refuse("manifest: the version is on the kill list", build, "--accept-empty")

    def test_a_dry_run_of_too_many(self):
        build, _ = self.build(1)
        self.stack.walle("task", "push", build)
        for _ in range(8):
            self.assertEqual(self.start(build, "--accept-empty").returncode, 0)
        self.assert_both_refuse("has 8 open rollouts, the most there may be", build, "--accept-empty")

    # ---- Words

    def test_a_killed_version_is_called_so(self):
        rollout = self.stack.release("shop/score", 1, SCRIPT, FULL)
        self.assertEqual(self.device().returncode, 0)
        state = wait_until(lambda: (view := self.stack.api(f"/api/v1/rollouts/{rollout}")[1])["state"] == "completed" and view, what="the rollout")
        why = ("device", "why", DEVICE, "--task", "shop/score")
        self.assertIn("completed (the baseline)", self.stack.walle(*why).stdout)
        self.assertEqual(self.stack.walle("release", "kills").stdout, "no version is killed\n")
        self.stack.walle("release", "kill", state["manifest"], "--reason", "leaks\naddresses", "--by", "ana")
        self.assertIn("completed (killed): its version was killed", self.stack.walle(*why).stdout)
        for command in (("rollout", "list"), ("rollout", "status", rollout)):
            self.assertIn("completed, killed", self.stack.walle(*command, check=False).stdout, command)
        self.assertIn("Its version was killed", self.stack.walle("rollout", "explain", rollout).stdout)
        self.assertIsNone(json.loads(self.stack.walle("task", "get", "shop/score").stdout)["baseline"])
        said = self.stack.walle("release", "kills").stdout
        self.assertRegex(said, rf"^{state['manifest']}  shop/score 1\.0\.1\n    killed 20\d\d-.*Z by admin \(ana\): leaks\\u000aaddresses\n"
                               rf"    it ended rollout {rollout}\n")
        kill, = json.loads(self.stack.walle("release", "kills", "-o", "json").stdout)["items"]
        self.assertEqual((kill["manifest"], kill["task"], kill["version"], kill["reason"], kill["rollouts"], kill["rollout_count"]),
                         (state["manifest"], "shop/score", "1.0.1", "leaks\naddresses", [rollout], 1))
        self.stack.walle("release", "unkill", state["manifest"], "--reason", "wrong")
        self.assertEqual(self.stack.walle("release", "kills").stdout, "no version is killed\n")
        self.assertIn("completed (the baseline)", self.stack.walle(*why).stdout)

    def test_the_kill_list_has_pages(self):
        names = [f"{number:02x}" * 32 for number in (3, 1, 2)]
        for name in names:
            self.stack.walle("release", "kill", name, "--reason", "made up", "--by", "ana")
        first = self.stack.walle("release", "kills", "--limit", "2").stdout
        self.assertEqual([line[:64] for line in first.splitlines() if line[:2] in ("01", "02", "03")], ["01" * 32, "02" * 32])
        self.assertIn("of no task here", first)
        self.assertIn("not in the timestamp", first)
        self.assertTrue(first.endswith(f"more: --after {'02' * 32}\n"), first)
        self.assertIn("03" * 32, self.stack.walle("release", "kills", "--after", "02" * 32).stdout)
        viewer = self.stack.walle("token", "new", "--name", "vera", "--role", "viewer").stdout.strip()
        self.assertEqual(json.loads(self.stack.walle("release", "kills", "--token", viewer, "-o", "json").stdout)["items"], [],
                         "what is of no task here is shown to who sees all tenants")
        self.assertIn(" vera                 owner vera tenant", self.stack.walle("token", "list").stdout)

    def test_under_way_and_not_answered_in_time(self):
        stages = [{**FULL[0], "min_sample": 5, "max_failure": 1, "execution_timeout_s": 6}]
        rollout = self.stack.release("shop/score", 1, SCRIPT, stages, more=("--trust-unproven",))
        with raw_device.Requests(self.stack.gateway.ports["h2c"]) as requests:
            requests.settle([requests.checkin(device, raw_device.profile()) for device in (1, 2, 3)])

        def said():
            return self.stack.walle("rollout", "status", rollout).stdout
        wait_until(lambda: "3 offered, 0 ok, 0 failed, 3 under way\n" in said(), what="devices under way")
        self.assertEqual(self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["counts"]["under_way"], 3)
        wait_until(lambda: "3 offered, 0 ok, 0 failed, 0 under way, 3 not answered in time\n" in said(), what="their time to be over")
        self.assertNotIn("silent", said())
        explained = self.stack.walle("rollout", "explain", rollout).stdout
        self.assertIn("3 did not answer in time", explained)
        self.assertNotIn("silent", explained)

    # ---- Keys and tokens

    def test_keys_that_the_root_does_not_take(self):
        self.keys("a", "one", "two", "stranger")
        self.stack.walle("root", "init", "--out", self.stack.path("root.1"), "--key", self.stack.path("a.key"), "--release",
                         self.stack.path("one.key.pub"), "--release", self.stack.path("two.key.pub"), "--wide", "2")
        self.stack.walle("root", "push", self.stack.path("root.1"))
        build, _ = self.build(1)
        self.stack.walle("task", "push", build)
        stages = self.stack.path("stages.json")
        with open(stages, "w", encoding="utf-8") as file:
            json.dump(FULL, file)

        def start(*keys):
            arguments = [part for key in keys for part in ("--key", self.stack.path(key + ".key"))]
            return self.stack.walle("rollout", "start", "shop/score", "--build", build, "--stages", stages, *arguments, check=False)
        for keys, count in ((("stranger",), 0), (("one",), 1), (("one", "stranger"), 1)):
            run = start(*keys)
            self.assertNotEqual(run.returncode, 0, run.stdout)
            self.assertIn(f"keys: stage full is signed by {count} of the 2 release keys that root 1 asks for", run.stderr)
        self.assertEqual(self.stack.api("/api/v1/rollouts")[1]["items"], [], "a refused rollout is not there")
        self.assertEqual(start("one", "two").returncode, 0)

    def test_a_fleet_with_a_wrong_token(self):
        wrong = self.stack.secret("wrong.token", "wet_" + "A1b2C3d4" * 5 + "xyz")
        run = subprocess.run([program("walle-fleet-sim"), "run", "--devices", "5", "--gateway", self.stack.gateway.url, "--trust", "00" * 32,
                              "--enroll-token", wrong, "--threads", "1", "--no-live", "--duration", "3", "--real-every", "0", "--out",
                              self.stack.path("fleet")], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        said = run.stdout + run.stderr
        self.assertEqual(run.returncode, 8, said)
        self.assertIn("the gateway refused every enrolment", said)
        self.assertNotIn("\npassed", said)

    def test_examples_of_the_help_enrol(self):
        for command in (("walle-device",), ("walle-fleet-sim",)):
            text = subprocess.run([program(command[0]), "--help"], capture_output=True, text=True, timeout=60).stdout
            self.assertIn("--enroll-token", text.partition("Examples:")[2], command)

    # ---- Descriptors

    def test_too_few_descriptors(self):
        self.stack.release("shop/score", 1, SCRIPT, FULL)

        def limited(soft, hard):
            return self.device(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
        for most in (20, 40, 63):
            run = limited(most, most)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn(f"{most} file descriptors are too few, 64 are needed", run.stderr)
        run = limited(20, 64)  # what it may raise by itself, it does; and that many are enough
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(" ran ", run.stdout)


if __name__ == "__main__":
    unittest.main()
