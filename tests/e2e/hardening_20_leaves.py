"""What leaves a device, seen on its wire: a task that holds planted secrets (in events, stored features, tensors) and tries every way
out sends nothing but the fields that its version declares ("leaves" in task.json). All bytes of the device are kept and searched, in
plain, hex, base64, as numbers and backwards. Sizes, times and counts are no part of this: how much, when and how often something is
sent can always say something, and docs/SECURITY.md says so.

The same script without "leaves" is sent the same way, and there the search finds what it looks for."""
import json
import os
import subprocess
import unittest

from sent_bytes import Proxy, everything, leaks
from walle_stack import Stack, program

DEVICE = "00000000000004d2"
# Each is a name that uploads and fields can have, so that nothing but the declaration stands in its way.
SECRETS = {"of an event": b"diary9f3ac1", "of a stored feature": b"kept5e2d77b0", "of a tensor": b"tensor4c81", "of the storage's key": b"key0b6e92fd"}
SCRIPT = """import walle
from walle import cloud, data, nn

events = data.events()
first = events[0] if len(events) > 0 else None


def tensor():
    return nn.tensor(b"tensor4c81", dtype="uint8")


def held():
    diary = str(first.get("diary", ""))
    rows = data.query("notes", "key0b6e92fd")
    found = [diary, "key0b6e92fd", tensor().tobytes().decode()]
    return found + ([rows[0][1]["note"]] if rows else [])


def uploads(s):
    raw = s.encode()
    number = 0
    for byte in raw:
        number = number * 256 + byte
    yield lambda: data.upload(s, 1)                                     # the name itself
    yield lambda: data.upload("other", {"item": "i"})                   # a name that lets nothing go
    yield lambda: data.upload("spent", {s: 1})                          # a field's name
    yield lambda: data.upload("spent", {"item": "i", "note": s})
    yield lambda: data.upload("spent", {"item": s})                     # longer than may leave
    yield lambda: data.upload("spent", {"item": {"note": s}})
    yield lambda: data.upload("spent", {"item": [s]})
    yield lambda: data.upload("spent", {"cents": number})
    yield lambda: data.upload("spent", {"cents": [b for b in raw]})
    yield lambda: data.upload("spent", {"cents": s})
    yield lambda: data.upload("spent", {"cents": None, s: None})
    yield lambda: data.upload("spent", {"tags": [s]})
    yield lambda: data.upload("spent", {"tags": [c for c in s]})        # more than may leave
    yield lambda: data.upload("spent", s)
    yield lambda: data.upload("spent", [s])
    yield lambda: data.upload("spent", raw)
    yield lambda: data.upload("raw", s)
    yield lambda: data.upload("raw", raw)                               # longer than may leave
    yield lambda: data.upload("raw", tensor())
    yield lambda: data.upload("spent", {"tags": tensor().tolist()})
    yield lambda: walle.result(s)
    yield lambda: walle.result({"note": s})
    yield lambda: walle.result({"item": s})


def infer(s):
    for inputs in ({"y": tensor()}, {"x": tensor()}, {s: tensor()}, {"y": nn.tensor(b"OPEN", dtype="uint8"), s: tensor()},
                   {"y": nn.tensor([0.5])}):
        for model in ("ranker", s):
            try:
                cloud.infer(model, inputs, 1000)
                print("an answer")
            except OSError as error:
                if "may not leave" not in str(error):
                    print("not refused:", error)
                    raise ValueError("a call was not refused")


class Odd(Exception):
    def __str__(self):
        return held()[0]


def fail(way, s):
    if way == 1:
        raise ValueError(s)
    if way == 2:
        raise KeyError(s)
    if way == 3:
        raise type(s, (Exception,), {})(s)
    if way == 4:
        raise Odd()
    if way == 5:
        raise SystemExit(s)
    if way == 6:
        __import__(s)
    if way == 7:
        getattr(walle, s)
    if way == 8:
        {}[s]
    if way == 9:
        assert False, s
    if way == 10:
        data.upload("spent", {"item": "i", "note": s})                  # nobody catches it


if first is not None:
    way = int(first.item[1:])
    data.store("notes", "key0b6e92fd", {"note": "kept5e2d77b0"})
    cloud.infer("ranker", {"y": nn.tensor(b"OPEN", dtype="uint8")}, 1000, None)  # what may leave
    tried = refused = 0
    for s in held():
        walle.log(s)
        print(s)
        infer(s)
        for attempt in uploads(s):
            tried += 1
            try:
                attempt()
            except ValueError as error:
                refused += 1
                print(error)
    walle.result({"item": "PUBLIC" + str(way), "cents": tried - refused})
    for s in held():
        fail(way, s)
"""
LEAVES = {"uploads": {"spent": {"fields": {"item": {"type": "string", "max": 8}, "cents": "integer",
                                           "tags": {"type": "list", "items": {"type": "string", "max": 2}, "max": 4}},
                                "max_bytes": 64},
                      "raw": {"bytes": True, "max_bytes": 8}},
          "infer": {"ranker": {"inputs": {"y": {"dtype": "UINT8", "max_elements": 4}}}}}
