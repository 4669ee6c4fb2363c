"""The command `walle`: keys, tasks, exit codes and error texts, without a gateway."""
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest

from walle_stack import SOURCE, program

TASK = {"name": "t", "version": "1.0.0", "entry": "t", "files": ["t.py"]}
ID = "0000000000000001"


class Local(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="walle-cli-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def walle(self, *arguments, env=None):
        clean = {key: value for key, value in os.environ.items() if not key.startswith("WALLE_")}
        return subprocess.run([program("walle"), *arguments], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, env={**clean, **(env or {})})

    def task(self, task, source="import walle\n", name="task"):
        os.makedirs(self.path(name), exist_ok=True)
        with open(self.path(name, "task.json"), "w", encoding="utf-8") as file:
            file.write(task if isinstance(task, str) else json.dumps(task))
        with open(self.path(name, "t.py"), "w", encoding="utf-8") as file:
            file.write(source)
        return self.path(name)

    def refused(self, code, text, *arguments, **options):
        run = self.walle(*arguments, **options)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        self.assertIn(text, run.stderr)
        return run

    # ---- words and options

    def test_help_has_examples_for_every_command(self):
        top = self.walle("--help")
        self.assertEqual(top.returncode, 0)
        commands = re.findall(r"^  (\w+) (\w+) .*$", top.stdout, re.M)
        self.assertGreaterEqual(len(commands), 19)
        for group, name in commands:
            run = self.walle(group, name, "--help")
            self.assertEqual(run.returncode, 0, (group, name))
            self.assertIn("Examples:\n  walle " + group + " " + name, run.stdout)
        self.assertEqual(self.walle("task", "--help").returncode, 0)

    def test_completion(self):
        script = self.walle("completion", "bash").stdout

        def complete(*words):
            run = subprocess.run(["bash", "-c", script + f"\nCOMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}\n"
                                  "_walle; echo \"${COMPREPLY[@]}\""], capture_output=True, text=True, timeout=60, check=True)
            return run.stdout.split()

        self.assertIn("rollout", complete("walle", "''"))
        self.assertEqual(complete("walle", "roll"), ["rollout"])
        self.assertEqual(complete("walle", "task", "pu"), ["push"])
        self.assertIn("--dry-run", complete("walle", "task", "push", "--"))
        self.assertNotIn("--dry-run", complete("walle", "task", "list", "--"))
        self.assertIn("complete -c walle", self.walle("completion", "fish").stdout)
        self.assertIn("bashcompinit", self.walle("completion", "zsh").stdout)

    def test_usage_errors(self):
        self.refused(2, "which command?")
        self.refused(2, "no command group 'nonsense'", "nonsense")
        self.refused(2, "no command 'task nonsense'", "task", "nonsense")
        self.refused(2, "walle task list: no option '--bogus'", "task", "list", "--bogus")
        self.refused(2, "BUILD is missing", "task", "push")
        self.refused(2, "'b' is one argument too many", "task", "push", "a", "b")
        self.refused(2, "--out FILE is missing", "key", "new")
        self.refused(2, "--key FILE is missing", "rollout", "start", "t")
        self.refused(2, "--limit takes a whole number", "task", "list", "--limit", "ten")
        self.refused(2, "--limit takes a whole number from 1 to 500", "task", "list", "--limit", "501")
        self.refused(2, "--output is text or json", "task", "list", "-o", "xml")
        self.refused(2, "--gateway takes a URL", "task", "list", "--gateway", "127.0.0.1:1")
        self.refused(2, "--evidence FILE is needed", "rollout", "simulation", ID)
        self.refused(2, "--override needs --reason", "rollout", "simulation", ID, "--override")
        self.refused(2, "--completed N and --failed M", "rollout", "simulation", ID, "--override", "--reason", "r")
        self.refused(2, "--failed is more than --completed", "rollout", "simulation", ID, "--override", "--reason", "r", "--completed", "1",
                     "--failed", "2")
        self.refused(2, "--accept-risk needs --reason", "rollout", "resume", ID, "--accept-risk")

    def test_no_gateway_is_exit_3(self):
        # Port 1 is reserved and closed.
        for url in ("http://127.0.0.1:1", "https://127.0.0.1:1"):
            self.refused(3, "cannot reach " + url, "task", "list", "--gateway", url)
            self.refused(3, "cannot reach " + url, "task", "list", env={"WALLE_GATEWAY": url})
        # The option stands before the words as well.
        self.refused(3, "cannot reach", "--gateway", "http://127.0.0.1:1", "task", "list")

    # ---- keys

    def test_key_new(self):
        run = self.walle("key", "new", "--out", self.path("k"))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"^[0-9a-f]{64}\n$")
        self.assertEqual(stat.S_IMODE(os.stat(self.path("k")).st_mode), 0o600)
        with open(self.path("k.pub"), encoding="utf-8") as file:
            self.assertEqual(file.read(), run.stdout)
        # An independent reader finds the same public key in the file.
        der = subprocess.run(["openssl", "pkey", "-in", self.path("k"), "-pubout", "-outform", "DER"], capture_output=True,
                             check=True).stdout
        self.assertEqual(der[-32:].hex(), run.stdout.strip())
        self.refused(5, "File exists", "key", "new", "--out", self.path("k"))
        other = json.loads(self.walle("key", "new", "--out", self.path("k2"), "-o", "json").stdout)
        self.assertNotEqual(other["public_key"], run.stdout.strip())

    def test_a_key_that_finds_no_room(self):
        def small():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))
        run = subprocess.run([program("walle"), "key", "new", "--out", self.path("small")], capture_output=True, text=True,
                             preexec_fn=small, stdin=subprocess.DEVNULL, timeout=60, check=False)
        self.assertEqual(run.returncode, 5)
        self.assertIn("small: cannot write the key: File too large", run.stderr)
        self.assertFalse(os.path.exists(self.path("small")))

    # ---- tasks

    def test_init_build_run(self):
        self.assertEqual(self.walle("task", "init", self.path("hello")).returncode, 0)
        self.refused(5, "there already", "task", "init", self.path("hello"))
        built = json.loads(self.walle("task", "build", self.path("hello"), "--out", self.path("b"), "-o", "json").stdout)
        self.assertEqual((built["name"], built["version"], built["files"]), ("hello", "0.1.0", 1))
        run = json.loads(self.walle("task", "run", self.path("b"), "-o", "json").stdout)
        self.assertEqual((run["end"], run["result"]), ("finished", {"greeted": True}))
        self.assertIn("hello from 0000000000000001", run["output"])
        self.refused(2, "no task name", "task", "init", self.path("Not A Name"))

    def test_init_in_a_repository(self):
        subprocess.run(["git", "init", "-q", self.path("shop")], check=True)
        self.assertIn("task push", self.walle("task", "init", self.path("shop")).stdout)
        with open(self.path("shop", "task.json"), encoding="utf-8") as file:
            task = json.load(file)
        self.assertTrue({"name", "version"}.isdisjoint(task), task)  # branch and tag say them
        self.assertEqual(task["files"], ["task.py"])

    def blobs(self, build):
        names = {}
        for name in sorted(os.listdir(self.path(build, "blobs"))):
            with open(self.path(build, "blobs", name), "rb") as file:
                names[name] = file.read()
        return names

    def test_build_is_deterministic(self):
        source = os.path.join(SOURCE, "conf", "tasks", "ipv")
        shutil.copytree(source, self.path("elsewhere", "deep"))
        manifests = set()
        for folder, build in ((source, "b1"), (source, "b2"), (self.path("elsewhere", "deep"), "b3")):
            run = self.walle("task", "build", folder, "--out", self.path(build), "-o", "json")
            manifests.add(json.loads(run.stdout)["manifest"])
        self.assertEqual(len(manifests), 1)
        self.assertEqual(self.blobs("b1"), self.blobs("b3"))
        # Blobs are named by content, by somebody else's SHA-256; the manifest is one of them.
        for name in self.blobs("b1"):
            out = subprocess.run(["sha256sum", self.path("b1", "blobs", name)], capture_output=True, text=True, check=True)
            self.assertTrue(out.stdout.startswith(name))
        with open(self.path("b1", "manifest"), "rb") as file:
            self.assertIn(file.read(), self.blobs("b1").values())
        self.assertIn(manifests.pop(), self.blobs("b1"))
        # A version of its own is another version.
        other = json.loads(self.walle("task", "build", source, "--out", self.path("b4"), "--version", "1.0.1", "-o",
                                      "json").stdout)
        self.assertEqual(other["version"], "1.0.1")
        self.assertNotIn(other["manifest"], self.blobs("b1"))

    def test_every_fault_of_a_source_is_named(self):
        cases = [
            ("{\n \"name\": }", "line 2"),
            ("[]", "not an object"),
            ({**TASK, "surprise": 1}, 'unknown key "surprise"'),
            ({key: value for key, value in TASK.items() if key != "name"}, '"name" is missing'),
            ({**TASK, "name": "No Good"}, 'name "No Good"'),
            ({**TASK, "version": "one"}, "no semantic version"),
            ({**TASK, "heap_kib": -1}, '"heap_kib" is a whole number'),
            ({**TASK, "time_ms": 1.5}, '"time_ms" is a whole number'),
            ({**TASK, "config": []}, '"config" is no object'),
            ({**TASK, "config": {"x": "y" * 20000}}, '"config" is'),
            ({**TASK, "files": []}, '"files" is a list of 1 to'),
            ({**TASK, "files": ["other.py"]}, '"t.py" is not among the files'),
            ({**TASK, "files": ["t.py", "t.py"]}, "listed twice"),
            ({**TASK, "files": ["t.py", "gone.bin"]}, "gone.bin: No such file"),
            ({**TASK, "files": ["t.py", {"name": "x", "kind": "odd"}]}, "script, model or data"),
            ({**TASK, "files": ["t.py", {"name": "x", "size": 1}]}, 'files[1]: unknown key "size"'),
            ({**TASK, "files": ["t.py", {"name": "../x", "path": "t.py", "kind": "data"}]}, 'file "../x": its name has a part,'),
            ({**TASK, "files": ["t.py", {"name": "a b.bin", "path": "t.py"}]}, 'file "a b.bin": its name has a character that is none of'),
            ({**TASK, "files": ["t.py", {"name": "h\u00e9.bin", "path": "t.py"}]}, 'its name has a character that is none of'),
            ({**TASK, "files": ["t.py", {"name": "x" * 97, "path": "t.py"}]}, 'its name is not 1 to 96 bytes long'),
            ({**TASK, "files": ["t.py", {"name": "x" * 93 + ".py", "path": "t.py"}]}, 'its name is not 1 to 96 bytes long'),
            ({**TASK, "files": ["t.py", {"name": "t.mpy", "path": "t.py"}]}, 'files "t.py" and "t.mpy" are both t.mpy when built'),
        ]
        for task, text in cases:
            with self.subTest(text):
                self.refused(5, text, "task", "build", self.task(task), "--out", self.path("b"))
        self.refused(5, "t.py: line 2", "task", "build", self.task(TASK, "import walle\nif:\n"), "--out", self.path("b"))
        self.refused(5, "task.json: No such file", "task", "build", self.path("nowhere"), "--out", self.path("b"))
        self.refused(5, "no semantic version", "task", "build", self.task(TASK), "--out", self.path("b"), "--version", "x")
        self.refused(2, "--out DIR is missing", "task", "build", self.task(TASK))
        self.refused(5, "no such folder", "task", "push", self.path("nowhere"))

    def test_failed_run_is_exit_1(self):
        folder = self.task(TASK, "def f():\n    return 1 // 0\nf()\n")
        self.walle("task", "build", folder, "--out", self.path("b"))
        run = self.walle("task", "run", self.path("b"))
        self.assertEqual(run.returncode, 1)
        self.assertIn("ZeroDivisionError", run.stdout)
        self.assertIn("(t.py:2)", run.stdout)

    def test_run_refuses_changed_content(self):
        self.walle("task", "build", self.task(TASK), "--out", self.path("b"))
        for name, content in self.blobs("b").items():
            with open(self.path("b", "blobs", name), "wb") as file:
                file.write(content + b"x")
        self.refused(5, "does not match its name", "task", "run", self.path("b"))

    # ---- plan

    def test_plan(self):
        plan = json.loads(self.walle("rollout", "plan", "-o", "json").stdout)
        self.assertEqual([stage["kind"] for stage in plan["stages"]], ["simulate", "beta", "gray", "gray", "gray", "full"])
        self.assertEqual([stage["percent"] for stage in plan["stages"]], [100, 100, 1, 10, 50, 100])
        with open(self.path("s.json"), "w", encoding="utf-8") as file:
            json.dump([{"name": "half", "kind": "gray", "percent": 50, "min_sample": 7}, {"name": "all", "kind": "full"}], file)
        plan = json.loads(self.walle("rollout", "plan", "--stages", self.path("s.json"), "--min-sample", "9", "--max-failure",
                                     "0.5", "-o", "json").stdout)
        self.assertEqual([stage["min_sample"] for stage in plan["stages"]], [7, 9])
        self.assertEqual(plan["stages"][1]["max_failure"], 0.5)
        target = 'os == "ios" && user.age in 18..30'
        plan = json.loads(self.walle("rollout", "plan", "--target", target, "-o", "json").stdout)
        self.assertEqual(plan["target"], target)
        self.refused(5, "fleet.json: No such file", "rollout", "plan", "--target", "fleet.json")
        self.refused(2, "--min-dwell takes a number from 0 to 2592000", "rollout", "plan", "--min-dwell", "x")
        self.refused(2, "line 1, column 4: '==' is meant", "rollout", "plan", "--target", 'os = "ios"')
        for stages, text in (([{"name": "x", "kind": "gray"}], "stages[0].percent: missing"), ([{"name": "x"}], "stages[0].kind: missing"),
                             ([{"name": "x", "kind": "gray", "percent": 0}], "0.01 to 100"), ([], "1 to 16 stages"),
                             ({"steps": []}, "neither a list"),
                             ([{"name": "x", "kind": "full", "rule": "logrank", "max_rise": 0.1, "retries": {"download": 1}}],
                              "stages[0].retries.download: the rule logrank counts")):
            with open(self.path("s.json"), "w", encoding="utf-8") as file:
                json.dump(stages, file)
            run = self.walle("rollout", "plan", "--stages", self.path("s.json"))
            self.assertIn(run.returncode, (2, 5))
            self.assertIn(text, run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
