"""What a kill tells the people around it: who and what in its answer, the rollouts' logs, the audit log and the exit status."""
import json
import subprocess
import unittest

from walle_stack import Stack, program, wait_until

FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 5, "min_dwell_s": 0, "max_failure": 0.5}]
SCRIPT = "import walle\nwalle.result(1)\n"
DEVICE = "00000000000000d1"
NOBODYS = "12" * 32


class KillsTold(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway()

    def completed(self):
        rollout = self.stack.release("shop/score", 1, SCRIPT, [{**FULL[0], "min_sample": 1}])
        subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path("device"), "--id", DEVICE,
                        "--trust", self.stack.path("release.key.pub"), "--enroll-token", self.stack.enroll_token, "--once"],
                       capture_output=True, timeout=120, stdin=subprocess.DEVNULL, check=True)
        view = wait_until(lambda: (now := self.stack.api(f"/api/v1/rollouts/{rollout}")[1])["state"] == "completed" and now,
                          what="the rollout")
        return rollout, view["manifest"]

    def test_of_a_completed_version(self):
        rollout, manifest = self.completed()
        self.assertEqual(self.stack.walle("rollout", "status", rollout).returncode, 0)
        said = self.stack.walle("release", "kill", manifest, "--reason", "leaks", "--by", "ana").stdout
        self.assertEqual(said, f"{manifest} (shop/score 1.0.1) is on the kill list; it ended rollout {rollout}\n")
        status = self.stack.walle("rollout", "status", rollout, check=False)
        self.assertEqual(status.returncode, 1, status.stdout)
        self.assertIn("completed, killed", status.stdout)
        self.assertIn("verdict none: the version was killed", status.stdout)
        self.assertNotIn("pass", status.stdout)
        self.assertEqual(self.stack.walle("rollout", "status", rollout, "--watch", check=False).returncode, 1)
        log = self.stack.walle("rollout", "log", rollout).stdout.splitlines()
        self.assertRegex(log[-1], r"kill +kill +-> completed .* by admin \(ana\): leaks$")
        self.assertIn(" 0 differ", self.stack.walle("rollout", "replay", rollout).stdout)
        self.assertRegex(self.stack.walle("audit", "tail", "--limit", "1").stdout,
                         rf"POST /api/v1/kills of {manifest} \(shop/score 1\.0\.1\) done 201 because: leaks\n$")
        self.assertIn("by admin (ana): leaks", self.stack.walle("release", "kills").stdout)
        # Nobody kills for no reason; who kills it again is told which reason stands, and the log has both.
        for nothing in ("", " \t"):
            for verb in ("kill", "unkill"):
                run = self.stack.walle("release", verb, manifest, "--reason", nothing, check=False)
                self.assertEqual((run.returncode, "--reason TEXT is missing" in run.stderr), (2, True), run.stderr)
            status, answer = self.stack.api("/api/v1/kills", "POST", {"manifest": manifest, "reason": nothing})
            self.assertEqual((status, answer["detail"]), (400, "reason: says nothing"))
        said = self.stack.walle("release", "kill", manifest, "--reason", "and burns", "--by", "bo").stdout
        self.assertRegex(said, rf"^{manifest} \(shop/score 1\.0\.1\) is on the kill list already; it ended rollout {rollout}\n"
                               r"the kill of \S+ by admin \(ana\) stands: leaks\nyour reason is in the audit log\n$")
        audit = self.stack.walle("audit", "tail").stdout
        self.assertRegex(audit, r"done 201 because: leaks\n(.*\n)*.*done 200 because: and burns\n")
        self.assertIn("by admin (ana): leaks", self.stack.walle("release", "kills").stdout)
        said = self.stack.walle("release", "unkill", manifest, "--reason", "no leak").stdout
        self.assertEqual(said, f"{manifest} is on the kill list no more; a baseline again by rollout {rollout}: 1 known device that had it "
                               "goes back to it\n")
        self.assertEqual(self.stack.walle("rollout", "status", rollout).returncode, 0)

    def test_of_a_rollout_that_a_kill_ended(self):
        rollout = self.stack.release("shop/score", 1, SCRIPT, FULL)
        manifest = self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["manifest"]
        self.stack.walle("rollout", "kill", rollout, "--reason", "leaks")
        wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["state"] == "rolled_back", what="its end")
        self.assertIn("rolled_back, killed", self.stack.walle("rollout", "status", rollout, check=False).stdout)
        self.stack.walle("release", "unkill", manifest, "--reason", "no leak")
        status = self.stack.walle("rollout", "status", rollout, check=False)
        self.assertEqual(status.returncode, 1, status.stdout)
        self.assertNotIn(", killed", status.stdout)
        self.assertIn("the version was killed; ", status.stdout)
        said = self.stack.walle("rollout", "explain", rollout).stdout
        self.assertIn("A kill ended it; its version is off the kill list", said)
        self.assertNotIn("no device is to run it", said)

    def test_of_a_version_that_nobody_has(self):
        run = self.stack.walle("release", "kill", NOBODYS, "--reason", "a slip")
        self.assertEqual(run.stdout, NOBODYS + " is on the kill list\n")
        self.assertIn("warning: no release here has it", run.stderr)
        self.assertIn("no device goes back to it", self.stack.walle("release", "unkill", NOBODYS, "--reason", "a slip").stdout)
        self.stack.release("shop/score", 1, SCRIPT, FULL)
        with open(self.stack.path("build1", "build.json"), encoding="utf-8") as file:
            run = self.stack.walle("release", "kill", json.load(file)["manifest"], "--reason", "leaks")
        self.assertEqual(run.stderr, "")

    def test_for_good_is_not_said(self):
        self.assertNotIn("for good", self.stack.walle("rollout", "kill", "--help").stdout)


if __name__ == "__main__":
    unittest.main()
