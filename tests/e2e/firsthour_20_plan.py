#!/usr/bin/env python3
"""A plan shows the rollout that the file says, or none: each member of a stage is refused by `walle rollout plan` where
the gateway refuses it, in its words, and before anything is shown or signed."""
import json
import os
import re
import subprocess
import unittest

from walle_stack import SOURCE, Stack, program

NUMBERS = ("0.1", True, False, None, -1, 0, 0.5, 1, 1.5, 5, 90, 100, 101, 1e9, 2**32, [], {}, "")
WHOLE = NUMBERS + (10, 11, 1440, 1441, 604800, 604801, 2592000, 2592001, 2**32 - 1, 1.0)
WORDS = ("", "log", "stop", "xx", "x" * 17, 1, True, None, [], {})
ATTR = {"attr": "os", "op": "==", "value": "ios"}
VALUES = {
    "name": ("", " a", "a ", "a b", "é", "x" * 32, "x" * 33, "a\x01", 5, None, [], True),
    "kind": WORDS + ("gray", "beta", "shadow", "full", "Gray"),
    "percent": ("1", 0, 0.001, 0.01, 1, 100, 100.5, -1, True, None, []),
    "audience": ("", "os ==", 'os == "ios"', "x" * 5000, 5, True, None, {}, [], [5], [ATTR], [ATTR] * 32, [ATTR] * 33,
                 *([{**ATTR, **odd}] for odd in (
                     {"attr": ""}, {"attr": 5}, {"attr": "x" * 33}, {"op": "="}, {"op": 5}, {"op": "in"}, {"op": "present"}, {"op": "<"},
                     {"value": None}, {"value": 1.5}, {"value": []}, {"value": ["a"]}, {"value": "x" * 300}, {"value": 5}, {"type": "int"},
                     {"type": "integer"}, {"type": "version"}, {"type": "version", "value": "1.2.3"}, {"type": None}, {"vlaue": 1},
                     {"op": "in", "value": ["a", 5]}, {"op": "in", "value": ["a"] * 257}, {"op": "in", "value": []}, {"op": ">=", "value": True})),
                 [{"attr": "os", "op": "present"}], [{"attr": "os"}]),
    "rule": WORDS + ("threshold", "sequential", "logrank"),
    "on_fail": WORDS + ("roll_back", "hold"), "on_pass": WORDS + ("advance", "pause"),
    "approval": (True, False, None, 0, 1, "true", []),
    "rate": (5, True, None, [], {}, *({"per_minute": 60, **odd} for odd in (
        {}, {"per_minute": None}, {"per_minute": -1}, {"per_minute": 1e9}, {"per_minute": "6"}, {"per_minute": 100000001}, {"factor": 0.5}, {"factor": 2},
        {"factor": 11}, {"factor": "2"}, {"factor": 2, "step": 10}, {"factor": 2, "step": 10, "per_minute": 0}, {"step": -1}, {"step": 1.5},
        {"step": 1000000001}, {"of": "xx"}, {"of": "succeeded"}, {"of": 5}, {"of": "x" * 17}, {"max_per_minute": -1}, {"max_per_minute": "a"}, {"pre": 1}))),
    "windows": (5, {}, None, [], [5], [{}], [{"start": "22:00", "minutes": 60}] * 4, [{"start": "22:00", "minutes": 60}] * 5,
                *([{"start": "22:00", "minutes": 60, **odd}] for odd in (
                    {"start": None}, {"start": "24:00"}, {"start": "23:59"}, {"start": "9:00"}, {"start": "22:60"}, {"start": 5}, {"start": "x" * 9},
                    {"minutes": 0}, {"minutes": 1440}, {"minutes": 1441}, {"minutes": "5"}, {"minutes": None}, {"clock": "utc"}, {"clock": "device"},
                    {"clock": "xx"}, {"clock": 1}, {"clock": "x" * 9}, {"days": []}, {"days": ["mon"]}, {"days": ["mon", "mon"]}, {"days": ["Mon"]},
                    {"days": [5]}, {"days": "mon"}, {"days": None}, {"days": ["mon"] * 8}, {"day": []}))),
    "retries": (5, [], None, {}, {"xx": 1}, *({"trap": value} for value in (0, 1, 10, 11, -1, 1.5, "1", None)), {"timeout": 2}),
    "tolerance": (5, [], None, {}, {"absolut": 1}, *({key: value} for key in ("absolute", "relative") for value in (-1, 0, 0.5, 1, 2, "1", True, None)),
                  {"fields": 5}, {"fields": None}, {"fields": []}, {"fields": {}}, {"fields": {"": {}}}, {"fields": {"x" * 24: {}}}, {"fields": {"x" * 25: {}}},
                  {"fields": {'a"': {}}}, {"fields": {"a": None}}, {"fields": {"a": 5}}, {"fields": {"a": {"x": 1}}}, {"fields": {"a": {"relative": 2}}},
                  {"fields": {"a": {"absolute": "1"}}}, {"fields": {key: {} for key in "abcd"}}, {"fields": {key: {} for key in "abcde"}},
                  {"absolute": 1, "fields": {key: {} for key in "abcd"}}),
}
UNSHOWN, SHOWN = ("", " a", "a ", "é", "a\x01"), "stages[0].name: 1 to 32 printable ASCII characters"  # the gateway's words come after the signatures
WHOLES = {"min_sample", "max_cloud_ms", "no_data_s", "in_flight", "execution_timeout_s", "offline_expiry_s", "silence_s", "observe_s", "window_s", "guard_s"}


