"""Tasks in git: scenario = repository, task = branch, version = tag; work trees and bare repositories, shared files, refusals."""
import json
import os
import subprocess
import unittest

from walle_stack import Stack

TASK = {"entry": "task", "files": ["task.py"]}
ENVIRONMENT = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "ana",
               "GIT_AUTHOR_EMAIL": "ana@example.com", "GIT_COMMITTER_NAME": "ana", "GIT_COMMITTER_EMAIL": "ana@example.com"}


class TaskGit(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway()
        self.shop = self.stack.path("shop")
        self.git("init", "-q", "-b", "page-view", self.shop, at=".")
        self.commit("1")
        self.git("tag", "v1.0.0")

    def git(self, *arguments, at=None):
        run = subprocess.run(["git", "-C", at or self.shop, *arguments], capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout.strip()

    def commit(self, value, task=None, more=None):
        files = {"task.json": json.dumps(task or TASK), "task.py": f"import walle\nwalle.result({value})\n", **(more or {})}
        for name, text in files.items():
            path = os.path.join(self.shop, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "change " + value)

    def json(self, *arguments):
        return json.loads(self.stack.walle(*arguments, "-o", "json").stdout)

    def refused(self, text, *arguments, code=5):
        run = self.stack.walle(*arguments, check=False)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        self.assertIn(text, run.stderr)

    def test_branch_and_tag_name_the_version(self):
        pushed = self.json("task", "push", self.shop, "--tag", "v1.0.0")
        self.assertEqual((pushed["name"], pushed["version"]), ("shop/page-view", "1.0.0"))
        self.assertEqual(pushed["uploaded"], 2)
        # What was committed counts, not what lies in the work tree.
        with open(os.path.join(self.shop, "task.py"), "w", encoding="utf-8") as file:
            file.write("no python at all (\n")
        again = self.json("task", "push", self.shop, "--tag", "v1.0.0")
        self.assertEqual((again["manifest"], again["uploaded"]), (pushed["manifest"], 0))
        tasks = self.json("task", "list")["items"]
        self.assertEqual([task["name"] for task in tasks], ["shop/page-view"])
        # Anybody can build the same from a clone, and see that it is what the gateway has.
        bare = self.stack.path("clone.git")
        self.git("clone", "-q", "--bare", self.shop, bare, at=".")
        verified = self.json("task", "verify", bare, "--tag", "v1.0.0", "--scenario", "shop", "--registered")
        self.assertEqual(verified["manifest"], pushed["manifest"])
        self.refused("404", "task", "verify", bare, "--tag", "v1.0.0", "--registered", code=4)  # scenario "clone"

    def test_dry_run_changes_nothing(self):
        plan = self.json("task", "push", self.shop, "--tag", "v1.0.0", "--dry-run")
        self.assertEqual(sorted(plan["lacking"]), ["manifest", "task.mpy"])
        self.assertEqual(self.json("task", "list")["items"], [])
        self.json("task", "push", self.shop, "--tag", "v1.0.0")
        self.assertEqual(self.json("task", "push", self.shop, "--tag", "v1.0.0", "--dry-run")["lacking"], [])

    def test_several_branches(self):
        self.git("branch", "checkout-view")
        self.refused("2 branches have the tagged commit", "task", "push", self.shop, "--tag", "v1.0.0")
        self.assertEqual(self.json("task", "push", self.shop, "--tag", "v1.0.0", "--branch", "checkout-view")["name"],
                         "shop/checkout-view")
        self.commit("2")
        self.git("tag", "-a", "page-view/v1.1.0", "-m", "annotated")
        built = self.json("task", "build", self.shop, "--tag", "page-view/v1.1.0", "--out", self.stack.path("b"))
        self.assertEqual((built["name"], built["version"]), ("shop/page-view", "1.1.0"))
        with open(self.stack.path("b", "build.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["commit"], self.git("rev-parse", "HEAD"))
        self.git("tag", "v1.1.1")  # only the tip of one branch
        self.assertEqual(self.json("task", "push", self.shop, "--tag", "v1.1.1")["name"], "shop/page-view")

    def test_shared_files_and_subfolders(self):
        self.git("checkout", "-q", "-b", "shared")
        self.commit("0", more={"words/words.bin": "one two three"})
        self.git("tag", "shared/v3.0.0")
        self.git("checkout", "-q", "page-view")
        task = {"entry": "task", "name": "page-view", "version": "2.0.0",
                "files": ["task.py", {"name": "words.bin", "from": "shared/v3.0.0", "path": "words/words.bin"}]}
        self.commit("2", more={"tasks/view/task.json": json.dumps(task), "tasks/view/task.py": "import walle\n"})
        self.git("tag", "v2.0.0")
        built = self.json("task", "build", self.shop, "--tag", "v2.0.0", "--folder", "tasks/view", "--out", self.stack.path("b"))
        self.assertEqual(built["files"], 2)
        self.json("task", "verify", self.stack.path("b"))
        self.refused("build from git", "task", "build", os.path.join(self.shop, "tasks/view"), "--out", self.stack.path("c"))

    def test_refusals(self):
        push = ("task", "push", self.shop, "--tag")
        self.refused("there is no tag 'v9.9.9'", *push, "v9.9.9")
        self.refused("there is none, or it lacks", *push, "v1.0.0", "--branch", "nowhere")
        self.git("tag", "release-one")
        self.refused("does not end in a semantic version", *push, "release-one")
        self.refused("is no folder", "task", "push", self.stack.path("nothing"), "--tag", "v1.0.0")
        self.refused("inside the repository", *push, "v1.0.0", "--folder", "../other")
        self.refused("no task name", *push, "v1.0.0", "--scenario", "NO NAME")
        self.refused("--version does not go with it", "task", "build", self.shop, "--tag", "v1.0.0", "--version", "2.0.0", "--out",
                     self.stack.path("b"), code=2)
        self.refused("go with --tag", "task", "push", self.shop, "--branch", "x", code=2)
        self.refused("build it first", "task", "push", self.shop)
        cases = [({**TASK, "name": "another"}, "\"name\" is not"), ({**TASK, "version": "7.0.0"}, "\"version\" is not"),
                 ({**TASK, "files": ["task.py", {"name": "x", "path": "../../x"}]}, "outside the repository"),
                 ({**TASK, "files": ["task.py", {"name": "x", "path": "/etc/hostname"}]}, "outside the repository"),
                 ({**TASK, "files": ["task.py", {"name": "x", "from": "v0.0.1"}]}, "there is no tag"),
                 ({**TASK, "files": ["task.py", {"name": "x", "from": "v1.0.0"}]}, "has no file 'x'"),
                 ({**TASK, "files": ["task.py", "bad.onnx"]}, "bad.onnx: ")]
        for number, (task, text) in enumerate(cases):
            self.commit(str(number), task, {"bad.onnx": "this is no model"})
            self.git("tag", f"v3.0.{number}")
            self.refused(text, *push, f"v3.0.{number}")
        os.symlink("/etc/passwd", os.path.join(self.shop, "link"))
        self.commit("8")
        self.git("tag", "v4.0.0")
        self.refused("symbolic link", *push, "v4.0.0")

    def test_a_damaged_build_does_not_verify(self):
        self.json("task", "build", self.shop, "--tag", "v1.0.0", "--out", self.stack.path("b"))
        blobs = self.stack.path("b", "blobs")
        for name in os.listdir(blobs):
            with open(os.path.join(blobs, name), "ab") as file:
                file.write(b"x")
        self.refused("does not match its name", "task", "verify", self.stack.path("b"))


if __name__ == "__main__":
    unittest.main()
