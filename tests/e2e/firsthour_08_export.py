#!/usr/bin/env python3
"""`walle tunnel export` ended by kill -9 and by full disks: each record is in the file once, whole, whatever ended the export before.

WALLE_EXPORT_KILLS=1000 plays as many ends; without it there are few.
"""
import csv
import fcntl
import json
import os
import random
import re
import resource
import signal
import subprocess
import unittest

from walle_stack import Stack, program

ENDS = int(os.environ.get("WALLE_EXPORT_KILLS", "40"))
BATCHES = 3000  # of each of two devices
LIMITS = ("tunnel.unknown_uploads=accept", "tunnel.device_batches_per_s=100000", "tunnel.unproven_percent=100")


def small_files(limit):
    """In the child: a file may have so many bytes, as on a disk that is full then."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.addClassCleanup(cls.stack.__exit__)
        cls.stack.start_gateway("--workers", "1", *[word for limit in LIMITS for word in ("--set", limit)])
        cls.load(1000, BATCHES)
        run = cls.export("whole.jsonl")
        cls.records = int(run.stdout.split()[0])
        cls.whole = cls.read("whole.jsonl")
        assert cls.records >= BATCHES // 2, run.stdout  # devices may be refused when the machine is slow

    @classmethod
    def load(cls, first, count):
        subprocess.run([program("tunnel_load"), f"127.0.0.1:{cls.stack.gateway.ports['h2c']}", "--clear", "--mode", "latency", "--count",
                        str(count), "--connections", "2", "--bytes", "300", "--gap-ms", "0", "--gap-to-ms", "0", "--first-device", str(first)],
                       capture_output=True, timeout=240, check=True)

    @classmethod
    def export(cls, name, *arguments, check=True):
        return cls.stack.walle("tunnel", "export", "--out", cls.stack.path(name), *arguments, check=check)

    @classmethod
    def read(cls, name):
        with open(cls.stack.path(name), "rb") as file:
            return file.read()

    def command(self, name):
        return [program("walle"), "tunnel", "export", "--out", self.stack.path(name), "--gateway", self.stack.gateway.url]

    def kill_in(self, name, size):
        """kill -9 when the file has `size` bytes more than it begins with; true when the export had not ended by itself."""
        path = self.stack.path(name)
        size += os.path.getsize(path) if os.path.exists(path) else 0
        with subprocess.Popen(self.command(name), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            while child.poll() is None:
                if os.path.exists(path) and os.path.getsize(path) > size:
                    child.kill()
                    child.wait()
                    return True
        return False

    def fill_in(self, name, size):
        run = subprocess.run(self.command(name), capture_output=True, text=True, timeout=120, check=False, preexec_fn=lambda: small_files(size))
        if run.returncode != 0:
            self.assertIn(self.stack.path(name), run.stderr)
        return run.returncode != 0

    def play(self, name, seed):
        """Interrupted exports until there were ENDS of them, each file gone on with until it is whole."""
        chance = random.Random(seed)
        ended = files = 0
        while ended < ENDS:
            files += 1
            for path in (name, f"{name}.next"):
                if os.path.exists(self.stack.path(path)):
                    os.remove(self.stack.path(path))
            going = True
            while going:
                step = chance.randrange(1, len(self.whole) // 3)
                if chance.random() < 0.7:
                    going = self.kill_in(name, step)
                else:
                    there = os.path.getsize(self.stack.path(name)) if os.path.exists(self.stack.path(name)) else 0
                    going = self.fill_in(name, there + step)
                ended += going
            self.export(name)
            yield self.read(name)
        print(f"{ended} exports ended early, {files} files whole")

    def test_a_tail_says_that_there_is_more(self):
        def tail(*words):
            run = self.stack.walle("tunnel", "tail", *words)
            found = re.fullmatch(r"walle: these are the oldest( behind that place)?; more: --after (\S+) goes on behind them, .*\n", run.stderr)
            return run.stdout.splitlines(), found and found.group(2)
        four, _ = tail("--limit", "4")
        first, place = tail("--limit", "3")
        self.assertEqual((len(first), four[:3]), (3, first))
        self.assertEqual(tail("--limit", "1", "--after", place)[0], four[3:])
        self.assertEqual(len(tail()[0]), 20, "as its help says")
        end = self.stack.api("/api/v1/tunnel")[1]["end"]
        self.assertEqual(self.stack.walle("tunnel", "tail", "--after", end).stderr, "", "nor is there more")

    def test_each_line_once(self):
        for found in self.play("lines.jsonl", 1):
            self.assertEqual(found, self.whole)

    def test_each_row_once(self):
        self.export("whole.csv")
        whole = self.read("whole.csv")
        self.assertEqual(len(list(csv.DictReader(whole.decode().splitlines()))), self.records)
        for found in self.play("rows.csv", 2):
            self.assertEqual(found, whole)

    def test_one_export_at_a_time(self):
        with open(self.stack.path("whole.jsonl"), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            refused = self.export("whole.jsonl", check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("another export writes to it", refused.stderr)
        self.assertEqual(self.read("whole.jsonl"), self.whole)

    def test_what_is_no_export_is_left_alone(self):
        with open(self.stack.path("notes.txt"), "w", encoding="utf-8") as file:
            file.write("mine\n")
        refused = self.export("notes.txt", check=False)
        self.assertIn("is there, and", refused.stderr)
        self.assertEqual(self.read("notes.txt"), b"mine\n")

    def test_files_that_were_taken_away_or_cut(self):
        self.export("moved.jsonl")
        os.rename(self.stack.path("moved.jsonl"), self.stack.path("taken.jsonl"))
        self.assertEqual(self.export("moved.jsonl").stdout.split()[0], "0")  # goes on in a new file
        self.load(5000, 3)
        more = int(self.export("moved.jsonl").stdout.split()[0])
        lines = self.read("moved.jsonl").splitlines()
        self.assertEqual(len(lines), more)
        self.assertGreaterEqual(more, 6)
        json.loads(lines[0])
        os.truncate(self.stack.path("moved.jsonl"), 10)
        refused = self.export("moved.jsonl", check=False)
        self.assertIn("has 10 bytes and had", refused.stderr)
        with open(self.stack.path("moved.jsonl.next"), "w", encoding="utf-8") as file:
            file.write("x" * 70)
        self.assertIn("no place of an export", self.export("moved.jsonl", check=False).stderr)

    def test_a_file_that_is_taken_away_while_it_is_written(self):
        """What was kept of it is there, once; the next export goes on behind that in a new file."""
        path = self.stack.path("going.jsonl")
        with subprocess.Popen(self.command("going.jsonl"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
            while child.poll() is None and not (os.path.exists(path) and os.path.getsize(path) > len(self.whole) // 5):
                pass
            child.send_signal(signal.SIGSTOP)
            os.rename(path, self.stack.path("taken.jsonl"))
            child.send_signal(signal.SIGCONT)
            said = child.communicate(timeout=120)[1]
        self.assertIn("was taken away while this export wrote to it", said)
        self.assertEqual(child.returncode, 5)
        self.export("going.jsonl")
        self.assertTrue((self.read("taken.jsonl") + self.read("going.jsonl")).startswith(self.whole))

    def test_what_is_no_place_cuts_nothing(self):
        self.export("kept.jsonl")
        before = self.read("kept.jsonl")
        with open(self.stack.path("kept.jsonl.next"), encoding="utf-8") as file:
            place = file.read().split()[0]
        for text, said in (("", "is there, and"), ("\n", "is there, and"), (f"{place} 7\n", "has no end of a line where"), (f"{place} x\n", "no place of an export")):
            with open(self.stack.path("kept.jsonl.next"), "w", encoding="utf-8") as file:
                file.write(text)
            self.assertIn(said, self.export("kept.jsonl", check=False).stderr)
            self.assertEqual(self.read("kept.jsonl"), before)

    def test_places_of_older_versions(self):
        """They had no length: the file stays as it is."""
        self.export("older.jsonl")
        with open(self.stack.path("older.jsonl.next"), encoding="utf-8") as file:
            place = file.read().split()[0]
        with open(self.stack.path("older.jsonl.next"), "w", encoding="utf-8") as file:
            file.write(place + "\n")
        before = self.read("older.jsonl")
        self.load(7000, 2)
        more = int(self.export("older.jsonl").stdout.split()[0])
        found = self.read("older.jsonl")
        self.assertTrue(found.startswith(before))
        self.assertEqual(found.count(b"\n"), before.count(b"\n") + more)


if __name__ == "__main__":
    unittest.main(verbosity=2)
