"""The command `walle` and curl against a real gateway: a task from its folder to a rollout and back."""
import json
import os
import pty
import re
import subprocess
import unittest

from walle_stack import SOURCE, Stack, program, wait_until

STAGES = [{"name": "simulate", "kind": "simulate", "min_sample": 5, "max_failure": 0.1},
          {"name": "gray", "kind": "gray", "percent": 10, "min_sample": 5, "max_failure": 0.1},
          {"name": "full", "kind": "full", "min_sample": 5, "max_failure": 0.1}]


class Gateway(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway()

    def walle(self, *arguments, code=0):
        run = self.stack.walle(*arguments, check=False)
        self.assertEqual(run.returncode, code, f"{arguments}\n{run.stdout}{run.stderr}")
        return run

    def json(self, *arguments, code=0):
        return json.loads(self.walle(*arguments, "-o", "json", code=code).stdout)

    def build(self, name="v1", version="1.0.0"):
        self.walle("task", "build", os.path.join(SOURCE, "conf/tasks/ipv"), "--out", self.stack.path(name), "--version", version)
        return self.stack.path(name)

    def start(self, build, *arguments, stages=None, code=0):
        if not os.path.exists(self.stack.path("key")):
            self.walle("key", "new", "--out", self.stack.path("key"))
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(stages or STAGES, file)
        return self.json("rollout", "start", "ipv", "--build", build, "--key", self.stack.path("key"), "--stages",
                         self.stack.path("stages.json"), *arguments, code=code)

    def override(self, rollout, completed, failed):
        """Numbers in place of evidence: one person types them, another approves."""
        self.walle("rollout", "simulation", rollout, "--override", "--completed", str(completed), "--failed", str(failed), "--reason", "a test",
                   "--by", "typist")
        second = self.walle("token", "new", "--name", "second", "--role", "approver").stdout.strip()
        self.walle("--token", second, "rollout", "approve", rollout)

    def state(self, rollout):
        run = self.stack.walle("rollout", "status", rollout, "-o", "json", check=False)
        return json.loads(run.stdout), run.returncode

    def wait_state(self, rollout, wanted):
        return wait_until(lambda: next((r for r in [self.state(rollout)] if r[0]["state"] == wanted), None),
                          what=f"state {wanted}")

    def on_terminal(self, *arguments):
        """What the command draws when its output is a terminal."""
        master, slave = pty.openpty()
        process = subprocess.Popen([program("walle"), *arguments], stdin=slave, stdout=slave, stderr=slave,
                                   env={**os.environ, "WALLE_GATEWAY": self.stack.gateway.url})
        os.close(slave)
        drawn = b""
        try:
            while chunk := os.read(master, 65536):
                drawn += chunk
        except OSError:
            pass  # the other side is closed: the end
        os.close(master)
        process.wait(60)
        return drawn.decode()

    def test_from_folder_to_rollout(self):
        build = self.build()
        first = self.json("task", "push", build)
        self.assertEqual(first["uploaded"], 4)  # three scripts and the manifest
        self.assertEqual(self.json("task", "push", build)["uploaded"], 0)
        second = self.build("v1b", "1.0.1")
        self.assertEqual(self.json("task", "push", second)["uploaded"], 1)  # the scripts are there already
        task = self.json("task", "get", "ipv")
        self.assertEqual(sorted(v["version"] for v in task["versions"]), ["1.0.0", "1.0.1"])
        self.assertIsNone(task["baseline"])
        self.assertEqual([t["name"] for t in self.json("task", "list")["items"]], ["ipv"])

        draft = self.start(build, "--no-start", "--reason", "first", "--by", "ana")
        self.assertEqual((draft["state"], draft["release_counter"], draft["version"]), ("draft", 1, "1.0.0"))
        self.assertEqual(self.state(draft["id"])[1], 0)
        status, _ = self.stack.api(f"/api/v1/rollouts/{draft['id']}/start", "POST", {})
        self.assertEqual(status, 200)

        self.override(draft["id"], 50, 0)
        wait_until(lambda: self.state(draft["id"])[0]["stage"]["name"] == "gray", what="the gray stage")
        self.assertIn("paused", self.walle("rollout", "pause", draft["id"], "--reason", "look").stdout)
        self.walle("rollout", "pause", draft["id"], code=4)
        self.walle("rollout", "resume", draft["id"])
        self.assertIn("full", self.walle("rollout", "promote", draft["id"]).stdout)
        self.walle("rollout", "abort", draft["id"], "--reason", "enough", "--by", "ana")
        rollout, code = self.wait_state(draft["id"], "rolled_back")
        self.assertEqual(code, 1)
        self.walle("rollout", "status", draft["id"], "--watch", "--timeout", "60", code=1)
        self.assertIn("rolled_back", self.on_terminal("rollout", "status", draft["id"], "--watch"))
        log = self.json("rollout", "log", draft["id"])["items"]
        self.assertEqual([line["seq"] for line in log], list(range(1, len(log) + 1)))
        self.assertEqual([line["what"] for line in log if line["kind"] == "command"],
                         ["start", "pause", "resume", "promote", "abort"])
        self.assertEqual([line["by"] for line in log if line["kind"] == "simulation"], ["typist", "second"])
        self.assertEqual([line["comment"] for line in log if line["what"] == "abort"], ["enough"])
        self.assertIn("enough", self.walle("rollout", "log", draft["id"]).stdout)

        # The next release takes the next free counter.
        following = self.start(second)
        self.assertEqual((following["state"], following["release_counter"]), ("running", 2))
        self.assertEqual(len(self.json("rollout", "list")["items"]), 2)
        self.walle("rollout", "status", following["id"], "--watch", "--timeout", "0", code=6)

    def test_a_failed_simulation_is_exit_1(self):
        build = self.build()
        self.walle("task", "push", build)
        rollout = self.start(build)
        self.override(rollout["id"], 50, 49)
        after, code = self.wait_state(rollout["id"], "rolled_back")
        self.assertEqual((code, after["verdict"]), (1, "fail"))
        self.assertEqual(after["counts"]["offered"], 0)

    def test_refusals(self):
        build = self.build()
        self.walle("key", "new", "--out", self.stack.path("key"))
        for arguments, code, text in (
                (("task", "get", "none"), 4, "no such task"),
                (("rollout", "status", "0000000000000001"), 4, "no such rollout"),
                (("rollout", "status", "1"), 4, "no rollout begins with 1"),
                (("rollout", "status", "x1"), 2, "'x1' names no rollout: that takes 16 lower-case hex digits"),
                (("device", "get", "0123456789abcdef"), 4, "no such device"),
                (("rollout", "start", "ipv", "--build", build, "--key", self.stack.path("key")), 4, "no such task"),
                (("rollout", "start", "ipv", "--version", "1.0.0", "--key", self.stack.path("key")), 4, "no such task"),
                (("rollout", "start", "other", "--build", build, "--key", self.stack.path("key")), 2, "holds a version of another task than other")):
            run = self.walle(*arguments, code=code)
            self.assertIn(text, run.stderr)
        self.walle("task", "push", build)
        run = self.walle("rollout", "start", "ipv", "--key", self.stack.path("key"), code=2)
        self.assertIn("one of --version X.Y.Z, --build DIR and --manifest SHA256", run.stderr)
        run = self.walle("rollout", "start", "ipv", "--build", build, "--key", self.stack.path("nokey"), code=5)
        self.assertIn("No such file", run.stderr)
        self.assertEqual(self.json("device", "list")["items"], [])
        self.assertEqual(self.json("rollout", "list")["items"], [])
        # A damaged blob is refused with both hashes in sight of the operator.
        other = self.build("v2", "3.0.0")
        with open(os.path.join(other, "manifest"), "rb") as file:
            sha = subprocess.run(["sha256sum"], input=file.read(), capture_output=True, check=True).stdout[:64].decode()
        with open(os.path.join(other, "blobs", sha), "ab") as file:
            file.write(b"x")
        self.assertIn("does not match its name", self.walle("task", "push", other, code=5).stderr)

    def test_dry_run_priorities_and_arms(self):
        plan = self.json("rollout", "plan", "--gateway", self.stack.gateway.url, "--target", 'os == "ios" && user.age in 18..30')
        self.assertEqual([plan["preview"]["devices"], plan["preview"]["matched"]], [0, 0])
        self.assertEqual(len(plan["preview"]["stages"]), len(plan["stages"]))
        self.assertIn("0 of 0 known devices are targeted", self.walle("rollout", "plan", "--gateway", self.stack.gateway.url).stdout)
        self.walle("task", "push", self.build())
        self.walle("task", "push", self.build("v2", "2.0.0"))
        first = self.start(self.stack.path("v1"), "--target", 'os == "ios"')
        second = self.start(self.stack.path("v2"), "--target", 'has(os)', "--priority", "7", "--experiment", "00000000000000aa",
                            "--arm-from", "0", "--arm-to", "25")
        self.assertEqual([first["priority"], first["arm"]], [0, None])
        self.assertEqual([second["priority"], second["arm"]], [7, {"salt": "00000000000000aa", "from": 0, "to": 25}])
        self.assertEqual(self.json("task", "get", "ipv")["open_rollouts"], [second["id"], first["id"]])
        for _ in range(6):
            self.start(self.stack.path("v1"), "--no-start")
        run = self.walle("rollout", "start", "ipv", "--build", self.stack.path("v1"), "--key", self.stack.path("key"), code=4)
        self.assertIn("task ipv has 8 open rollouts", run.stderr)
        run = self.walle("rollout", "start", "ipv", "--build", self.stack.path("v1"), "--key", self.stack.path("key"),
                         "--target", "os == 3 &&", code=2)
        self.assertIn("line 1, column 11: expected an attribute", run.stderr)

    def test_tls_with_and_without_trust(self):
        url = self.stack.gateway.tls_url
        run = self.walle("task", "list", "--gateway", url, "--ca", os.path.join(self.stack.gateway.folder, "cert.pem"))
        self.assertEqual(run.stdout, "")
        self.walle("task", "list", "--gateway", url, "--insecure")
        self.assertIn("--ca FILE", self.walle("task", "list", "--gateway", url, code=3).stderr)

    def test_bearer_token(self):
        secret = "s3cret-of-enough-characters"
        self.stack.secret("token", secret)
        self.stack.gateway.stop()
        self.stack.start_gateway("--set", "admin.token_file=" + self.stack.path("token"))
        self.assertIn("401", self.walle("task", "list", code=4).stderr)
        self.assertIn("401", self.walle("task", "list", "--token", secret[:-1], code=4).stderr)
        self.walle("task", "list", "--token", secret)
        run = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--http2-prior-knowledge",
                              self.stack.gateway.url + "/"], capture_output=True, text=True, timeout=90)
        self.assertEqual(run.stdout, "200", "the page itself holds nothing; what it fetches needs the token")

    def test_console(self):
        run = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-i", self.stack.gateway.url + "/"],
                             capture_output=True, timeout=90)
        head, _, page = run.stdout.decode().partition("\r\n\r\n")
        self.assertIn("HTTP/2 200", head)
        self.assertIn("content-security-policy: default-src 'none'", head)
        self.assertIn("text/html", head)
        self.assertIn("<h2>Rollouts</h2>", page)
        # Self-contained: nothing is fetched from anywhere.
        self.assertEqual(re.findall(r"(?:src|href)\s*=|url\(|@import|https?://", page), [])

    def test_examples_of_the_document_are_true(self):
        build = self.build()
        self.stack.secret("auth", self.stack.bearer)
        with open(os.path.join(SOURCE, "docs/API.md"), encoding="utf-8") as file:
            examples = re.findall(r"^curl --http2-prior-knowledge .*$", file.read(), re.M)
        self.assertGreaterEqual(len(examples), 7)
        with open(os.path.join(build, "build.json"), encoding="utf-8") as file:
            built = json.load(file)
        manifest = built["manifest"]
        for blob in [manifest] + [item["sha256"] for item in built["files"]]:
            self.example(next(e for e in examples if "/blobs/" in e).replace("ipv.build", build), {"SHA": blob})
        rollout = None
        for example in examples:
            if "/blobs/" in example:
                continue
            if "/rollouts/" in example and rollout is None:
                rollout = self.start(build)["id"]
            if "/pause" in example:
                after_pause = example
                continue  # before it, the simulate stage has to take its result
            self.example(example.replace("00c0ffee00c0ffee", rollout or ""), {"MANIFEST": manifest})
        self.example(after_pause.replace("00c0ffee00c0ffee", rollout), {})
        self.assertEqual(self.state(rollout)[0]["state"], "paused")

    def example(self, command, env):
        command = command.replace("http://127.0.0.1:8080", self.stack.gateway.url).replace("curl ", "curl -sS --fail-with-body ", 1)
        run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, env={**os.environ, **env},
                             cwd=self.stack.folder)
        self.assertEqual(run.returncode, 0, command + "\n" + run.stdout + run.stderr)
        json.loads(run.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
