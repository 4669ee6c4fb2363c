"""Rollouts by name: lists with the newest first, filters, ids by their beginning, and drafts that are started by their id."""
import json
import os
import subprocess
import unittest

from walle_stack import Stack, program

FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 5, "min_dwell_s": 0, "max_failure": 0.5}]
SIMULATED = [{"name": "simulate", "kind": "simulate", "min_sample": 10}, *FULL]
SCRIPT = "import walle\nwalle.result(1)\n"


class RolloutIds(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway()
        self.made = 0

    def draft(self, task="shop/score", stages=FULL):
        self.made += 1
        return self.stack.release(task, self.made, SCRIPT, stages, more=("--no-start",))

    def walle(self, *arguments):
        """As it stands: what other tests start is given options that are not for drafts."""
        return subprocess.run([program("walle"), *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                              env={**os.environ, "WALLE_GATEWAY": self.stack.gateway.url})

    def listed(self, *more):
        return [line.split()[3] for line in self.stack.walle("rollout", "list", *more).stdout.splitlines() if line.startswith("20")]

    def test_the_newest_first(self):
        made = [self.draft() for _ in range(5)]
        self.assertEqual(self.listed(), made[::-1])
        first = self.stack.walle("rollout", "list", "--limit", "2").stdout
        self.assertTrue(first.endswith(f"more: --after {made[3]}\n"), first)
        self.assertRegex(first.splitlines()[0], rf"^20\d\d-\d\d-\d\dT\d\d:\d\dZ shop/score +1\.0\.5 +{made[4]} draft ")
        self.assertEqual(self.listed("--after", made[3], "--limit", "9"), made[2::-1])
        other = self.draft("shop/other")
        self.assertEqual(self.listed("--task", "shop/other"), [other])
        self.walle("rollout", "start", made[2], "--accept-empty")
        self.assertEqual(self.listed("--state", "running"), [made[2]])
        self.assertEqual(self.listed("--state", "draft", "--task", "shop/score"), [made[4], made[3], made[1], made[0]])
        self.assertIn("state is draft, running,", self.walle("rollout", "list", "--state", "open").stderr)

    def test_ids_by_their_beginning(self):
        made = [self.draft() for _ in range(3)]
        shortest = next(size for size in range(1, 17) if sum(id_.startswith(made[0][:size]) for id_ in made) == 1)
        for command in ("status", "explain"):
            self.assertIn(made[0], self.stack.walle("rollout", command, made[0][:shortest]).stdout)
        run = self.walle("rollout", "abort", made[1][:12], "--reason", "not yet")
        self.assertEqual((run.returncode, run.stdout[:16]), (0, made[1]), run.stderr)
        absent = next(digit for digit in "0123456789abcdef" if not any(id_.startswith(digit) for id_ in made))
        run = self.walle("rollout", "status", absent)
        self.assertEqual((run.returncode, run.stderr), (4, f"walle: no rollout begins with {absent}\n"))
        token = self.stack.walle("token", "new", "--name", "vera", "--role", "viewer", "-o", "json")
        id_ = json.loads(token.stdout)["id"]
        self.assertEqual(self.walle("token", "revoke", id_[:10]).returncode, 0)
        hashes = ["ab" + "12" * 31, "ab" + "34" * 31]
        for manifest in hashes:
            self.stack.walle("release", "kill", manifest, "--reason", "made up")
        run = self.walle("release", "unkill", "ab", "--reason", "made up")
        self.assertEqual((run.returncode, run.stderr), (2, f"walle: several killed versions begin with ab: {hashes[0]}, {hashes[1]}\n"))
        self.assertIn(hashes[1], self.stack.walle("release", "unkill", "ab3", "--reason", "made up").stdout)

    def test_a_beginning_that_ends_with_zeros_or_an_a(self):
        """The list is read from just before it: what lies there is none of it, and nothing of it is passed over."""
        low, nine, first, second, third = hashes = ["00" + "1" * 62, "9f" + "f" * 62, "a0" + "0" * 62, "a00" + "1" * 61, "b000" + "7" * 60]
        for manifest in hashes:
            self.stack.walle("release", "kill", manifest, "--reason", "made up")
        for beginning, found in (("00", [low]), ("0", [low]), ("a", [first, second]), ("a00", [first, second]), ("b00", [third])):
            run = self.walle("release", "unkill", beginning, "--reason", "made up")
            if len(found) == 1:
                self.assertEqual((run.returncode, found[0] in run.stdout), (0, True), run.stderr)
                self.stack.walle("release", "kill", found[0], "--reason", "made up")
            else:
                self.assertEqual((run.returncode, run.stderr), (2, f"walle: several killed versions begin with {beginning}: {', '.join(found)}\n"))
        run = self.walle("release", "unkill", "a1", "--reason", "made up")
        self.assertEqual((run.returncode, run.stderr), (4, "walle: no killed version begins with a1\n"))
        self.assertIn(nine, self.stack.walle("release", "kills").stdout)

    def test_a_draft_is_started_by_its_id(self):
        draft = self.draft()
        dry = self.walle("rollout", "start", draft[:12], "--accept-empty", "--dry-run")
        self.assertEqual((dry.returncode, dry.stdout), (0, f"the gateway would start rollout {draft}; nothing was changed\n"))
        self.assertEqual(json.loads(self.walle("rollout", "start", draft, "--accept-empty", "--dry-run", "-o", "json").stdout), {"starts": True})
        self.assertEqual(self.stack.api(f"/api/v1/rollouts/{draft}")[1]["state"], "draft")
        audited = self.stack.walle("audit", "tail").stdout
        self.assertNotIn("/check", audited)
        run = self.walle("rollout", "start", draft, "--accept-empty", "--stages", "x.json")
        self.assertEqual(run.returncode, 2)
        self.assertIn(f"--stages: rollout {draft} is made already", run.stderr)
        run = self.walle("rollout", "start", draft, "--accept-empty", "--reason", "go", "--by", "ana")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue(run.stdout.startswith(f"{draft} running full"), run.stdout)
        for again in ((), ("--dry-run",)):
            run = self.walle("rollout", "start", draft, "--accept-empty", *again)
            self.assertEqual(run.returncode, 4)
            self.assertIn("start: command not allowed in this state (the rollout is running)", run.stderr)
        run = self.walle("rollout", "start", "0000000000000001", "--dry-run")
        self.assertEqual(run.returncode, 4)
        self.assertIn("no such rollout", run.stderr)

    def test_what_refuses_a_draft_refuses_its_dry_run(self):
        draft = self.draft()
        for key in ("root", "other"):
            self.stack.walle("key", "new", "--out", self.stack.path(key + ".key"))
        self.stack.walle("root", "init", "--out", self.stack.path("root.1"), "--key", self.stack.path("root.key"), "--release",
                         self.stack.path("other.key.pub"))
        self.stack.walle("root", "push", self.stack.path("root.1"))
        runs = [self.walle("rollout", "start", draft, *more) for more in (("--dry-run",), ())]
        for run in runs:
            self.assertEqual(run.returncode, 4, run.stdout)
            self.assertIn("keys: stage full is signed by 0 of the 1", run.stderr)
        self.assertEqual(runs[0].stderr, runs[1].stderr)

    def test_a_draft_with_evidence(self):
        draft = self.draft(stages=SIMULATED)
        made_up = self.stack.secret("made-up.json", json.dumps({"evidence": "AAAA"}))
        run = self.walle("rollout", "start", draft, "--accept-empty", "--evidence", made_up, "--dry-run")
        self.assertEqual(run.returncode, 4, run.stdout)
        self.assertIn("evidence: not evidence of a simulation", run.stderr)
        run = self.walle("rollout", "start", draft, "--accept-empty")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(f"walle rollout simulation {draft} --evidence FILE", run.stderr)


if __name__ == "__main__":
    unittest.main()
