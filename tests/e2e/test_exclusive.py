"""Exclusive files, from folders and from git to real devices: each device and each user gets its own, nobody another's."""
import hashlib
import json
import os
import re
import subprocess
import unittest

from walle_stack import Stack, program, wait_until

ADMIN = "a-long-enough-admin-token"
TASK = "taste"
ONE, TWO, THREE, FOUR = (f"{number:016x}" for number in (1, 2, 3, 4))
SCRIPT = """import walle
try:
    import own
    walle.result(own.value)
except ImportError:
    walle.result(0)
"""


class Exclusive(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.secret("admin.token", ADMIN)
        self.stack.start_gateway("--set", "admin.token_file=" + self.stack.path("admin.token"))
        self.walle("key", "new", "--out", self.stack.path("release.key"), token=None)
        with open(self.stack.path("release.key.pub"), encoding="utf-8") as file:
            self.trust = file.read().strip()
        run = self.walle("device", "enroll-token", "--name", "factory")
        self.stack.secret("enrol.token", run.stdout.strip())

    def walle(self, *arguments, code=0, token=ADMIN):
        run = self.stack.walle(*arguments, *(["--token", token] if token else []), check=False)
        self.assertEqual(run.returncode, code, f"walle {arguments}: {run.stdout}{run.stderr}")
        return run

    def json(self, *arguments):
        return json.loads(self.walle(*arguments, "-o", "json").stdout)

    def write(self, folder, files):
        for name, text in files.items():
            path = self.stack.path(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

    def source(self, folder, version, exclusive, required=False, script=SCRIPT):
        """A task whose exclusive files say {"device/ID" or "user/NAME": number}."""
        document = {"name": TASK, "version": version, "entry": "task", "files": ["task.py"],
                    "exclusive": {"path": "exclusive", "required": required}}
        self.write(folder, {"task.json": json.dumps(document), "task.py": script,
                            **{f"exclusive/{subject}/own.py": f"value = {number}\n" for subject, number in exclusive.items()}})
        return self.stack.path(folder)

    def release(self, version, exclusive, **options):
        source, build = self.source("source" + version, version, exclusive, **options), self.stack.path("build" + version)
        built = json.loads(self.walle("task", "build", source, "--out", build, "-o", "json", token=None).stdout)
        self.walle("task", "verify", build, token=None)
        pushed = self.json("task", "push", build)
        self.start(build)
        return built, pushed

    def start(self, build):
        stages = self.stack.path("stages.json")
        with open(stages, "w", encoding="utf-8") as file:
            json.dump([{"name": "full", "kind": "full", "max_failure": 0.99, "min_sample": 1000}], file)
        for rollout in self.json("rollout", "list")["items"]:
            if rollout["state"] not in ("completed", "rolled_back", "aborted"):
                self.stack.walle("rollout", "promote", rollout["id"], "--token", ADMIN, check=False)
        self.walle("rollout", "start", TASK, "--build", build, "--key", self.stack.path("release.key"), "--stages", stages)

    def device(self, device, enrol=True):
        """Runs until all is done; what its last run gave, None when nothing ran."""
        arguments = ["--enroll-token", self.stack.path("enrol.token")] if enrol else []
        run = subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path("device" + device),
                              "--id", device, "--trust", self.trust, "--once", *arguments], capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        results = re.findall(r"^task taste [0-9a-f]{64} ran \d+ us (\S+)$", run.stdout, re.M)
        return results[-1] if results else None

    def credential(self, device):
        with open(self.stack.path("device" + device, "credential"), "rb") as file:
            return file.read()[10:].decode()

    def get(self, path, device, credential):
        arguments = ["-H", "walle-device: " + device] + (["-H", "walle-credential: " + credential] if credential else [])
        run = subprocess.run(["curl", "-sS", "-D", "-", "-o", self.stack.path("body"), "-w", "\n%{http_code}", "--http2-prior-knowledge",
                              "--max-time", "60", *arguments, self.stack.gateway.url + path], capture_output=True, text=True, timeout=90)
        headers, _, status = run.stdout.rpartition("\n")
        with open(self.stack.path("body"), "rb") as file:
            return int(status), file.read(), headers

    def test_devices_and_users_get_their_own(self):
        built, pushed = self.release("1.0.0", {"device/" + ONE: 11, "device/" + TWO: 22, "user/ana": 33, "user/ben": 44})
        self.assertEqual(built["exclusive"]["subjects"], 4)
        self.assertEqual(pushed["uploaded"], 2 + 1 + 4 + 4)
        self.assertEqual(self.device(ONE), "11")
        self.assertEqual(self.device(TWO), "22")
        self.assertEqual(self.device(THREE), "0")
        self.assertEqual(self.device(FOUR, enrol=False), "0")
        # Whose three is, an operator says; it counts from the next version on.
        self.assertIn("belongs to user ana", self.walle("device", "bind", THREE, "--user", "ana").stdout)
        self.assertEqual(self.json("device", "get", THREE)["user"], "ana")
        self.release("1.1.0", {"device/" + ONE: 12, "user/ana": 34, "user/ben": 45})
        self.assertEqual(self.device(ONE), "12")
        self.assertEqual(self.device(TWO), "0")
        self.assertEqual(self.device(THREE), "34")
        self.walle("device", "unbind", THREE)
        self.release("1.2.0", {"device/" + ONE: 13, "user/ana": 35})
        self.assertEqual(self.device(THREE), "0")
        self.assertEqual(self.device(ONE), "13")
        log = self.walle("audit", "tail", "--limit", "200", "-o", "json").stdout
        self.assertIn(f"/api/v1/devices/{THREE}/user", log)

    def test_nobody_gets_anothers(self):
        self.release("1.0.0", {"device/" + ONE: 11, "device/" + TWO: 22})
        build = self.stack.path("build1.0.0")
        self.device(ONE)
        self.device(TWO)
        with open(os.path.join(build, "build.json"), encoding="utf-8") as file:
            root = json.load(file)["exclusive"]["root"]
        one, two = self.credential(ONE), self.credential(TWO)
        status, proof, headers = self.get("/v1/exclusive/" + root, ONE, one)
        self.assertEqual(status, 200)
        self.assertIn("cache-control: private, no-store", headers)
        self.assertIn(ONE.encode(), proof)
        self.assertNotIn(TWO.encode(), proof)
        exclusive = proof[19:51].hex()
        status, manifest, _ = self.get(f"/v1/exclusive/{root}/{exclusive}", ONE, one)
        self.assertEqual((status, manifest[:4]), (200, b"WLX1"))
        file = manifest[-32:].hex()
        status, content, headers = self.get(f"/v1/exclusive/{root}/{file}", ONE, one)
        self.assertEqual((status, hashlib.sha256(content).hexdigest()), (200, file))
        self.assertIn(f'etag: "{file}"', headers)
        for path in (f"{root}/{exclusive}", f"{root}/{file}"):
            self.assertEqual(self.get("/v1/exclusive/" + path, TWO, two)[0], 404)
            self.assertEqual(self.get("/v1/exclusive/" + path, TWO, one)[0], 401)
            self.assertEqual(self.get("/v1/exclusive/" + path, ONE, None)[0], 401)
            self.assertEqual(self.get("/v1/exclusive/" + path, FOUR, None)[0], 401)
        for name in (exclusive, file):
            self.assertEqual(self.get("/v1/blob/" + name, ONE, one)[0], 404)
            self.assertEqual(self.stack.api("/v1/blob/" + name)[0], 404)
        self.walle("device", "revoke", ONE)
        self.assertEqual(self.get("/v1/exclusive/" + root, ONE, one)[0], 403)
        self.assertEqual(self.get(f"/v1/exclusive/{root}/{file}", ONE, one)[0], 403)
        status, text = self.stack.api("/metrics")
        self.assertRegex(text, r"walle_exclusive_refused_total [1-9]")
        # After a restart nothing is different.
        self.stack.gateway.kill()
        self.stack.restart_gateway("--set", "admin.token_file=" + self.stack.path("admin.token"))
        self.assertEqual(self.get("/v1/exclusive/" + root, TWO, two)[0], 200)
        self.assertEqual(self.get(f"/v1/exclusive/{root}/{file}", TWO, two)[0], 404)
        self.assertEqual(self.stack.api("/v1/blob/" + file)[0], 404)

    def test_required_is_not_for_those_without(self):
        self.release("1.0.0", {"device/" + ONE: 11}, required=True)
        self.assertEqual(self.device(ONE), "11")
        self.assertIsNone(self.device(TWO))

        def outcomes():
            shown = self.stack.walle("device", "get", TWO, "--token", ADMIN, check=False)
            return json.loads(shown.stdout)["outcomes"] if shown.returncode == 0 else []
        wait_until(lambda: any("not_applicable" in outcome["states"] for outcome in outcomes()), what="the report on disk")

    def test_builds_say_what_is_wrong(self):
        def refused(text, files, exclusive=None, folder=None):
            self.refusals += 1
            source = self.source(f"bad{self.refusals}", "1.0.0", {"device/" + ONE: 1} if exclusive is None else exclusive)
            self.write(f"bad{self.refusals}", files)
            run = self.walle("task", "build", folder or source, "--out", self.stack.path("bad"), code=5, token=None)
            self.assertIn(text, run.stderr)

        self.refusals = 0
        refused("device xyz: a device is 16 lower-case hex digits", {"exclusive/device/xyz/own.py": ""})
        refused("user -x: a user is", {"exclusive/user/-x/own.py": ""})
        refused("lie in device/ID/ and user/NAME/", {"exclusive/group/a/own.py": ""})
        refused("user ana: the version has a file of this name, too: task.mpy", {"exclusive/user/ana/task.py": ""})
        refused("user ana: ", {"exclusive/user/ana/own.py": "no python ("})
        refused("own.py: line 1", {"exclusive/user/ana/own.py": "no python ("})
        refused("user ana: more than 16 files", {f"exclusive/user/ana/{number}.txt": "x" for number in range(17)})
        refused("user ana: file names are", {"exclusive/user/ana/a b.txt": "x"})
        refused("user ana: own.onnx: ", {"exclusive/user/ana/own.onnx": "this is no model"})
        refused("no such folder", {}, exclusive={})
        os.makedirs(self.stack.path("bad11", "exclusive", "user", "ana"))
        self.source("bad11", "1.0.0", {})
        run = self.walle("task", "build", self.stack.path("bad11"), "--out", self.stack.path("bad"), code=5, token=None)
        self.assertIn("user ana: there is none", run.stderr)
        refused("is {\"path\": FOLDER", {"task.json": json.dumps({"name": TASK, "version": "1.0.0", "entry": "task", "files": ["task.py"],
                                                                  "exclusive": "exclusive"})})

    def test_a_build_is_pushed_once_and_checked(self):
        source = self.source("source", "1.0.0", {"device/" + ONE: 11, "user/ana": 33})
        build = self.stack.path("build")
        self.walle("task", "build", source, "--out", build, token=None)
        plan = self.json("task", "push", build, "--dry-run")
        self.assertEqual(sorted(plan["lacking"]), sorted(["task.mpy", "manifest", "list of exclusive files", "device " + ONE,
                                                          f"device {ONE}: own.mpy", "user ana", "user ana: own.mpy"]))
        self.assertEqual(self.json("task", "push", build)["uploaded"], 7)
        self.assertEqual(self.json("task", "push", build)["uploaded"], 0)
        self.assertEqual(self.json("task", "push", build, "--dry-run")["lacking"], [])
        self.assertEqual(self.json("task", "get", TASK)["versions"][0]["exclusive_subjects"], 2)
        # The next version brings one new file and its exclusive manifest; what is the same is there.
        self.source("source", "1.0.1", {"device/" + ONE: 11, "user/ana": 34})
        self.walle("task", "build", source, "--out", build, token=None)
        self.assertEqual(self.json("task", "push", build)["uploaded"], 1 + 1 + 2)
        for arguments, value in ((["--device", ONE], 11), (["--device", TWO, "--user", "ana"], 34), (["--device", TWO], 0)):
            run = self.walle("task", "run", build, *arguments, token=None)
            self.assertIn(f"result: {value}\n", run.stdout)
        # A build whose list was exchanged, and one whose file was.
        with open(os.path.join(build, "exclusive"), "r+b") as file:
            listed = bytearray(file.read())
            listed[-1] ^= 1
            file.seek(0)
            file.write(listed)
        self.assertIn("not the exclusive files the manifest names", self.walle("task", "verify", build, code=5, token=None).stderr)
        self.walle("task", "build", source, "--out", build, token=None)
        with open(os.path.join(build, "exclusive"), "rb") as file:
            exclusive = file.read()[-36:-4].hex()
        with open(os.path.join(build, "blobs", exclusive), "rb") as file:
            name = file.read()[-32:].hex()
        with open(os.path.join(build, "blobs", name), "ab") as file:
            file.write(b"x")
        self.assertIn("exclusive files of user ana: own.mpy", self.walle("task", "verify", build, code=5, token=None).stderr)

    def test_out_of_git(self):
        environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "ana",
                       "GIT_AUTHOR_EMAIL": "ana@example.com", "GIT_COMMITTER_NAME": "ana", "GIT_COMMITTER_EMAIL": "ana@example.com"}
        shop = self.source("shop", "1.0.0", {"device/" + ONE: 11, "user/ana": 33})
        document = {"entry": "task", "files": ["task.py"], "exclusive": {"path": "exclusive"}}
        self.write("shop", {"task.json": json.dumps(document)})

        def git(*arguments):
            subprocess.run(["git", "-C", shop, *arguments], check=True, capture_output=True, timeout=60, env=environment)
        git("init", "-q", "-b", TASK)
        git("add", "-A")
        git("commit", "-q", "-m", "one")
        git("tag", "v1.0.0")
        pushed = self.json("task", "push", shop, "--tag", "v1.0.0")
        self.assertEqual((pushed["name"], pushed["exclusive"]["subjects"]), ("shop/" + TASK, 2))
        verified = self.json("task", "verify", shop, "--tag", "v1.0.0", "--registered")
        self.assertEqual(verified["manifest"], pushed["manifest"])
        self.write("shop", {"task.json": json.dumps({**document, "exclusive": {"path": "../elsewhere"}})})
        git("commit", "-q", "-a", "-m", "two")
        git("tag", "v1.1.0")
        self.assertIn("outside the repository", self.walle("task", "push", shop, "--tag", "v1.1.0", code=5).stderr)


if __name__ == "__main__":
    unittest.main()