def fields():
    """Every member that people write, of those that policy/fields/stage_fields.c lists."""
    with open(os.path.join(SOURCE, "policy", "fields", "stage_fields.c"), encoding="utf-8") as file:
        return [name for name in re.findall(r'\[POL_STAGE_FIELD_\w+\]\s*=\s*\{"(\w+)"', file.read()) if name != "statement"]


class Plan(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)

    def plan(self, stages, *words, command=("plan",)):
        file = self.stack.secret("stages.json", json.dumps(stages))
        return subprocess.run([program("walle"), "rollout", *command, "--stages", file, *words], capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, check=False)

    def gateway_says(self, stages):
        """What it has against the stages; None: nothing, for then it misses the signature of the first."""
        body = {"id": "00000000000000a1", "task": "shop/score", "manifest": "0" * 64, "salt": "00000000000000a2", "release_counter": 1, "target": [],
                "stages": stages}
        status, answer = self.stack.api("/api/v1/rollouts/check", "POST", body)
        self.assertIn(status, (400, 413), answer)
        return None if answer["detail"] == "stages[0].statement: missing" else answer["detail"]

    def test_it_refuses_what_the_gateway_refuses(self):
        self.stack.start_gateway()
        different = []
        seen = {True: 0, False: 0}
        for name in fields():
            for value in VALUES.get(name) or (WHOLE if name in WHOLES else NUMBERS):
                for base in ({"kind": "shadow"}, {"kind": "gray", "rule": "logrank"}, {"kind": "beta", "rule": "sequential"}, {"kind": "full"}):
                    if base["kind"] == "full" and name == "percent" or base["kind"] != "gray" and name not in ("tolerance", "max_slowdown", "max_memory", "percent", "alpha", "beta", "kind", "rule"):
                        continue
                    stage = {"name": "first", "percent": 100, "max_failure": 0.5, **base, name: value}
                    said = SHOWN if name == "name" and value in UNSHOWN else self.gateway_says([stage])
                    if name == "max_failure" and value is None:
                        continue  # an option's default stands in
                    run = self.plan([stage] + [{"name": "all", "kind": "full"}] * (stage["kind"] == "shadow"))
                    ok = (run.returncode, run.stderr.startswith("walle: stages")) == (0, False) if said is None else \
                        (run.returncode, run.stdout, said in run.stderr) == (2, "", True)
                    seen[said is None] += 1
                    if not ok:
                        different.append((stage, said, run.returncode, run.stderr))
        self.assertEqual(different, [], "\n".join(map(str, different)))
        self.assertGreater(min(seen.values()), 150, seen)

    def test_a_share_is_said_of_whom(self):
        cond = {"attr": "channel", "op": "==", "value": "beta"}
        for audience, said in (([cond], 'channel == "beta"'), ('os == "ios" || ram_mb >= 4096', 'os == "ios" || ram_mb >= 4096'),
                               ([cond, {"attr": "ram_mb", "op": ">=", "value": 4096}], 'channel == "beta" && ram_mb >= 4096'),
                               ([{"attr": "os", "op": "not_in", "value": ["ios"]}, {"attr": "model", "op": "absent"}], 'os ! in ["ios"] && !has(model)'),
                               ([{"attr": "os", "op": "in", "value": ["ios", "x"]}, {"attr": "model", "op": "present"}], 'os in ["ios","x"] && has(model)')):
            run = self.plan([{"name": "some", "kind": "beta", "audience": audience, "max_failure": 0.5}, {"name": "all", "kind": "full", "max_failure": 0.5}])
            self.assertEqual(run.returncode, 0, run.stderr)
            lines = run.stdout.splitlines()
            self.assertIn(f"    of those with {said}", lines)
            self.assertEqual(lines.index(f"    of those with {said}"), 2, lines)  # below its stage
            self.assertEqual(run.stdout.count("of those with"), 1)

    def test_before_anything_is_shown_or_signed(self):
        self.stack.start_gateway()
        for name in ("release.key",):
            self.stack.walle("key", "new", "--out", self.stack.path(name))
        folder = self.stack.path("task")
        os.makedirs(folder)
        for name, text in {"task.py": "import walle\nwalle.result({})\n",
                           "task.json": json.dumps({"name": "shop/score", "version": "1.0.0", "entry": "task", "files": ["task.py"]})}.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", folder, "--out", self.stack.path("build"))
        self.stack.walle("task", "push", self.stack.path("build"))
        good = {"name": "all", "kind": "full", "max_failure": 0.5}
        draft = self.stack.path("draft.json")
        gateway = ("--gateway", self.stack.gateway.url)
        begin = ("start", "shop/score", "--version", "1.0.0", "--key", self.stack.path("release.key"), *gateway)
        self.assertEqual(self.plan([good], "--draft", draft, command=begin).returncode, 0)
        with open(draft, encoding="utf-8") as file:
            drawn = json.load(file)
        for odd, said in (({"max_failure": "0.1"}, "max_failure: not a number from 0 to 1"), ({"max_failure": 5}, "max_failure: not a number from 0 to 1"),
                          ({"min_sample": 1.5}, "min_sample: not a whole number from 0 to 4294967295"),
                          ({"on_fail": "stop"}, "on_fail: 'stop' is neither roll_back nor hold"),
                          ({"on_pass": "x\x1b[2J"}, "is neither advance nor pause"),
                          ({"alpha": 3}, "alpha: not a number from 0 to 1"), ({"audience": "os ="}, "audience: line 1, column")):
            for command in (("plan",), ("plan", *gateway), begin, (*begin, "--dry-run")):
                run = self.plan([{**good, **odd}], command=command)
                self.assertEqual((run.returncode, run.stdout.startswith("   "), f"stages[0].{said}".split("'x")[0] in run.stderr or said in run.stderr),
                                 (2, False, True), (command, run.stdout, run.stderr))
                self.assertNotIn("\x1b", run.stderr)
            changed = {**drawn, "stages": [{**drawn["stages"][0], **odd}]}
            run = self.stack.walle("rollout", "submit", self.stack.secret("changed.json", json.dumps(changed)), check=False)
            self.assertEqual((run.returncode, said in run.stderr), (2, True), run.stderr)
        run = self.plan([good, {**good, "name": "rest"}, 5])
        self.assertEqual((run.returncode, run.stderr), (2, "walle: stages[2]: not an object\n"))
        run = self.plan([{"name": "few", "kind": "gray", "percent": 1, "guard_s": 5}, good])
        self.assertEqual((run.returncode, run.stderr), (2, "walle: stages[0].guard_s: for the last stage only\n"))
        run = self.plan([{**good, "rule": "sequential"}], "--alpha", "0.6")
        self.assertEqual((run.returncode, run.stderr), (2, "walle: stages[0].alpha, beta: above 0 and below one half\n"))
        self.assertEqual(self.stack.walle("rollout", "submit", draft, "--no-start").returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
