#!/usr/bin/env python3
"""What somebody meets who goes on from the first rollout: stages of one's own, keys that change hands, a second root.
`walle` refuses what would wait for ever or be lost, and says what is so."""
import json
import os
import subprocess
import unittest

from walle_stack import Stack, program

SCRIPT = "import walle\nwalle.result({})\n"
DOWN = "http://127.0.0.1:1"


def stage(name, kind, **fields):
    return {"name": name, "kind": kind, "percent": 100, "min_sample": 1, "max_failure": 0.5, **fields}


class Farther(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)

    def path(self, name):
        return self.stack.path(name)

    def alone(self, *arguments):
        """Without a gateway, or with one that --gateway names."""
        return subprocess.run([program("walle"), *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)

    def key(self, name):
        run = self.alone("key", "new", "--out", self.path(name + ".key"))
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout.strip()

    def folder(self, **fields):
        folder = self.path("task")
        os.makedirs(folder, exist_ok=True)
        document = {"name": "shop/score", "version": "1.0.0", "entry": "task", "files": ["task.py"], **fields}
        for name, text in {"task.py": SCRIPT, "task.json": json.dumps(document)}.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        return folder

    def pushed(self):
        """A gateway with one version; the build's folder."""
        self.stack.start_gateway("--set", "rollout.tick_ms=50")
        self.key("release")
        build = self.path("build")
        self.stack.walle("task", "build", self.folder(), "--out", build)
        self.stack.walle("task", "push", build)
        return build

    # ---- Stages that nobody can come to

    def test_stages_behind_everybody(self):
        self.pushed()
        everybody, some = stage("all", "full"), stage("wide", "full", audience='os == "ios"')
        for stages, said in (([everybody, stage("again", "full")], "stages[1] (again)"), ([everybody, some], "stages[1] (wide)"),
                             ([some, everybody, stage("tenth", "gray", percent=10)], "stages[2] (tenth)"),
                             ([stage("few", "gray", percent=1), everybody, stage("ours", "beta", audience='channel == "beta"')], "stages[2] (ours)"),
                             ([some, everybody], None), ([some, stage("tenth", "gray", percent=10), everybody], None)):
            file = self.stack.secret("stages.json", json.dumps(stages))
            for command in (("plan",), ("start", "--key", self.path("release.key"), "--dry-run"), ("start", "--key", self.path("release.key"), "--no-start")):
                run = self.stack.walle("rollout", command[0], "shop/score", "--version", "1.0.0", "--stages", file, *command[1:], check=False)
                self.assertEqual(run.returncode, 0 if said is None else 2, run.stderr)
                self.assertEqual(f"walle: {said}: nobody is left to come to it, the full stage all before it takes everybody" in run.stderr, said is not None,
                                 run.stderr)

    # ---- A start that would be refused

    def test_a_dry_run_ends_with_what_is_wrong(self):
        self.pushed()
        file = self.stack.secret("stages.json", json.dumps([stage("all", "full")]))
        for words, code, why in ((("--key", self.path("release.key")), 4, "target: no device is known yet"),
                                 (("--key", self.path("nofile"), "--accept-empty"), 5, f"{self.path('nofile')}: No such file"),
                                 ((), 2, "--key FILE is missing"),
                                 (("--key", self.path("release.key"), "--accept-empty", "--evidence", file), 5, "no evidence in it"),
                                 (("--key", self.path("release.key"), "--accept-empty"), 0, None)):
            run = self.alone("rollout", "start", "shop/score", "--version", "1.0.0", "--stages", file, "--dry-run", "--gateway", self.stack.gateway.url, *words)
            self.assertEqual(run.returncode, code, run.stderr)
            last = run.stdout.splitlines()[-1]
            if why:
                self.assertTrue(last.startswith("it would not start; nothing was made: "), run.stdout)
                self.assertIn(why, last)
            else:
                self.assertTrue(last.startswith("the gateway would start it"), run.stdout)

    def test_a_dry_run_that_has_no_plan_ends_so_too(self):
        self.pushed()
        key = ("--key", self.path("release.key"), "--gateway", self.stack.gateway.url, "--dry-run")
        good = self.stack.secret("stages.json", json.dumps([stage("all", "full")]))
        odd = self.stack.secret("odd.json", json.dumps([stage("all", "full", audience="os =")]))
        for version, file, code, why in (("9.9.9", good, 4, "9.9.9"), ("1.0.0", odd, 2, "stages[0].audience: line 1, column 4")):
            run = self.alone("rollout", "start", "shop/score", "--version", version, "--stages", file, *key)
            self.assertEqual(run.returncode, code, run.stderr)
            last = run.stdout.splitlines()[-1]
            self.assertTrue(last.startswith("it would not start; nothing was made: ") and why in last, run.stdout)
            self.assertIn(last.partition("made: ")[2], run.stderr)
        run = self.alone("rollout", "start", "shop/score", "--version", "1.0.0", "--stages", odd, *key, "-o", "json")
        self.assertEqual((run.returncode, run.stdout), (2, ""))

    # ---- Roots and tokens

    def test_an_older_root_is_not_the_one_that_is_served(self):
        self.stack.start_rooted_gateway()
        self.key("other")
        self.stack.walle("root", "init", "--out", self.path("other.1"), "--key", self.path("other.key"), "--release", self.path("release.key.pub"))
        for number in (2, 3):
            self.stack.walle("root", "rotate", self.path(f"root.{number - 1}"), "--out", self.path(f"root.{number}"), "--key", self.path("root.key"))
            self.stack.walle("root", "push", self.path(f"root.{number}"))
        self.stack.walle("root", "rotate", self.path("other.1"), "--out", self.path("other.2"), "--key", self.path("other.key"))
        self.stack.walle("root", "rotate", self.path("other.2"), "--out", self.path("other.3"), "--key", self.path("other.key"))
        self.stack.walle("root", "rotate", self.path("other.3"), "--out", self.path("other.4"), "--key", self.path("other.key"))
        for number, said in ((1, "root 1, and not the root 1 that it served before"), (3, "another root 3"),
                             (4, "root 4; what follows is root 4, signed by root keys of root 3 (walle root rotate)")):
            run = self.stack.walle("root", "push", self.path(f"other.{number}"), check=False)
            self.assertEqual((run.returncode, run.stdout), (4, ""))
            self.assertIn(f"  {self.stack.gateway.url} serves root 3; {self.path('other')}.{number} is {said}\n", run.stderr)
        self.assertEqual(self.stack.walle("root", "push", self.path("root.1")).stdout, "root 1 is known already, root 3 is the one that is served\n")

    def test_any_number_of_devices(self):
        self.assertIn("0, or without it, any number", self.alone("device", "enroll-token", "--help").stdout)
        self.stack.start_gateway()
        self.stack.walle("device", "enroll-token", "--name", "factory", "--uses", "0")
        tokens = self.stack.api("/api/v1/tokens")[1]
        self.assertIn(0, [token["uses_max"] for token in tokens["items"] if token["name"] == "factory"], tokens)

    # ---- Versions

    def test_versions_as_they_are_typed(self):
        self.pushed()
        file = self.stack.secret("stages.json", json.dumps([stage("all", "full")]))
        for number, typed in enumerate(("1", "01.2.3", "1.0.0.0", "v1.2.3", "2026.01")):
            build = self.path(f"typed{number}")
            run = self.stack.walle("task", "build", self.folder(), "--out", build, "--version", typed)
            self.assertEqual(run.stderr, "walle: the version is 1.2.3: versions have no 'v'\n" if typed[0] == "v" else "")
            with open(os.path.join(build, "build.json"), encoding="utf-8") as about:
                self.assertEqual(json.load(about)["version"], typed.lstrip("v"))
            self.stack.walle("task", "push", build)
            for version in {typed, typed.lstrip("v")}:
                self.stack.walle("rollout", "plan", "shop/score", "--version", version)
                self.stack.walle("rollout", "start", "shop/score", "--version", version, "--stages", file, "--key", self.path("release.key"), "--no-start")
        for typed in ("v", "va", "1.", "1.2.3.4.5", "vv1", ""):
            run = self.alone("task", "build", self.folder(), "--out", self.path("wrong"), "--version", typed)
            self.assertEqual((run.returncode, "is no semantic version" in run.stderr), (5, True), run.stderr)
        self.assertIn("2026.01", self.alone("task", "build", "--help").stdout)

    # ---- Words

    def test_what_is_not_there(self):
        run = self.alone("task", "run", self.path("nodir"))
        self.assertEqual((run.returncode, run.stderr), (5, f"walle: {self.path('nodir')}: no such folder, neither a task's nor a build's\n"))
        run = self.alone("console", "open", "--gateway", DOWN)
        self.assertEqual((run.returncode, "cannot reach" in run.stderr, "TLS" in run.stderr), (3, True, False), run.stderr)
        self.stack.start_gateway()
        build = self.path("build")
        self.stack.walle("task", "build", self.folder(), "--out", build)
        run = self.stack.walle("rollout", "start", "shop/score", "--build", build, "--key", self.path("nokey"), check=False)
        self.assertEqual((run.returncode, f"  walle task push {build} " in run.stderr), (4, True), run.stderr)

    def test_a_draft_is_explained_and_made_once(self):
        self.pushed()
        file = self.stack.secret("stages.json", json.dumps([stage("all", "full")]))
        draft = self.path("draft.json")
        self.stack.walle("rollout", "start", "shop/score", "--version", "1.0.0", "--stages", file, "--key", self.path("release.key"), "--draft", draft)
        rollout = self.stack.walle("rollout", "submit", draft, "--no-start").stdout[:16]
        said = self.stack.walle("rollout", "explain", rollout).stdout
        self.assertIn("Stage all (full, 100 % of the target) is the first; it opens with the start.\n", said)
        run = self.stack.walle("rollout", "submit", draft, check=False)
        self.assertEqual((run.returncode, run.stderr), (4, f"walle: the draft was submitted already: rollout {rollout} is draft\n"))

    def test_rises_as_people_write_them(self):
        said = self.alone("rollout", "plan", "--stages", self.stack.secret("stages.json", json.dumps([stage("few", "gray", percent=1, max_rise=0.01,
                          rule="sequential"), stage("all", "full")])), "--fleet", "100").stdout
        self.assertRegex(said, r"stage few cannot see \+1 points: its \d+ devices show \+100 at best")
        self.assertNotIn("e+", said)

    # ---- Files of keys and roots

    def root(self, *keys):
        words = [word for name in keys for word in ("--key", self.path(name + ".key"))]
        return self.stack.walle("root", "init", "--out", self.path("root.1"), *words, "--release", self.path(keys[0] + ".key.pub"), check=False)

    def test_what_lies_there_is_not_written_over(self):
        self.stack.start_gateway()
        for name in "ab":
            self.key(name)
        self.assertEqual(self.root("a", "b").returncode, 0)
        for name in ("root.2", "c.key.pub"):
            self.stack.secret(name, "kept")
        rotate = self.stack.walle("root", "rotate", self.path("root.1"), "--out", self.path("root.2"), "--key", self.path("a.key"), check=False)
        onto = self.stack.walle("root", "rotate", self.path("root.1"), "--out", self.path("root.1"), "--key", self.path("a.key"), check=False)
        public = self.alone("key", "new", "--out", self.path("c.key"))
        for run, name in ((rotate, "root.2"), (onto, "root.1"), (public, "c.key.pub"), (self.root("a"), "root.1")):
            self.assertEqual((run.returncode, run.stdout, run.stderr), (5, "", f"walle: {self.path(name)} exists already and is not replaced: name another "
                                                                               "file\n"))
        for name in ("root.2", "c.key.pub"):
            with open(self.path(name), encoding="ascii") as file:
                self.assertEqual(file.read(), "kept\n")
        self.assertFalse(os.path.exists(self.path("c.key")))

    # ---- Which root is served

    def test_a_root_that_is_known_already(self):
        self.stack.start_gateway()
        self.key("a")
        self.root("a")
        self.stack.walle("root", "rotate", self.path("root.1"), "--out", self.path("root.2"), "--key", self.path("a.key"))
        for name, says in (("root.1", "root 1 is served"), ("root.1", "root 1 is served"), ("root.2", "root 2 is served"),
                           ("root.1", "root 1 is known already, root 2 is the one that is served")):
            self.assertEqual(self.stack.walle("root", "push", self.path(name)).stdout, says + "\n")

    def test_no_gateway_to_ask_for_its_root(self):
        run = self.alone("root", "show", "--served", "--gateway", DOWN)
        self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (3, "", 2), run.stderr)
        self.assertIn("cannot reach", run.stderr)
        self.assertNotIn("serves no root", run.stderr)

    # ---- Who signs a root

    def test_signatures_of_others(self):
        self.stack.start_gateway()
        public = {name: self.key(name) for name in ("a", "b", "release", "stranger")}
        self.stack.walle("root", "init", "--out", self.path("root.1"), "--key", self.path("a.key"), "--release", self.path("release.key.pub"))
        self.stack.walle("root", "rotate", self.path("root.1"), "--out", self.path("root.2"), "--key", self.path("b.key"), "--member", self.path("b.key.pub"))

        def sign(name, *more):
            return self.alone("root", "sign", self.path("root.2"), "--key", self.path(name + ".key"), *more)

        def signed():
            return json.loads(self.alone("root", "show", self.path("root.2"), "-o", "json").stdout)["signed_by"]
        before = ("--from", self.path("root.1"))
        for name, more in (("stranger", ()), ("stranger", before), ("release", ()), ("release", before), ("a", ())):
            run = sign(name, *more)
            self.assertEqual((run.returncode, run.stdout), (5, ""), run.stderr)
            self.assertEqual(run.stderr, f"walle: --key {public[name][:16]}... is none of the root's keys, which are {public['b'][:16]}..." +
                             ("" if more else "; one of the root before it signs with --from FILE, that root") + "\n")
        run = sign("a", "--from", self.path("root.2"))
        self.assertEqual((run.returncode, run.stderr), (5, f"walle: --from {self.path('root.2')}: root 2, which root 2 does not follow\n"))
        self.assertEqual(signed(), [public["b"]])
        for name, more in (("a", before), ("b", ())):
            self.assertEqual(sign(name, *more).returncode, 0)
        self.stack.walle("root", "push", self.path("root.1"))
        self.stack.walle("root", "push", self.path("root.2"))
        self.assertEqual(self.stack.walle("root", "show", "--served").stdout.splitlines()[-1], "signed by 1 of its root keys")


if __name__ == "__main__":
    unittest.main()