TASK = {"triggers": ["click(way)"], "events": {"take": "matched", "attributes": ["diary"]},
        "uploads": [{"name": name, "class": "realtime"} for name in ("spent", "raw", "other")], "result": "spent", "leaves": LEAVES}
FAILURES = 10


class WhatLeaves(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway("--workers", "1", "--set", "rollout.tick_ms=100")
        self.key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]
        self.proxy = Proxy(self.stack.gateway.ports["h2c"])
        self.addCleanup(self.proxy.close)

    def play(self, ways):
        """Runs of the task, one for each way; what the agent said."""
        path = self.stack.path("events.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for i, way in enumerate(ways):
                file.write(json.dumps({"kind": "click", "page": "way", "item": f"w{way}", "t": 1800000000000 + 1000 * i,
                                       "attrs": {"diary": SECRETS["of an event"].decode()}}) + "\n")
        run = subprocess.run([program("walle-device"), "--gateway", self.proxy.url, "--enroll-token", self.stack.enroll_token,
                              "--dir", self.stack.path("device"), "--id", DEVICE, "--trust", self.key, "--once", "--events", path,
                              "--verbose"], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run

    def release(self, **changes):
        task = {**TASK, **changes}
        self.stack.release_to_all("leaky", SCRIPT, self.stack.path("key"), **{name: value for name, value in task.items() if value is not None})

    def records(self):
        return [(record["upload"], record["record"]) for record in self.stack.exported()]

    def reported(self):
        """Words of the failures that the device reported, as the wire has them."""
        return [data for where, data in everything(self.proxy) if where.startswith("/v1/report")]

    def test_only_what_is_declared_leaves(self):
        self.release()
        ways = [0, *range(1, FAILURES + 1), 0]
        run = self.play(ways)
        self.assertEqual(run.stdout.count(" ran "), 3, run.stdout)  # one without events, and the two that do not fail
        self.assertEqual(leaks(self.proxy, SECRETS), [])
        # What may leave did, and was seen: the search sees into what is compressed.
        self.assertTrue([where for where, data in everything(self.proxy) if b"PUBLIC0" in data])
        self.assertTrue([where for where, data in everything(self.proxy) if where.startswith("/v2/models/ranker/infer body") and b"OPEN" in data])
        self.assertEqual(self.records(), [("spent", {"item": "PUBLIC0", "cents": 0})] * 2)
        self.assertTrue(any(b"ValueError (main.py:" in data for data in self.reported()))
        self.assertTrue(any(b"KeyError (main.py:" in data for data in self.reported()))
        self.assertTrue(any(b"Exception (main.py:" in data for data in self.reported()))
        # The refusals were heard and counted.
        device = json.loads(self.stack.walle("device", "get", DEVICE, "-o", "json").stdout)
        self.assertGreaterEqual(device["outcomes"][0]["figures"]["privacy_refusals"], 20)
        why = self.stack.walle("device", "why", DEVICE, "--task", "leaky").stdout
        self.assertRegex(why, r"its last run tried \d+ times? to let go what may not leave")
        self.assertIn("ValueError: walle: may not leave: upload 'spent': field 'note'", run.stdout)  # the agent's own

    def test_without_it_the_same_script_is_seen(self):
        """No test of the product: that the search finds what is there."""
        self.release(leaves=None)
        self.play([0, 1, 3, 0])
        found = leaks(self.proxy, SECRETS)
        for name in SECRETS:
            self.assertTrue([one for one in found if one.startswith(name + " ") and "tunnel body, unpacked" in one], (name, found))
        self.assertTrue([one for one in found if "(plain) in /v1/report body" in one], found)
        self.assertTrue([one for one in found if "(a number" in one], found)

    def test_words_of_failures_leave_where_they_are_declared(self):
        self.release(leaves={**LEAVES, "errors": "text"})
        self.play([1])
        self.assertEqual([one for one in leaks(self.proxy, SECRETS) if "/v1/report body" not in one and "connection" not in one], [])
        self.assertTrue(any(b"ValueError: diary9f3ac1" in data for data in self.reported()))

    def test_so_many_a_day(self):
        spent = {**LEAVES["uploads"]["spent"], "per_day": 2}
        self.release(leaves={**LEAVES, "uploads": {**LEAVES["uploads"], "spent": spent}})
        self.play([0])
        run = self.play([0, 0])
        self.assertIn(" 1 records may not leave,", run.stderr)
        self.assertEqual(len(self.records()), 2)


class Declared(unittest.TestCase):
    """What is declared is read exactly, shown to who reviews it, and may be asked for."""

    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)

    def build(self, leaves, check=True, **changes):
        folder = self.stack.path("source")
        os.makedirs(folder, exist_ok=True)
        task = {"name": "leaky", "version": "1.0.0", "entry": "main", "files": ["main.py"], **TASK, "leaves": leaves, **changes}
        with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as file:
            json.dump({name: value for name, value in task.items() if value is not None}, file)
        with open(os.path.join(folder, "main.py"), "w", encoding="utf-8") as file:
            file.write("import walle\n")
        return self.stack.walle("task", "build", folder, "--out", self.stack.path("build"), check=check)

    def test_what_is_wrong_is_named(self):
        def upload(**spec):
            return {"uploads": {"spent": {"max_bytes": 64, **spec}}}

        def model(**spec):
            return {"infer": {"ranker": {"inputs": {"x": {"dtype": "FP32", "max_elements": 4}}, **spec}}}
        wide = {f"f{i}": "integer" for i in range(129)}
        deep = "integer"
        for _ in range(9):
            deep = {"fields": {"a": deep}}
        for leaves, words in (
                ([], "task.json: leaves: is no object"),
                ({"upload": {}}, "task.json: leaves"),
                ({"errors": "all"}, 'leaves.errors: is "place" or "text"'),
                ({"uploads": []}, "leaves.uploads: is no object"),
                ({"uploads": {"gone": {"bytes": True, "max_bytes": 1}}}, "leaves: upload 'gone' is not in \"uploads\""),
                ({"uploads": {"spent": {"bytes": True}}}, 'leaves.uploads.spent: needs "max_bytes"'),
                (upload(bytes=True, per_day=0), "leaves.uploads.spent.per_day is a whole number from 1 to 1000000"),
                (upload(), 'leaves.uploads.spent: has either "fields" or "value"'),
                (upload(fields={"a": "integer"}, value="integer"), "leaves.uploads.spent: has either"),
                (upload(fields={"a": "string"}), 'leaves.uploads.spent.fields.a: needs "max"'),
                (upload(fields={"a": "any"}), "leaves.uploads.spent.fields.a: is no boolean"),
                (upload(fields={"a": {"type": "integer", "max": 3}}), 'leaves.uploads.spent.fields.a: has a "max"'),
                (upload(fields={"a": {"type": "list", "items": "string", "max": 3}}), 'leaves.uploads.spent.fields.a.items: needs "max"'),
                (upload(fields={"a": {"fields": {}}}), "leaves.uploads.spent.fields.a.fields: has no fields"),
                (upload(fields={"a": {"fields": {"b": "integer"}, "extra": True}}), "leaves.uploads.spent.fields.a"),
                (upload(fields={"a.b": "integer"}), "leaves.uploads.spent.fields.a.b: is no name of a field"),
                (upload(fields={"a": "integer", "a?": "number"}), "leaves: names a field twice"),
                (upload(fields=wide), "leaves.uploads.spent.fields: is no object, or one of more than 128 members"),
                (upload(value=deep), "is nested more than 8 deep"),
                ({"infer": {"ranker": {}}}, 'leaves.infer.ranker: needs "inputs"'),
                (model(inputs={}), "leaves.infer.ranker.inputs: has no inputs"),
                (model(inputs={"x": {"dtype": "float", "max_elements": 4}}), 'leaves.infer.ranker.inputs.x: needs "dtype"'),
                (model(inputs={"x": {"dtype": "FP32"}}), 'leaves.infer.ranker.inputs.x: needs "max_elements"'),
                (model(inputs={"x": {"dtype": "BYTES", "max_elements": 4}}), 'leaves.infer.ranker: needs "max_bytes"'),
                (model(tries=3), "leaves.infer.ranker")):
            run = self.build(leaves, check=False)
            self.assertNotEqual(run.returncode, 0, leaves)
            self.assertIn(words, run.stderr, leaves)

    def test_who_reviews_it_sees_it(self):
        self.stack.start_gateway("--workers", "1", "--set", "task.leaves=required")
        run = self.build(None)
        self.assertIn("leaves devices: undeclared", run.stdout)
        run = self.stack.walle("task", "push", self.stack.path("build"), check=False)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn('task.json needs "leaves"', run.stdout + run.stderr)
        for verb, *words in (("init",), ("build", "--out", self.stack.path("hello.build"))):  # what is made for a beginner has it
            self.stack.walle("task", verb, self.stack.path("hello"), *words)
        self.stack.walle("task", "push", self.stack.path("hello.build"))
        self.assertNotIn("undeclared", self.build(LEAVES).stdout)
        with open(self.stack.path("build", "manifest"), "rb") as file:
            built = file.read()
        self.build(dict(reversed([(name, dict(reversed(list(part.items())))) for name, part in LEAVES.items()])))
        with open(self.stack.path("build", "manifest"), "rb") as file:
            self.assertEqual(file.read(), built)  # in whatever order it is written
        self.stack.walle("task", "push", self.stack.path("build"))
        version = json.loads(self.stack.walle("task", "get", "leaky").stdout)["versions"][0]
        self.assertEqual(version["leaves"], {
            "errors": "place",
            "uploads": {"raw": {"fields": {}, "bytes": True, "max_bytes": 8},
                        "spent": {"fields": {"item": {"type": "string", "max": 8}, "cents": {"type": "integer"},
                                             "tags": {"type": "list", "max": 4}, "tags[]": {"type": "string", "max": 2}},
                                  "bytes": False, "max_bytes": 64}},
            "infer": {"ranker": {"inputs": {"y": {"dtype": "UINT8", "max_elements": 4}}, "max_bytes": 4}}})
        _, one = self.stack.api(f"/api/v1/tasks/leaky/versions/{version['manifest']}")
        self.assertEqual(one["leaves"], version["leaves"])


if __name__ == "__main__":
    unittest.main()
