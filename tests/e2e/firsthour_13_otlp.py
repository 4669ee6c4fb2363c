#!/usr/bin/env python3
"""`walle tunnel export --out FILE.otlp.jsonl` writes what JSON lines have, as OTLP: every record, its types, and what was declared lost."""
import base64
import json
import os
import subprocess
import unittest

from walle_stack import Stack, program

DEVICE = "00000000000004d2"
RECORD = {"n": 3, "big": 9007199254740993, "price": 1.5, "whole": 2.0, "ok": True, "no": None, "text": "r\u00f6t", "list": [1, "a", []], "in": {"a": {}}}
SCRIPT = f"""import walle
from walle import data
if len(data.events()) > 0:
    data.upload('bytes', b'\\x00\\xff\\xfe')
    data.upload('json', {RECORD!r})
"""
TASK = {"name": "shop/spent", "version": "1.0.0", "entry": "main", "files": ["main.py"], "triggers": ["click(item)"],
        "uploads": [{"name": "json", "class": "behaviour", "version": 7}, {"name": "bytes", "class": "behaviour"}]}


def plain(value):
    """The JSON that an AnyValue stands for."""
    if not value:
        return None
    (kind, inner), = value.items()
    if kind == "kvlistValue":
        return {pair["key"]: plain(pair["value"]) for pair in inner["values"]}
    if kind == "arrayValue":
        return [plain(one) for one in inner["values"]]
    if kind == "intValue":
        return int(inner)
    return inner


class Otlp(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        self.stack.start_gateway("--workers", "1", "--set", "rollout.tick_ms=100")
        key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]
        folder = self.stack.path("task")
        os.makedirs(folder)
        for name, text in (("task.json", json.dumps(TASK)), ("main.py", SCRIPT), ("../stages.json", '[{"name": "full", "kind": "full"}]'),
                           ("../events", '{"kind": "click", "page": "item"}\n' * 400)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.stack.walle("task", "build", folder, "--out", self.stack.path("build"))
        self.stack.walle("task", "push", self.stack.path("build"))
        self.stack.walle("rollout", "start", TASK["name"], "--build", self.stack.path("build"), "--key", self.stack.path("key"), "--stages",
                         self.stack.path("stages.json"))
        subprocess.run([program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--dir",
                        self.stack.path("device"), "--id", DEVICE, "--trust", key, "--once", "--events", self.stack.path("events")],
                       capture_output=True, timeout=120, check=True)

    def export(self, name):
        self.stack.walle("tunnel", "export", "--out", self.stack.path(name))
        with open(self.stack.path(name), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_the_same_records(self):
        rows, lines = self.export("records.jsonl"), self.export("records.otlp.jsonl")
        self.assertEqual(len(lines), len(rows))
        kinds = set()
        for row, line in zip(rows, lines):
            (resource,), = line.values()
            (scope,) = resource["scopeLogs"]
            (record,) = scope["logRecords"]
            about = {one["key"]: plain(one["value"]) for one in resource["resource"]["attributes"]}
            attributes = {one["key"]: plain(one["value"]) for one in record["attributes"]}
            self.assertEqual(about, {"service.name": row.get("task", "walle"), "device.id": DEVICE})
            self.assertEqual(record["observedTimeUnixNano"], str(row["received_ms"] * 10 ** 6))
            for name in ("at", "class", "epoch", "seq"):
                self.assertEqual(attributes["walle." + name], row[name])
            kind = row.get("format", "lost")
            kinds.add(kind)
            if kind == "lost":
                self.assertEqual((attributes["walle.lost"], attributes["walle.reason"]), (row["lost"], "starts"))
                self.assertEqual(record["severityNumber"], 13)
                continue
            self.assertEqual((scope["scope"]["name"], scope["scope"]["version"]), (row["upload"], str(row["schema"])))
            self.assertEqual(record["timeUnixNano"], str(row["wall_ms"] * 10 ** 6))
            if kind == "json":
                self.assertEqual(plain(record["body"]), RECORD)
                self.assertEqual(record["body"]["kvlistValue"]["values"][0].keys(), {"key", "value"})
            else:
                self.assertEqual(base64.b64decode(record["body"]["bytesValue"], validate=True), b"\x00\xff\xfe")
        self.assertEqual(kinds, {"json", "bytes", "lost"})
        self.assertEqual(self.export("records.otlp.jsonl"), lines)  # the next export goes on behind them


if __name__ == "__main__":
    unittest.main()
