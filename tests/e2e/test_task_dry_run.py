#!/usr/bin/env python3
"""`walle task build` tries a version on the task's own samples, as a device runs it: what it took is shown, what fails or is over a limit of its
own is not built, and says file, line, source text, limit and setting. Unknown keys of task.json get their line and what was probably meant."""
import json
import os
import subprocess
import unittest

from walle_stack import SOURCE, Stack, program

EVENTS = [{"kind": kind, "page": "item_detail", "item": "i"} for _ in range(3) for kind in ("enter", "exit")]


class DryRun(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.scratch = self.stack.path("tmp")
        os.mkdir(self.scratch)
        self.build = self.stack.path("build")

    def folder(self, script, beside=None, text=None, **fields):
        """A task of one script, with other files beside it; `text`: task.json as it is."""
        folder = self.stack.path("task")
        task = text or json.dumps({"name": "shop/score", "version": "1.0.0", "entry": "task", "files": ["task.py"], **fields}, indent=1)
        for name, content in {"task.py": script, **(beside or {}), "task.json": task}.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
        return folder

    def walle(self, *arguments, **more):
        return subprocess.run([program("walle"), *arguments], capture_output=True, text=True, timeout=200, stdin=subprocess.DEVNULL, check=False,
                              env={**os.environ, "TMPDIR": self.scratch, **more})

    def built(self, folder, *arguments):
        said = self.walle("task", "build", folder, "--out", self.build, *arguments)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        self.assertEqual(os.listdir(self.scratch), [], "nothing stays behind")
        return said

    def held(self):
        """The build folder's files with their bytes; of none nothing."""
        names = sorted(os.path.relpath(os.path.join(at, name), self.build) for at, _, files in os.walk(self.build) for name in files)
        held = {}
        for name in names:
            with open(os.path.join(self.build, name), "rb") as file:
                held[name] = file.read()
        return held

    def refused(self, folder, *words):
        before = self.held()
        said = self.walle("task", "build", folder, "--out", self.build)
        self.assertEqual(said.returncode, 5, said.stdout + said.stderr)
        for word in words:
            self.assertIn(word, said.stderr)
        self.assertIn("nothing was built; --no-dry-run builds it as it is", said.stderr)
        self.assertEqual(self.held(), before)
        return said

    def line(self, folder, key):
        with open(os.path.join(folder, "task.json"), encoding="utf-8") as file:
            return next(number for number, line in enumerate(file, 1) if f'"{key}"' in line)

    def test_without_samples(self):
        said = self.built(self.folder("x = 1\n"))
        self.assertIn('  dry run: none, the task has no samples: "samples" of task.json lists what to try it with (docs/VM.md)\n', said.stdout)
        report = json.loads(self.built(self.folder("x = 1\n"), "-o", "json").stdout)
        self.assertEqual(report["dry_run"], {"samples": []})
        report = json.loads(self.built(self.folder("1 // 0\n", samples=[{}]), "--no-dry-run", "-o", "json").stdout)
        self.assertIsNone(report["dry_run"])

    def test_what_a_run_took(self):
        """A recording, an input, bytes by name and attributes; all that a run may have is used by one of them."""
        script = ("import walle\nfrom walle import data, store\n\ndef down(n):\n    return n and 1 + down(n - 1)\n\n"
                  "store.put('runs', store.get('runs', 0) + 1)\nif data.events():\n    assert store.get('runs') <= 3\n"
                  "if walle.input:\n    kept = bytearray(walle.input['bytes'])\n    down(walle.input['depth'])\n"
                  "    for i in range(walle.input['loops']):\n        pass\n"
                  "if walle.blobs():\n    assert walle.blob('camera') == b'jpeg' and walle.device['os'] == 'ios'\n")
        files = {"samples/visits.jsonl": "".join(json.dumps(event) + "\n" for event in EVENTS), "samples/frame.jpg": b"jpeg",
                 "samples/phone.json": '{"os": "ios"}', "small.json": '{"bytes": 1, "depth": 1, "loops": 1}',
                 "large.json": '{"bytes": 80000, "depth": 30, "loops": 5000}'}
        folder = self.folder(script, files, heap_kib=128, time_ms=20000, triggers=["exit(item_detail)"], events={"take": "visit"},
                             store={"quota_kib": 1}, samples=[
                                 {"events": "samples/visits.jsonl"}, {"input": "small.json"}, {"input": "large.json"},
                                 {"give": {"camera": "samples/frame.jpg"}, "attrs": "samples/phone.json"}])
        said = self.built(folder, "-o", "json")
        report = json.loads(said.stdout)["dry_run"]
        self.assertEqual((report["isolation"], report["heap_bytes"], report["stack_bytes"], report["time_ms"]), ("process", 131072, 65536, 20000))
        self.assertEqual([sample["sample"] for sample in report["samples"]],
                         ["samples[0] (visits.jsonl)", "samples[1] (small.json)", "samples[2] (large.json)", "samples[3] (frame.jpg)"])
        runs = [sample["runs"] for sample in report["samples"]]
        self.assertEqual([[(run["end"], run["events"]) for run in some] for some in runs],
                         [[("finished", 2)] * 3] + [[("finished", 0)]] * 3)
        small, large = runs[1][0], runs[2][0]
        self.assertGreater(large["heap_peak_bytes"], 80000)
        self.assertLess(small["heap_peak_bytes"], 60000)
        self.assertGreater(large["stack_peak_bytes"], small["stack_peak_bytes"] + 1000)
        self.assertGreater(large["instructions"], small["instructions"] + 5000)
        self.assertGreater(large["duration_us"], 0)
        said = self.built(folder)
        table = [line.split() for line in said.stdout.splitlines() if "samples[" in line]
        self.assertEqual([row[:3] for row in table][::3], [["samples[0]", "(visits.jsonl)", "3"], ["samples[3]", "(frame.jpg)", "1"]])
        self.assertIn(f"{large['heap_peak_bytes'] / 1024:.1f} of 128", said.stdout)
        self.assertIn(f"{large['stack_peak_bytes'] / 1024:.1f} of 64", said.stdout)
        self.assertIn(f" {large['instructions']} ", said.stdout)
        self.assertIn(" of 20000", said.stdout)
        # Before it is built, too; a version has no samples in it.
        said = self.walle("task", "run", folder, "--samples", "-o", "json")
        self.assertEqual((said.returncode, said.stderr), (0, ""))
        again = json.loads(said.stdout)["samples"]
        self.assertEqual([run["instructions"] for sample in again for run in sample["runs"]], [run["instructions"] for some in runs for run in some])
        self.assertIn("a build has none", self.walle("task", "run", self.build, "--samples").stderr)
        with_samples = json.loads(self.built(folder, "-o", "json").stdout)["manifest"]
        with open(os.path.join(folder, "task.json"), encoding="utf-8") as file:
            task = json.load(file)
        task.pop("samples")
        folder = self.folder(script, text=json.dumps(task))
        self.assertEqual(json.loads(self.built(folder, "-o", "json").stdout)["manifest"], with_samples)

    def test_over_a_limit_of_its_own(self):
        """Which, where the script was, and where task.json sets it."""
        sample = {"samples": [{"input": "one.json"}], "config": {"heap_kib": 1, "time_ms": 2}}
        files = {"one.json": "1"}
        folder = self.folder("import walle\nkept = [0] * 10\nwalle.input\nkept = [0] * 100000\n", files, heap_kib=64, **sample)
        said = self.refused(folder, "walle: task.py: line 4: samples[0] (one.json), run 1: memory: MemoryError", "over the heap's 64 KiB; ",
                            '  File "task.py", line 4, in <module>\n    kept = [0] * 100000\n')
        self.assertRegex(said.stderr, rf'"heap_kib" is 64 \(task.json: line {self.line(folder, "heap_kib")}\)')
        folder = self.folder("kept = [0] * 300000\n", files, **sample)
        self.refused(folder, 'over the heap\'s 256 KiB; "heap_kib" of task.json is not set: 256 KiB are the default')
        folder = self.folder("def wait():\n    while True: pass\n\nwait()\n", files, time_ms=50, **sample)
        said = self.refused(folder, "walle: task.py: line 2: samples[0] (one.json), run 1: budget: ", "over the run's 50 ms, in each of 3 tries; ",
                            '  File "task.py", line 2\n    while True: pass\n')
        self.assertIn(f'"time_ms" is 50 (task.json: line {self.line(folder, "time_ms")})', said.stderr)
        folder = self.folder("def down(n):\n    return down(n + 1) if n < 5000 else n\n\ndown(0)\n", files, heap_kib=1024, **sample)
        self.refused(folder, "run 1: stack: RuntimeError", "deeper than the 64 KiB of C stack that every task has; no setting of task.json")

    def test_a_run_that_fails(self):
        events = "".join(json.dumps({**event, "attrs": {"price": number}}) + "\n" for number, event in enumerate(EVENTS))
        folder = self.folder("import walle\nfrom walle import data, store\nstore.put('n', store.get('n', 0) + 1)\nassert store.get('n') < 3, 'third'\n",
                             {"visits.jsonl": events}, triggers=["exit(item_detail)"], events={"take": "visit"}, store={"quota_kib": 1},
                             samples=[{"events": "visits.jsonl"}])
        self.refused(folder, "walle: task.py: line 4: samples[0] (visits.jsonl), run 3: exception: AssertionError: third",
                     "Traceback (most recent call last):\n  File \"task.py\", line 4, in <module>\n    assert store.get('n') < 3, 'third'\n")
        said = self.walle("task", "run", folder, "--samples")
        self.assertEqual(said.returncode, 1, said.stdout + said.stderr)
        self.assertIn("run 3: exception: AssertionError: third", said.stderr)
        self.assertIn("samples[0] (visits.jsonl)", said.stdout)
        self.built(folder, "--no-dry-run")

    def test_a_refused_build_leaves_the_earlier_one(self):
        """All of it, whatever the later one failed at; and nothing of the later one stays."""
        good, seven = {"inputs.json": "1"}, self.stack.path("seven.json")
        with open(seven, "w", encoding="utf-8") as file:
            file.write("7")
        self.built(self.folder("import walle\nwalle.result(walle.input)\n", good, samples=[{"input": "inputs.json"}]))
        before = self.held()
        self.assertIn("manifest", before)
        for script, more in (("1 // 0\n", {}), ("1 +\n", {}), ("import walle\n", {"heap_kib": "much"})):
            said = self.walle("task", "build", self.folder(script, good, samples=[{"input": "inputs.json"}], **more), "--out", self.build)
            self.assertEqual(said.returncode, 5, said.stdout + said.stderr)
            self.assertEqual(self.held(), before, script)
        self.assertEqual(json.loads(self.walle("task", "run", self.build, "--input", seven, "-o", "json").stdout)["result"], 7)
        self.built(self.folder("import walle\nwalle.result(2)\n", good, samples=[{"input": "inputs.json"}]))
        self.assertNotEqual(self.held()["manifest"], before["manifest"])
        self.assertEqual([name for name in os.listdir(self.build) if name.startswith(".")], [])

    def test_a_refused_first_build_leaves_no_folder(self):
        build = os.path.join(self.build, "new")
        said = self.walle("task", "build", self.folder("1 // 0\n", {"i.json": "1"}, samples=[{"input": "i.json"}]), "--out", build)
        self.assertEqual(said.returncode, 5, said.stdout + said.stderr)
        self.assertFalse(os.path.exists(build))

    def test_records_that_the_gateway_would_refuse(self):
        schema = {"type": "object", "fields": {"n": {"type": "integer"}}}
        for value, refused in (("{'n': 1}", False), ("{'n': 'one'}", True)):
            folder = self.folder(f"from walle import data\ndata.upload('out', {value})\n", {"visits.jsonl": json.dumps(EVENTS[0]) + "\n"},
                                 uploads=[{"name": "out", "schema": schema}], samples=[{"events": "visits.jsonl"}])
            if refused:
                self.refused(folder, "samples[0] (visits.jsonl), run 1: upload out: the gateway would refuse it: ")
            else:
                self.built(folder)

    def test_a_recording_for_a_version_without_triggers(self):
        """One run has all of them, as they were: more than a block of events holds."""
        lines = "".join(json.dumps({"kind": "click", "page": f"p{number % 7}", "item": f"i{number}", "t": 1000 + number, "attrs": {"n": number}}) + "\n"
                        for number in range(300))
        script = ("from walle import data\nseen = [(e.kind, e.page, e.item, e.time, e.n) for e in data.events()]\n"
                  "assert seen == [('click', 'p%d' % (n % 7), 'i%d' % n, 1000 + n, n) for n in range(300)], seen[:3]\n")
        folder = self.folder(script, {"clicks.jsonl": lines}, samples=[{"events": "clicks.jsonl"}])
        report = json.loads(self.built(folder, "-o", "json").stdout)["dry_run"]
        self.assertEqual((report["isolation"], report["samples"][0]["runs"][0]["events"]), ("process", 300))

    def test_samples_that_are_none(self):
        for samples, words in (({}, '"samples" is a list of at most 64'), ([1], 'samples[0] is {"events": FILE}'),
                               ([{"event": "x"}], 'samples[0]: unknown key "event": did you mean "events"?'),
                               ([{"events": 1}], 'samples[0]: "events": no path'), ([{"give": ["x"]}], '"give" is {NAME: PATH, ...}'),
                               ([{"give": {"camera": 1}}], 'samples[0]: give: "camera": no path'), ([{"user": 1}], '"user" is no text'),
                               ([{"events": "a", "input": "b"}], '"events" and "input" are two samples'), ([{}] * 65, "is a list of at most 64")):
            said = self.walle("task", "build", self.folder("x = 1\n", samples=samples), "--out", self.build)
            self.assertEqual(said.returncode, 5, said.stdout)
            self.assertIn(words, said.stderr)
        for samples, words in (([{"input": "gone.json"}], "samples[0] (gone.json): "), ([{}, {"attrs": "gone.json"}], "samples[1] (gone.json): "),
                               ([{"give": {"NAME": "task.py"}}], "is not NAME=PATH"), ([{"events": "task.py"}], "task.py, line 1: ")):
            self.refused(self.folder("x = 1\n", samples=samples), words)

    def test_without_the_runner(self):
        """In the command's own process, and said: no program beside it."""
        folder = self.folder("x = 1\n", samples=[{}])
        beside = self.stack.path("bin")
        os.mkdir(beside)
        os.link(program("walle"), os.path.join(beside, "walle")) if os.stat(beside).st_dev == os.stat(program("walle")).st_dev else \
            subprocess.run(["cp", program("walle"), beside], check=True)
        said = subprocess.run([os.path.join(beside, "walle"), "task", "build", folder, "--out", self.build, "-o", "json"], capture_output=True,
                              text=True, timeout=100, check=False)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("walle: the dry run is in this process, in the same VM: ", said.stderr)
        self.assertIn("walle-task-runner: No such file", said.stderr)
        report = json.loads(said.stdout)["dry_run"]
        self.assertEqual((report["isolation"], report["samples"][0]["runs"][0]["end"]), ("thread", "finished"))

    def test_out_of_git(self):
        """Samples lie in the tree; a failing version is not pushed either."""
        folder = self.folder("import walle\nwalle.result(1 // walle.input)\n", {"in/zero.json": "0", "in/one.json": "1"}, samples=[{"input": "in/one.json"}])
        git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.org"]

        def tagged(tag):
            for words in (["add", "-A"], ["commit", "-qm", tag], ["tag", tag]):
                subprocess.run([*git, *words], check=True, capture_output=True)

        subprocess.run(["git", "init", "-qb", "score", folder], check=True)
        with open(os.path.join(folder, "task.json"), encoding="utf-8") as file:
            task = {key: value for key, value in json.load(file).items() if key not in ("name", "version")}
        self.folder("import walle\nwalle.result(1 // walle.input)\n", text=json.dumps(task))
        tagged("v1.0.0")
        self.assertIn("samples[0] (one.json)", self.built(folder, "--tag", "v1.0.0").stdout)
        self.folder("import walle\nwalle.result(1 // walle.input)\n", text=json.dumps({**task, "samples": [{"input": "in/zero.json"}]}))
        tagged("v1.1.0")
        for command in (["task", "build", folder, "--tag", "v1.1.0", "--out", self.build],
                        ["task", "push", folder, "--tag", "v1.1.0", "--gateway", "http://127.0.0.1:1"]):
            said = self.walle(*command)
            self.assertEqual(said.returncode, 5, said.stderr)
            self.assertIn('  File "task.py", line 2, in <module>\n    walle.result(1 // walle.input)\n', said.stderr)
        self.folder("x = 1\n", text=json.dumps({**task, "samples": [{"input": "../../etc/passwd"}]}))
        tagged("v1.2.0")
        said = self.walle("task", "build", folder, "--tag", "v1.2.0", "--out", self.build)
        self.assertIn('"input": no path of a file inside the repository\'s folder', said.stderr)

    def test_calls_with_their_text(self):
        """As CPython shows them; of a build, too, which has copies of its scripts beside the version."""
        script = "import walle\nimport lib.more\n\ndef outer(x):\n\n    return lib.more.inner(x)   # x\n\nouter(0)\n"
        folder = self.folder(script, {"lib/more.py": "def inner(x):\n    return 1 // x\r\n", "lib/__init__.py": ""},
                             files=["task.py", "lib/__init__.py", "lib/more.py"])
        self.built(folder)
        shown = ("exception: ZeroDivisionError: divide by zero (lib/more.py:2)\nTraceback (most recent call last):\n"
                 '  File "task.py", line 8, in <module>\n    outer(0)\n  File "task.py", line 6, in outer\n    return lib.more.inner(x)   # x\n'
                 '  File "lib/more.py", line 2, in inner\n    return 1 // x\n')
        for what in (folder, self.build):
            said = self.walle("task", "run", what)
            self.assertEqual(said.returncode, 1)
            self.assertIn(shown, said.stdout)
        calls = json.loads(self.walle("task", "run", folder, "-o", "json").stdout)["traceback"]
        self.assertEqual(calls[-1], {"file": "lib/more.py", "line": 2, "in": "inner", "text": "return 1 // x"})
        self.assertEqual([call["in"] for call in calls], ["<module>", "outer", "inner"])
        # A text that moves the terminal's cursor, one behind a link, and none at all.
        with open(os.path.join(self.build, "sources", "task.py"), "w", encoding="utf-8") as file:
            file.write(script.replace("outer(0)", "outer(0) # \x1b[2J"))
        os.remove(os.path.join(self.build, "sources", "lib", "more.py"))
        os.symlink("/etc/passwd", os.path.join(self.build, "sources", "lib", "more.py"))
        said = self.walle("task", "run", self.build)
        self.assertNotIn("\x1b", said.stdout)
        self.assertIn('    outer(0) # ', said.stdout)
        self.assertRegex(said.stdout, r'  File "lib/more.py", line 2, in inner\n\d+ us')
        self.assertNotIn("root:", said.stdout)

    def test_unknown_keys(self):
        for text, line, words, listed in (
                ('{"name": "a/b",\n "version": "1.0.0",\n "entry": "task", "heap_kb": 64, "files": ["task.py"]}', 3,
                 'unknown key "heap_kb": did you mean "heap_kib"?', "task.json takes heap_kib name version"),
                ('{"name": "a/b", "version": "1.0.0", "config": {"size": 1}, "entry": "task",\n "files": ["task.py",\n  {"name": "x",\n   "size": 1}]}', 4,
                 'files[1]: unknown key "size"', "files[1] takes name path kind from"),
                ('{"name": "a/b", "version": "1.0.0", "entry": "task", "files": ["task.py"],\n "store": {\n "quota": 1}}', 3,
                 'store: unknown key "quota"', "store takes quota_kib keep"),
                ('{"name": "a/b", "version": "1.0.0", "entry": "task", "files": ["task.py"],\n "leaves": {"upload": {}}}', 2,
                 'leaves: unknown key "upload": did you mean "uploads"?', "leaves takes uploads ")):
            said = self.walle("task", "build", self.folder("x = 1\n", text=text), "--out", self.build)
            self.assertEqual(said.returncode, 5, said.stdout)
            self.assertIn(f"walle: task.json: line {line}: {words}", said.stderr)
            self.assertRegex(said.stderr, rf"(?m)^walle: (task.json: )?{listed.replace('[', chr(92) + '[')}")
        said = self.walle("task", "run", self.folder("x = 1\n", text='{"entry": "task",\n\n"filess": ["task.py"]}'))
        self.assertIn('task.json: line 3: unknown key "filess": did you mean "files"?', said.stderr)

    def test_help_and_examples(self):
        text = " ".join(self.walle("task", "build", "--help").stdout.split())
        self.assertIn("what fails there is not built", text)
        self.assertIn("--no-dry-run", text)
        self.assertIn("--samples", self.walle("task", "run", "--help").stdout)
        for task in ("ipv", "ipv_events"):
            said = self.built(os.path.join(SOURCE, "conf", "tasks", task))
            self.assertIn("samples[0] (", said.stdout)


if __name__ == "__main__":
    unittest.main()
