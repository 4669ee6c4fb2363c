#!/usr/bin/env python3
"""Dictionaries of the tunnel: trained from records, released as a file of a task, known to the gateway for good."""
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from walle_stack import Stack, program


def training_lines(path, devices=40, first=0, seed=31):
    """Raw events as `walle tunnel export` would give them."""
    log = subprocess.run([program("ipv_worker"), "log", str(seed), str(first), str(devices), "2"], check=True,
                         stdout=subprocess.PIPE).stdout
    with open(path, "w", encoding="utf-8") as file:
        for number, line in enumerate(line for line in log.split(b"\n") if line):
            record = json.loads(line)
            file.write(json.dumps({"device": record["device"], "task": "shop/behaviour" if number % 3 else "other",
                                   "upload": "events", "schema": 1, "record": record}) + "\n")


class Dictionaries(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="walle-dict-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def train(self, *arguments):
        return subprocess.run([program("walle"), "tunnel", "train", *arguments], capture_output=True, text=True,
                              timeout=120, stdin=subprocess.DEVNULL)

    def test_training(self):
        training_lines(self.path("export.jsonl"))
        run = self.train("--from", self.path("export.jsonl"), "--task", "shop/behaviour", "--out", self.path("a.dict"),
                         "-o", "json")
        self.assertEqual(run.returncode, 0, run.stderr)
        told = json.loads(run.stdout)
        with open(self.path("a.dict"), "rb") as file:
            made = file.read()
        digest = hashlib.sha256(made).digest()
        self.assertEqual(told["bytes"], len(made))
        self.assertLessEqual(len(made), 32768)
        self.assertEqual(made[:4], bytes.fromhex("37a430ec"))
        self.assertEqual(told["sha256"], digest.hex())
        self.assertEqual(told["id"], f"{int.from_bytes(digest[:4], 'little'):08x}")
        print(f"one event: {told['plain_ratio']:.2f}x alone, {told['dict_ratio']:.2f}x with the dictionary "
              f"({told['held_out']} records of other people)")
        self.assertGreater(told["held_out"], 50)
        self.assertGreaterEqual(told["dict_ratio"], 2.5)
        # The same records in two files of a folder: the same dictionary.
        os.mkdir(self.path("parts"))
        with open(self.path("export.jsonl"), encoding="utf-8") as file:
            lines = file.readlines()
        for name, part in (("1", lines[:500]), ("2", lines[500:])):
            with open(self.path("parts", name), "w", encoding="utf-8") as file:
                file.writelines(part)
        run = self.train("--from", self.path("parts"), "--task", "shop/behaviour", "--out", self.path("b.dict"))
        self.assertEqual(run.returncode, 0, run.stderr)
        with open(self.path("b.dict"), "rb") as file:
            self.assertEqual(file.read(), made)

    def test_refused(self):
        training_lines(self.path("export.jsonl"), devices=2)
        with open(self.path("long"), "w", encoding="utf-8") as file:
            file.write("x" * 2000000)
        out = self.path("out.dict")
        for code, text, arguments in (
                (2, "--out FILE", ("--from", self.path("export.jsonl"))),
                (2, "--from PATH", ("--out", out)),
                (2, "--size", ("--from", self.path("export.jsonl"), "--out", out, "--size", "100")),
                (2, "--size", ("--from", self.path("export.jsonl"), "--out", out, "--size", "70000")),
                (5, "No such file", ("--from", self.path("none"), "--out", out)),
                (5, "0 samples; at least 64", ("--from", self.path("export.jsonl"), "--task", "none", "--out", out)),
                (5, "longer than", ("--from", self.path("long"), "--out", out))):
            run = self.train(*arguments)
            self.assertEqual(run.returncode, code, (arguments, run.stderr))
            self.assertIn(text, run.stderr)
            self.assertFalse(os.path.exists(out))

    def task(self, name, data):
        os.makedirs(self.path(name), exist_ok=True)
        with open(self.path(name, "task.json"), "w", encoding="utf-8") as file:
            json.dump({"name": name, "version": "1.0.0", "entry": "t", "files": ["t.py", "tunnel.dict"]}, file)
        with open(self.path(name, "t.py"), "w", encoding="utf-8") as file:
            file.write("import walle\nwalle.result(1)\n")
        with open(self.path(name, "tunnel.dict"), "wb") as file:
            file.write(data)
        return self.path(name)

    def test_released_with_a_task(self):
        training_lines(self.path("export.jsonl"))
        run = self.train("--from", self.path("export.jsonl"), "--out", self.path("t.dict"))
        self.assertEqual(run.returncode, 0, run.stderr)
        with open(self.path("t.dict"), "rb") as file:
            dictionary = file.read()
        with Stack() as stack:
            stack.start_gateway()
            for name, data, code in (("good", dictionary, 0), ("wrong", b"not a dictionary" * 50, 4),
                                     ("huge", dictionary[:4] + b"x" * 70000, 4)):
                stack.walle("task", "build", self.task(name, data), "--out", self.path("build", name))
                run = stack.walle("task", "push", self.path("build", name), check=False)
                self.assertEqual(run.returncode, code, run.stdout + run.stderr)
                if code:
                    self.assertIn("tunnel.dict: ", run.stderr)
            stack.gateway.stop()
            dump = subprocess.run([program("walle-store"), "dump", stack.path("gateway"), "tunnel_dicts"], check=True,
                                  capture_output=True, text=True).stdout
        rows = re.findall(r"^tunnel_dicts .*$", dump, re.M)
        self.assertEqual(len(rows), 1, dump)
        self.assertIn(hashlib.sha256(dictionary).hexdigest()[:16], rows[0])


if __name__ == "__main__":
    unittest.main()
