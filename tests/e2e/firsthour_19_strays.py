#!/usr/bin/env python3
"""What somebody meets who leaves the tours: a name that nobody declared, a gateway without a root, a version that went back, a key of somebody else.
`walle` says it where it is done, with the line, the rollout or the key, and not a device much later."""
import json
import os
import re
import subprocess
import unittest

from walle_stack import Stack, program

FULL = [{"name": "all", "kind": "full", "percent": 100, "min_sample": 1000, "max_failure": 0.5}]
SCRIPT = "import walle\nwalle.result({})\n"


class Alone(unittest.TestCase):
    """Without a gateway."""

    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)

    def folder(self, scripts, **fields):
        folder = self.stack.path("task")
        os.makedirs(folder, exist_ok=True)
        document = {"name": "shop/score", "version": "1.0.0", "entry": "task", "files": list(scripts), **fields}
        for name, text in {**scripts, "task.json": json.dumps(document)}.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        return folder

    def walle(self, *arguments):
        return subprocess.run([program("walle"), *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)

    def build(self, scripts, **fields):
        return self.walle("task", "build", self.folder(scripts, **fields), "--out", self.stack.path("build"))

    # ---- Uploads

    UPLOADS = [{"name": "spent", "class": "realtime"}, {"name": "visits", "class": "debug"}]

    def test_an_upload_that_is_not_declared(self):
        says = "walle: warning: task.py: line {}: upload '{}' is not declared: \"uploads\" of task.json does not have it, and a device drops what goes there"
        for script, line, name in (("from walle import data\n\ndata.upload('spend', 1)\n", 3, "spend"),
                                   ("import walle\nwalle.data.upload(\n    # what is left\n    \"left-over\", {})\n", 4, "left-over"),
                                   ("import walle as w, math\nif 1:\n    w.data.upload('''others''', 1)\n", 3, "others"),
                                   ("from walle import (nn,\n    data as d,)\nd . upload (u'others' , 1)\n", 3, "others"),
                                   ("def f(x):\n    from walle import data as d\n    return [d.upload('a-longer-name-than-others', y) for y in x]\nf([1])\n", 3,
                                    "a-longer-name-than-others"),
                                   ("import walle\nx = {'d': walle.data}\nwalle.data.upload('oth' 'ers', 1) if x else x['d'].upload('no', 1)\n", 3, "others"),
                                   ("def f(g):\n    yield from g\nfrom walle import *\nx = '''\n#'''; data.upload('others', [\n1])\n", 5, "others")):
            run = self.build({"task.py": script}, uploads=self.UPLOADS)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(run.stderr.count("warning"), 1, run.stderr)
            self.assertIn(says.format(line, name), run.stderr, script)
            self.assertEqual("did you mean 'spent'?" in run.stderr, name == "spend")
            run = self.walle("task", "run", self.stack.path("task"), "-o", "json")
            self.assertIn(says.format(line, name), run.stderr)
        run = self.build({"task.py": "from walle import data\ndata.upload('a', 1)\nimport more\n", "more.py": "from walle import data\ndata.upload('b', 1)\n"})
        self.assertIn("task.py: line 2: upload 'a' is not declared: \"uploads\" of task.json is missing", run.stderr)
        self.assertIn("more.py: line 2: upload 'b'", run.stderr)

    def test_a_build_says_it_when_it_runs(self):
        self.build({"task.py": "from walle import data\nname = 'sp' + 'end'\ndata.upload(name, 1)\ndata.upload('spent', 1)\n"}, uploads=self.UPLOADS)
        run = self.walle("task", "run", self.stack.path("build"))
        self.assertEqual(run.stderr, "walle: warning: upload 'spend' is not declared: \"uploads\" of task.json does not have it, and a device drops what goes "
                                     "there\n")

    def test_names_that_are_declared_or_computed(self):
        for script in ("from walle import data\ndata.upload('spent', 1)\ndata.upload(\"visits\", 2)\n",
                       "from walle import data\nfor n in ('spent', 'visits'):\n    data.upload(n, 1)\n",
                       "from walle import data\ndata.upload('spe' + 'nt', 1)\ndata.upload('spe' 'nt', 1)\ndata.upload('s%s' % 'pent', 1)\n",
                       "from walle import data\ndata.upload('spe\\x6et', 1)\n# data.upload('not', 1)\nx = \"data.upload('not', 1)\"\n",
                       "from walle import data as d\nclass Own:\n    def upload(self, *_): pass\ndata = Own()\ndata.upload('mine', 1)\n",
                       "from walle import data\nclass Own: pass\nown = Own()\nown.data = Own()\nown.data.upload = print\nown.data.upload('mine', 1)\n"):
            run = self.build({"task.py": script}, uploads=self.UPLOADS)
            self.assertEqual((run.returncode, run.stderr), (0, ""), script)
            run = self.walle("task", "run", self.stack.path("task"))
            self.assertEqual((run.returncode, run.stderr), (0, ""), script + run.stdout)

    # ---- A run

    def test_an_input_that_is_no_json(self):
        folder = self.folder({"task.py": "import walle\nwalle.result(walle.input)\n"})
        path = self.stack.path("input.json")

        def run(text):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return self.walle("task", "run", folder, "--input", path, "-o", "json")
        for text, where in (('{"price": 3,\n "item": i-1}\n', "line 2, column 10"), ("[1, 2\n", "line 2, column 0"), ("nothing", "line 1, column 7"),
                            ("{} {}", "line 1, column 4")):
            said = run(text)
            self.assertEqual((said.returncode, said.stdout), (5, ""), text)
            self.assertIn(f"walle: {path}: {where}: ", said.stderr)
        for text, value in (('{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}), ("3", 3), ('"\\u0000"', "\0"), ("", None),
                            ("123456789012345678901", "123456789012345678901")):  # a number that the answer's JSON has no place for
            said = run(text)
            self.assertEqual((said.returncode, said.stderr), (0, ""), text)
            self.assertEqual(json.loads(said.stdout)["result"], value)

    def test_a_run_of_what_events_start(self):
        hint = "walle: the version has triggers: a device runs it once without events, as here, and then for each match; --events FILE plays a recording\n"
        folder = self.folder({"task.py": SCRIPT}, triggers=["enter(item) * exit(item) page"])
        events = self.stack.path("events.jsonl")
        with open(events, "w", encoding="utf-8") as file:
            file.write('{"kind": "click", "page": "p"}\n')
        self.assertEqual(self.walle("task", "run", folder).stderr, hint)
        self.assertEqual(self.walle("task", "run", folder, "--events", events).stderr, "")
        self.assertEqual(self.walle("task", "run", self.folder({"task.py": SCRIPT})).stderr, "")

    # ---- Options

    def test_a_list_of_none(self):
        for most, *command in ((500, "rollout", "list"), (500, "rollout", "log", "0" * 16), (500, "task", "list"), (500, "device", "list"),
                               (500, "release", "kills"), (500, "token", "list"), (500, "audit", "tail"), (1000, "tunnel", "tail")):
            run = self.walle(*command, "--limit", "0", "--gateway", "http://127.0.0.1:1")
            self.assertEqual((run.returncode, run.stderr), (2, f"walle: --limit takes a whole number from 1 to {most}, not '0'\n"), command)

    def test_roles_of_a_token(self):
        said = " ".join(self.walle("token", "new", "--help").stdout.split())
        self.assertRegex(said, "viewer, releaser, approver, admin; enrol")
        run = self.walle("token", "new", "--name", "x", "--gateway", "http://127.0.0.1:1")
        self.assertIn("viewer, releaser, approver, admin or enrol", run.stderr)

    # ---- Numbers of task.json

    def test_the_least_heap(self):
        for heap, fits in ((16, True), (0, True), (65536, True), (15, False), (1, False), (65537, False), ("64", False)):
            run = self.build({"task.py": SCRIPT}, heap_kib=heap)
            self.assertEqual(run.returncode, 0 if fits else 5, run.stderr)
            self.assertEqual(run.stderr, "" if fits else "walle: task.json: \"heap_kib\" is a whole number from 16 to 65536, or 0 for 256\n")


class Gateway(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway("--set", "rollout.tick_ms=50")
        self.key = self.stack.path("release.key")
        self.stack.walle("key", "new", "--out", self.key)
        self.stages = self.stack.secret("stages.json", json.dumps(FULL))
        self.version = 0

    def push(self):
        """The next version of the task."""
        self.version += 1
        source, build = self.stack.path(f"source{self.version}"), self.stack.path(f"build{self.version}")
        os.mkdir(source)
        document = {"name": "shop/score", "version": f"1.0.{self.version}", "entry": "task", "files": ["task.py"]}
        for name, text in (("task.json", json.dumps(document)), ("task.py", SCRIPT)):
            with open(os.path.join(source, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", source, "--out", build)
        self.stack.walle("task", "push", build)

    def start(self, *more, **options):
        return self.stack.walle("rollout", "start", "shop/score", "--version", f"1.0.{self.version}", "--key", self.key, "--stages", self.stages, *more,
                                **options)

    def start_made(self, rollout, *more):
        return subprocess.run(
            [program("walle"), "rollout", "start", rollout, "--gateway", self.stack.gateway.url, "--accept-empty", *more], capture_output=True, text=True,
            timeout=120, stdin=subprocess.DEVNULL, check=True)

    # ---- No root

    def test_a_gateway_that_has_no_root(self):
        """What devices take is not checked there: here they ask for two keys, and one signs."""
        says = (r"walle: warning: \S+ serves no root: whether devices take what these keys sign is not checked\n  walle root init --out root\.1 --key ROOT\.key "
                r"--release RELEASE\.key\.pub makes the one that devices are born with \(--root\), walle root push root\.1 serves it; with --trust none is "
                r"needed\n")
        self.push()
        draft = self.stack.path("draft.json")
        runs = [self.start("--dry-run"), self.start("--draft", draft), self.stack.walle("rollout", "submit", draft, "--no-start")]
        made = runs[-1].stdout[:16]
        runs += [self.start_made(made, "--dry-run"), self.start_made(made)]
        self.push()
        runs.append(self.start())
        for run in runs:
            self.assertEqual(len(re.findall(says, run.stderr)), 1, (run.args, run.stderr))
            self.assertEqual(run.stderr.count("serves no root"), 1, run.stderr)
        for name in ("root.key", "second.key"):
            self.stack.walle("key", "new", "--out", self.stack.path(name))
        self.stack.walle("root", "init", "--out", self.stack.path("root.1"), "--key", self.stack.path("root.key"), "--release", self.key + ".pub", "--release",
                         self.stack.path("second.key.pub"), "--wide", "2")
        subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--dir", self.stack.path("device"), "--id", "00000000000000d1", "--root",
                        self.stack.path("root.1"), "--enroll-token", self.stack.enroll_token, "--once"], capture_output=True, timeout=120,
                       stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(self.stack.api(f"/api/v1/rollouts/{made}")[1]["counts"]["on_version"], 0)
        self.stack.walle("root", "push", self.stack.path("root.1"))
        self.push()
        run = self.start(check=False)
        self.assertEqual(run.returncode, 4, run.stderr)
        self.assertNotIn("serves no root", run.stderr)
        run = self.start("--key", self.stack.path("second.key"))
        self.assertNotIn("root", run.stderr)

    # ---- A version that went back

    def test_a_version_that_went_back(self):
        def says(rollout, why):
            return (rf"walle: warning: rollout {rollout} took this version back: another one brings the same to devices again, and what is to change needs a "
                    rf"version of its own \(walle task push\)\n  It went back 20\S+Z, in stage all: {why}\.\n")
        self.push()
        first = self.start()
        self.assertNotIn("took this version back", first.stderr)
        first = first.stdout[:16]
        self.stack.walle("rollout", "abort", first, "--reason", "wrong model", "--by", "ana")
        aborted = says(first, "an operator aborted it, by ana: wrong model")
        draft = self.stack.path("draft.json")
        runs = [self.stack.walle("rollout", "plan", "shop/score", "--version", "1.0.1"), self.start("--dry-run"), self.start("--draft", draft),
                self.stack.walle("rollout", "submit", draft, "--no-start")]
        runs.append(self.start_made(runs[-1].stdout[:16]))
        for run in runs:
            self.assertEqual(len(re.findall(aborted, run.stderr)), 1, (run.args, run.stderr))
        second = runs[-1].stdout[:16]
        self.stack.walle("rollout", "promote", second)
        self.assertEqual(self.stack.api(f"/api/v1/rollouts/{second}")[1]["state"], "completed")
        self.assertNotIn("took this version back", self.start("--dry-run").stderr, "it completed since")
        self.stack.walle("rollout", "undo", second, "--reason", "sales fell", "--by", "ana")
        self.assertEqual(len(re.findall(says(second, "an operator took it back, by ana: sales fell"), self.start("--dry-run").stderr)), 1)
        self.push()
        self.assertNotIn("took this version back", self.start("--dry-run").stderr, "another version")

    # ---- Words

    def test_a_log_has_no_verdict_where_there_is_none(self):
        self.push()
        rollout = self.start().stdout[:16]
        self.stack.walle("rollout", "abort", rollout, "--reason", "wrong model")
        said = self.stack.walle("rollout", "log", rollout).stdout
        self.assertRegex(said, "abort +-> rolling_back stage 0  none aborted")
        self.assertNotIn("no_data", said)

    # ---- A key of somebody else

    def test_a_root_that_a_stranger_signs(self):
        path = self.stack.path
        public = {}
        for name in ("a", "b", "new", "stranger"):
            public[name] = self.stack.walle("key", "new", "--out", path(name + ".key")).stdout.strip()
        self.stack.walle("root", "init", "--out", path("root.1"), "--key", path("a.key"), "--key", path("b.key"), "--release", self.key + ".pub")
        roots = ", ".join(public[name][:16] + "..." for name in ("a", "b"))
        other = ", ".join(public[name][:16] + "..." for name in ("b", "a"))

        def rotate(*more, check=True):
            return self.stack.walle("root", "rotate", path("root.1"), "--out", path("root.2"), *more, check=check)
        for keys in (("stranger",), ("a", "stranger"), ("new",)):
            run = rotate(*(word for key in keys for word in ("--key", path(key + ".key"))), check=False)
            self.assertEqual((run.returncode, run.stdout), (5, ""), run.stderr)
            self.assertRegex(run.stderr, rf"^walle: --key {public[keys[-1]][:16]}\.\.\. is none of the root's keys, which are ({roots}|{other}); a new one of "
                                         r"them is named with --member, beside those that stay\n$")
            self.assertFalse(os.path.exists(path("root.2")))
        rotate("--key", path("a.key"))
        os.remove(path("root.2"))
        rotate("--key", path("a.key"), "--key", path("b.key"), "--key", path("new.key"), "--member", path("a.key.pub"), "--member", path("new.key.pub"))
        self.assertIn("signed by 2 of its root keys", self.stack.walle("root", "show", path("root.2")).stdout)


if __name__ == "__main__":
    unittest.main()
