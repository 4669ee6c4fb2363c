#!/usr/bin/env python3
"""A task on its author's machine: a build refuses imports that no device has, `walle task run` takes a folder as it lies, and a failure shows the
calls that led to it."""
import json
import os
import subprocess
import unittest

from walle_stack import SOURCE, Stack, program, wait_until


class Task(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.scratch = self.stack.path("tmp")
        os.mkdir(self.scratch)

    def folder(self, scripts, **fields):
        folder = self.stack.path("task")
        os.makedirs(os.path.join(folder), exist_ok=True)
        for name, text in {**scripts, "task.json": json.dumps({"entry": "task", "files": list(scripts), **fields})}.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        return folder

    def walle(self, *arguments):
        return subprocess.run([program("walle"), *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                              env={**os.environ, "TMPDIR": self.scratch})

    def build(self, scripts):
        return self.walle("task", "build", self.folder(scripts, name="shop/score", version="1.0.0"), "--out", self.stack.path("build"))

    def test_calls_of_models_in_the_cloud(self):
        """Without a gateway none is made; the script hears whether the version would let it go, and a build says where none would."""
        script = {"task.py": "from walle import cloud\nfor model, x in (('big', [1]), ('big', [1, 2]), ('other', [1])):\n"
                             "    try:\n        cloud.infer(model, {'x': x})\n    except OSError as error:\n        print(error)\n"}
        leaves = {"infer": {"big": {"inputs": {"x": {"dtype": "FP32", "max_elements": 1}}}}}
        ran = self.walle("task", "run", self.folder(script, leaves=leaves))
        lines = [line for line in ran.stdout.splitlines() if "walle.cloud" in line]
        self.assertEqual(len(lines), 3)
        for line, why, words in zip(lines, ("offline", "not_allowed", "not_allowed"),
                                    ("big: --gateway URL asks one", "x' has 2 elements, and 1 may leave", "to model 'other'")):
            self.assertIn(f"walle.cloud: {why}: ", line)
            self.assertIn(words, line)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        ran = self.walle("task", "run", self.folder(script))
        self.assertEqual(ran.stdout.count('the version has no "leaves" in task.json'), 3, ran.stdout)
        warning = "task.py: calls walle.cloud.infer, as it seems, but task.json has no \"leaves\": a device refuses each call"
        self.assertIn(warning, ran.stderr)
        self.assertIn(warning, self.build(script).stderr)
        self.assertEqual(self.build({"task.py": "from walle import cloud\ncloud.why()\n"}).stderr, "")

    def test_watching_a_folder(self):
        """Runs again when a file is saved, also when it did not compile before, and not when nothing is."""
        folder = self.folder({"task.py": "import walle\nwalle.result(1)\n"})
        out = self.stack.path("watched")
        with open(out, "wb") as file, subprocess.Popen([program("walle"), "task", "run", folder, "--watch"], stdout=file, stderr=file,
                                                       stdin=subprocess.DEVNULL, env={**os.environ, "TMPDIR": self.scratch}) as process:
            def said():
                with open(out, encoding="utf-8") as seen:
                    return seen.read()

            try:
                for source, words in ((None, "result: 1"), ("import walle\nwalle.result(\n", "task.py: line 3: SyntaxError"),
                                      ("import walle\nwalle.result(22)\n", "result: 22")):
                    before = said().count("waits for a save")
                    if source is not None:
                        self.folder({"task.py": source})
                    wait_until(lambda: said().count("waits for a save") > before, timeout_s=60, what="a run after a save")
                    self.assertIn(words, said())
                self.assertEqual(said().count("waits for a save"), 3, said())
                self.assertEqual(os.listdir(self.scratch), [], "nothing stays behind")
            finally:
                process.terminate()

    def test_imports_that_a_device_does_not_have(self):
        for scripts, words in (({"task.py": "import walle\n\nimport numpy as np\n"}, "task.py: line 3: import numpy: no module of a device: from walle import np"),
                               ({"task.py": "import cv2\n"}, "import cv2: no module of a device: from walle import cv; cv.imdecode reads bytes"),
                               ({"task.py": "import random\n"}, "walle.np.random draws numbers"),
                               ({"task.py": "from os.path import join\n"}, "line 1: import os.path"),
                               ({"task.py": "import maths\n"}, "did you mean math?"),
                               ({"task.py": "def f():\n    import featurs\n", "features.py": "x = 1\n"}, "did you mean features?"),
                               ({"task.py": "import walle, requests\n"}, "line 1: import requests"),
                               ({"task.py": "try:\n    import requests\nfinally:\n    x = 1\n"}, "line 2: import requests"),
                               ({"task.py": "try:\n    import walle\nexcept ImportError:\n    import requests\n"}, "line 4: import requests"),
                               ({"task.py": "try:\n    import numpy\nexcept ValueError:\n    x = 1\n"}, "line 2: import numpy"),
                               ({"task.py": "try:\n    import numpy\nexcept (ValueError, OSError) as e:\n    x = 1\nelse:\n    y = 1\n"}, "line 2: import"),
                               ({"task.py": "try:\n    def f():\n        import numpy\nexcept ImportError:\n    x = 1\n"}, "line 3: import numpy"),
                               ({"task.py": "try:\n    x = 1\nexcept ImportError:\n    pass\nelse:\n    import numpy\n"}, "line 6: import numpy")):
            said = self.build(scripts)
            self.assertNotEqual(said.returncode, 0, scripts)
            self.assertIn(words, said.stderr)
            self.assertRegex(said.stderr, r"(?m)^walle: a device has (?=.*\bmath\b)(?=.*\bwalle\b)(?=.*\bstruct\b)(?=.*\bre\b).*$")
            self.assertNotIn("a device has", said.stderr.splitlines()[-1], "nothing is cut")
            self.assertFalse(os.path.exists(self.stack.path("build", "manifest")))

    def test_names_that_a_module_of_a_device_does_not_have(self):
        for script, words in (("import walle\n\nfrom walle import dta\n", "task.py: line 3: a device's module walle has no dta: did you mean data?"),
                              ("from walle import data, video\n", "line 1: a device's module walle has no video"),
                              ("from walle import (\n    nn,\n    datas as d,\n)\n", "a device's module walle has no datas: did you mean data?"),
                              ("import walle.foo\n", "line 1: a device's module walle has no module foo"),
                              ("import walle.data\n", "walle has no module data: did you mean from walle import data?"),
                              ("def f():\n    from walle.nn import load\n", "line 2: a device's module walle has no module nn: did you mean from walle import nn?"),
                              ("from math import sqrtt\n", "a device's module math has no sqrtt: did you mean sqrt?"),
                              ("from ujson import read\n", "a device's module json has no read")):
            said = self.build({"task.py": script})
            self.assertEqual(said.returncode, 5, script)
            self.assertIn(words, said.stderr)
            self.assertFalse(os.path.exists(self.stack.path("build", "manifest")))
            ran = self.walle("task", "run", self.folder({"task.py": script.replace("def f():\n    ", "")}))
            self.assertNotEqual(ran.returncode, 0, script)
            caught = "try:\n" + "".join(f"    {line}\n" for line in script.splitlines()) + "except ImportError:\n    pass\n"
            if not script.startswith("def"):
                ran = self.walle("task", "run", self.folder({"task.py": caught + "import walle\nwalle.result(len(dir(walle)))\n"}))
                self.assertEqual(ran.returncode, 0, caught + ran.stderr)

    def test_names_that_are_read_of_a_module(self):
        for script, words in (("import walle\n\nwalle.np.summ([1])\n", "task.py: line 3: a device's module walle.np has no summ: did you mean sum?"),
                              ("from walle import np\nx = np.nosuch\n", "line 2: a device's module walle.np has no nosuch"),
                              ("from walle import store as s\ns.gett('a')\n", "line 2: a device's module walle.store has no gett: did you mean get?"),
                              ("import math\nprint(math.sqrtt(2))\n", "line 2: a device's module math has no sqrtt: did you mean sqrt?"),
                              ("import walle\nwalle.dta.events()\n", "line 2: a device's module walle has no dta: did you mean data?")):
            said = self.build({"task.py": script})
            self.assertEqual(said.returncode, 5, script)
            self.assertIn(words, said.stderr)
        for script in ("import walle\nwalle.config.get('a')\nwalle.log(walle.np.pi)\n", "import math\ntry:\n    math.tau2\nexcept AttributeError:\n    pass\n",
                       "import sys\nsys.path\nsys.implementation.name\nsys.__name__\n"):
            self.assertEqual(self.build({"task.py": script}).returncode, 0, script)
        self.assertEqual(self.build({"task.py": "import math\nmath.own()\n", "math.py": "def own(): pass\n"}).returncode, 0)
        said = self.build({"task.py": "x = 1\nmatch x:\n    case 1:\n        pass\n"})
        self.assertIn("task.py", said.stderr)
        self.assertIn("line 2", said.stderr)
        self.assertIn("a device's Python has no match statement (Python 3.10)", said.stderr)

    def test_a_script_that_was_not_listed(self):
        for beside, import_, words in (("helper.py", "helper", "helper.py lies in the folder"),
                                       ("lib/__init__.py", "lib", "lib/__init__.py lies in the folder"), ("lib/more.py", "lib.more", "lib/more.py lies")):
            folder = self.folder({"task.py": f"import walle\nimport {import_}\n"}, name="shop/score", version="1.0.0")
            os.makedirs(os.path.dirname(os.path.join(folder, beside)), exist_ok=True)
            with open(os.path.join(folder, beside), "w", encoding="ascii") as file:
                file.write("x = 1\n")
            said = self.walle("task", "build", folder, "--out", self.stack.path("build"))
            self.assertEqual(said.returncode, 5, said.stdout)
            self.assertIn(f"task.py: line 2: import {import_}: {words}", said.stderr)
            self.assertIn('"files" of task.json does not list it', said.stderr)
            self.assertNotIn("did you mean", said.stderr)
            os.remove(os.path.join(folder, beside))

    def test_a_folder_that_is_no_build(self):
        source, empty = self.folder({"task.py": "x = 1\n"}), self.scratch
        for words in (("task", "push"), ("task", "verify")):
            said = self.walle(*words, source)
            self.assertEqual(said.returncode, 5, said.stderr)
            self.assertIn(f"{source} is a task's source, no build: walle task build {source} --out BUILD", said.stderr)
            said = self.walle(*words, empty)
            self.assertEqual(said.returncode, 5, said.stderr)
            self.assertIn(f"{empty} is no build, it has no manifest: walle task build FOLDER --out {empty} makes one", said.stderr)
            self.assertIn("no such folder", self.walle(*words, self.stack.path("nowhere")).stderr)

    def test_imports_that_are_there(self):
        for scripts in ({"task.py": "import walle, json, math, re\nfrom walle import nn\nimport features\n", "features.py": "x = 1\n"},
                        {"task.py": "import lib.tools as t\nfrom lib import tools\n", "lib/__init__.py": "", "lib/tools.py": ""},
                        {"task.py": "try:\n    import own\nexcept ImportError:\n    own = None\n"},
                        {"task.py": "try:\n    import own\nexcept:\n    own = None\n"},
                        {"task.py": "try:\n    import own\nexcept (ValueError, ImportError) as e:\n    own = None\nelse:\n    x = 1\nfinally:\n    y = 1\n"},
                        {"task.py": "def f():\n    try:\n        try:\n            from own import x\n        except KeyError:\n            x = 1\n"
                                    "    except Exception:\n        return 1\n"},
                        {"task.py": "import math\ntry:\n    import own\nexcept ValueError:\n    own = None\nexcept OSError:\n    own = 1\nexcept ImportError:\n"
                                    "    own = 2\n"},
                        {"task.py": "from walle import config, input, device, log, result, data, nn as n\nfrom sys import path\nfrom math import *\n"
                                    "from ujson import loads\nfrom builtins import len, print\nfrom collections import namedtuple\nfrom walle import *\n"},
                        {"task.py": "from lib import anything\nimport json.more\n", "lib.py": "anything = 1\n", "json/__init__.py": "", "json/more.py": ""},
                        {"task.py": 'text = """\nimport numpy\n"""\n# import requests\n'}):
            said = self.build(scripts)
            self.assertEqual(said.returncode, 0, f"{scripts}: {said.stderr}")

    def test_a_folder_as_it_lies(self):
        said = self.walle("task", "run", self.folder({"task.py": "import walle\nimport more\nwalle.result(more.x)\n", "more.py": "x = 42\n"}))
        self.assertEqual((said.returncode, "result: 42" in said.stdout), (0, True), said.stdout + said.stderr)
        said = self.walle("task", "run", os.path.join(SOURCE, "conf/tasks/ipv"))
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        said = self.walle("task", "run", self.folder({"task.py": "import numpy\n"}))
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("import numpy", said.stderr)
        said = self.walle("task", "run", self.scratch)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("manifest", said.stderr)
        self.assertEqual(os.listdir(self.scratch), [], "nothing stays behind")

    def test_a_failure_on_a_device_shows_its_calls(self):
        """In a process as on a thread, and so to the gateway."""
        stages = self.stack.path("stages.json")
        folder = self.folder({"task.py": "import walle\nimport more\n\ndef outer(x):\n    return more.inner(x)\n\nouter(0)\n",
                              "more.py": "def inner(x):\n    return 1 // x\n"}, name="shop/score", version="1.0.0")
        self.stack.start_hasty_gateway()
        key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.split()[-1]
        self.stack.walle("task", "build", folder, "--out", self.stack.path("build"))
        self.stack.walle("task", "push", self.stack.path("build"))
        with open(stages, "w", encoding="ascii") as file:
            json.dump([{"name": "full", "kind": "full", "min_sample": 10, "min_dwell_s": 0, "max_failure": 1}], file)
        rollout = self.stack.walle("rollout", "start", "shop/score", "--build", self.stack.path("build"), "--key", self.stack.path("key"), "--stages",
                                   stages).stdout[:16]
        for number, isolation in enumerate(("thread", "process"), 1):
            said = subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--dir",
                                   self.stack.path(isolation), "--id", f"{number:016x}", "--trust", key, "--isolation", isolation, "--once"],
                                  capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertIn("ZeroDivisionError: divide by zero (more.py:2 < task.py:5 < task.py:7)", said.stdout, isolation + said.stderr)
        found = wait_until(lambda: (now := self.stack.api(f"/api/v1/rollouts/{rollout}")[1]["fingerprints"]) and now[0]["devices"] == 2 and now, what="both")
        self.assertIn("(more.py:2 < task.py:5 < task.py:7)", json.dumps(found), "one way to fail, of both")
        # Where the build is at hand the command has the text of the lines.
        shown = ('Traceback (most recent call last):\n  File "task.py", line 7\n    outer(0)\n  File "task.py", line 5\n    return more.inner(x)\n'
                 '  File "more.py", line 2\n    return 1 // x\n')
        for words in (("rollout", "explain", rollout), ("device", "why", "0000000000000002", "--task", "shop/score")):
            self.assertIn(shown, self.stack.walle(*words, "--build", self.stack.path("build")).stdout, words)
            self.assertNotIn("Traceback", self.stack.walle(*words).stdout)
        calls = json.loads(self.stack.walle("rollout", "explain", rollout, "--build", self.stack.path("build"), "-o", "json").stdout)["fingerprints"]
        self.assertEqual([call["text"] for call in calls[0]["traceback"]], ["outer(0)", "return more.inner(x)", "return 1 // x"])
        self.stack.walle("task", "build", folder, "--out", self.stack.path("other"), "--version", "1.0.1")
        said = self.walle("rollout", "explain", rollout, "--build", self.stack.path("other"), "--gateway", self.stack.gateway.url)
        self.assertEqual((said.returncode, "is another version: manifest" in said.stderr), (5, True), said.stderr)

    def test_a_failure_shows_its_calls(self):
        folder = self.folder({"task.py": "import walle\nimport more\n\ndef outer(x):\n    return more.inner(x)\n\nouter(0)\n",
                              "more.py": "def inner(x):\n    return 1 // x\n"})
        said = self.walle("task", "run", folder)
        self.assertEqual(said.returncode, 1, said.stdout + said.stderr)
        self.assertIn('  File "task.py", line 7, in <module>\n    outer(0)\n  File "task.py", line 5, in outer\n    return more.inner(x)\n'
                      '  File "more.py", line 2, in inner\n    return 1 // x\n', said.stdout)
        said = self.walle("task", "run", folder, "-o", "json")
        self.assertEqual(json.loads(said.stdout)["stack"], ["more.py:2 in inner", "task.py:5 in outer", "task.py:7 in <module>"])
        deep = self.folder({"task.py": "def down(n):\n    return down(n - 1) if n else {}['x']\n\ndown(60)\n"})
        said = self.walle("task", "run", deep)
        self.assertEqual(said.returncode, 1, said.stdout + said.stderr)
        # As many as there are, of which the middle is left out: the JSON has all.
        stack = json.loads(self.walle("task", "run", deep, "-o", "json").stdout)["stack"]
        self.assertGreater(len(stack), 20)
        frame = '  File "task.py", line 2, in down\n    return down(n - 1) if n else {}[\'x\']\n'
        self.assertIn(f"{frame}  ... {len(stack) - 12} more calls\n{frame * 8}", said.stdout)
        self.assertEqual(said.stdout.count("  File "), 12)
        self.assertIn("last):\n  ... calls before these: a device keeps the innermost\n" + frame, said.stdout)
        shallow = self.walle("task", "run", self.folder({"task.py": "def down(n):\n    return down(n - 1) if n else {}['x']\n\ndown(20)\n"})).stdout
        self.assertIn('last):\n  File "task.py", line 4, in <module>\n    down(20)\n' + frame, shallow)


if __name__ == "__main__":
    unittest.main()
