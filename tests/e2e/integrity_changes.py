"""Random changes of single bytes and bits in a device's folder, with the shipped agent, its task processes and a real gateway.

Whatever is changed, the agent ends in order and runs nothing but the signed versions; what was damaged is whole again
afterwards, or was said. 300 changes here; more with WALLE_CHANGES=10000 (docs/HACKING.md). WALLE_SEED repeats a sequence.
"""
import json
import os
import random
import re
import signal
import subprocess
import threading
import time
import unittest

import numpy
from onnx import TensorProto, helper, numpy_helper

from walle_stack import Stack, program, sha256_of, wait_until

CHANGES = int(os.environ.get("WALLE_CHANGES", "300"))
TOGETHER = 8  # most changes between two starts
LIVE_EVERY = 20  # of so many rounds one changes files under a running agent
LIVE_CHANGES = 4
TASK = "integrity/score"
DEVICE = "00000000000000b1"
STAGES = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0}]
SCRIPT = """import walle
from walle import nn
DATA = {data!r}
total = 7
for byte in DATA:
    total = (total * 31 + byte) & 0x3fffffff
weights = nn.load("w.onnx")(nn.tensor([0.0], (1,))).tolist()
walle.result([{number}, total, int(weights[0])])
"""


class Changes(unittest.TestCase):
    def setUp(self):
        self.seed = int(os.environ.get("WALLE_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"seed {self.seed}", flush=True)
        self.random = random.Random(self.seed)
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.stack.start_gateway()
        self.key = self.stack.path("release.key")
        self.stack.walle("key", "new", "--out", self.key)
        self.dir = self.stack.path("device")
        self.expected = {}  # manifest -> what its runs give
        self.content = {}  # manifest -> names of all its content
        self.before = None  # the version that a release takes the place of
        self.runs = self.damaged = self.said = self.anew = self.refused = 0

    def model(self):
        weights = self.random.sample(range(1, 100), 50) * 400  # whole numbers: the sum is exact
        graph = helper.make_graph(
            [helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("ReduceSum", ["a"], ["y"], keepdims=1)], "w",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
            [numpy_helper.from_array(numpy.array(weights, dtype=numpy.float32), "w")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        return model.SerializeToString(), sum(weights)

    def release(self, number):
        data = self.random.randbytes(4000)
        model, total = self.model()
        score = 7
        for byte in data:
            score = (score * 31 + byte) & 0x3fffffff
        source, build = self.stack.path(f"source{number}"), self.stack.path(f"build{number}")
        os.mkdir(source)
        task = {"name": TASK, "version": f"1.0.{number}", "entry": "task", "every_s": 1, "time_ms": 5000,
                "files": ["task.py", "w.onnx", {"name": "data.bin", "kind": "data"}]}
        for name, content in {"task.json": json.dumps(task).encode(), "task.py": SCRIPT.format(data=data, number=number).encode(),
                              "w.onnx": model, "data.bin": self.random.randbytes(60000),
                              "../stages.json": json.dumps(STAGES).encode()}.items():
            with open(os.path.join(source, name), "wb") as file:
                file.write(content)
        self.stack.walle("task", "build", source, "--out", build)
        self.before = next(reversed(self.expected), None)
        manifest = sha256_of(os.path.join(build, "manifest"))
        self.expected[manifest] = [number, score, total]
        self.content[manifest] = {manifest, *os.listdir(os.path.join(build, "blobs"))}
        self.stack.walle("task", "push", build)
        run = self.stack.walle("rollout", "start", TASK, "--build", build, "--key", self.key, "--stages", self.stack.path("stages.json"))
        self.rollout = re.match(r"[0-9a-f]{16}", run.stdout).group(0)
        return manifest

    def take(self, number):
        """Releases version `number`, and has the device take it; returns its manifest."""
        newest = self.release(number)
        status, output, errors = self.once()
        self.assertEqual(status, 0, errors)
        self.before = None
        self.check_whole(newest, output, f"version {number}")
        wait_until(lambda: self.stack.api(f"/api/v1/rollouts/{self.rollout}")[1].get("state") == "completed", 60, "its rollout")
        return newest

    def agent(self, *more):
        return subprocess.Popen(
            [program("walle-device"), "--gateway", self.stack.gateway.tls_url, "--ca", os.path.join(self.stack.gateway.folder, "cert.pem"),
             "--enroll-token", self.stack.enroll_token, "--dir", self.dir, "--id", DEVICE, "--attr", "os=android",
             "--trust", self.key + ".pub", "--retry-base", "20", *more],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def check_output(self, output):
        for line in output.splitlines():
            found = re.match(r"task (\S+) ([0-9a-f]{64}) (\w+) \d+ us (.*)", line)
            if not found:
                continue
            self.assertIn(found.group(3), ("ran", "fail_integrity"), f"seed {self.seed}: {line}")
            if found.group(3) == "ran":  # the line names the version that is active by then: a newer one may have come meanwhile
                self.runs += 1
                self.assertIn(json.loads(found.group(4)), (self.expected[found.group(2)], self.expected.get(self.before)),
                              f"seed {self.seed}: {line}")

    def once(self):
        """A start that ends when there is nothing left to do; returns what it logged."""
        child = self.agent("--once")
        output, errors = child.communicate(timeout=120)
        self.check_output(output)
        self.assertGreaterEqual(child.returncode, 0, f"seed {self.seed}: died of signal {-child.returncode}: {errors[-3000:]}")
        return child.returncode, output, errors

    def check_whole(self, newest, output, what):
        """All that is stored is what its name says, and all of the active version is there."""
        state = re.search(r"^state \S+ active ([0-9a-f]{64}) previous ([0-9a-f]{64})", output, re.M)
        self.assertIsNotNone(state, f"seed {self.seed}, {what}: {output}")
        self.assertEqual(state.group(1), newest, f"seed {self.seed}, {what}")
        stored = set(os.listdir(os.path.join(self.dir, "blobs")))
        for name in stored:
            self.assertEqual(sha256_of(os.path.join(self.dir, "blobs", name)), name, f"seed {self.seed}, {what}: not mended")
        wanted = set(self.content[newest])
        if state.group(2) in self.content:
            wanted |= self.content[state.group(2)]
        else:
            self.anew += 1
        self.assertEqual(stored, wanted, f"seed {self.seed}, {what}")

    def files(self, folders):
        found = []
        for folder in folders:
            path = os.path.join(self.dir, folder)
            names = sorted(os.listdir(path)) if os.path.isdir(path) else []
            found += [os.path.join(path, name) for name in names] if os.path.isdir(path) else [path]
        return [path for path in found if os.path.isfile(path) and os.path.getsize(path) > 0]

    def change(self, path):
        """One byte, or one bit of one."""
        with open(path, "r+b") as file:
            at = self.random.randrange(os.path.getsize(path))
            file.seek(at)
            old = file.read(1)[0]
            new = old ^ (1 << self.random.randrange(8)) if self.random.random() < 0.5 else (old + self.random.randrange(1, 256)) % 256
            file.seek(at)
            file.write(bytes([new]))
        return f"{os.path.relpath(path, self.dir)}[{at}] {old:02x} -> {new:02x}"

    def check_said(self, changed, errors, what):
        """A damaged record and damaged content are told in the log."""
        self.said += errors.count(" WARN ")
        if any(name.startswith("state/") for name in changed):
            self.assertIn("stored state", errors, f"seed {self.seed}, {what}")
        if any(name.startswith("blobs/") for name in changed):
            self.damaged += 1
            self.assertIn("stored content is damaged", errors, f"seed {self.seed}, {what}")

    def round_between_starts(self, newest, count):
        credential = os.path.join(self.dir, "credential")
        with open(credential, "rb") as file:
            identity = file.read()
        paths = self.files(("blobs", "blobs", "blobs", "partial", "state", "pipeline", "lock", "credential"))
        what = [self.change(self.random.choice(paths)) for _ in range(count)]
        changed = {line.split("[")[0] for line in what}
        text = "; ".join(what)
        status, output, errors = self.once()
        if "credential" in changed and status != 0:
            # Its identity is not for the device to guess: it says so, and ends.
            self.assertRegex(errors, "credential|enrolled|401|403", f"seed {self.seed}, {text}")
            self.refused += 1
            with open(credential, "wb") as file:
                file.write(identity)
            status, output, more = self.once()
            errors += more
        self.assertEqual(status, 0, f"seed {self.seed}, {text}: {errors[-3000:]}")
        with open(credential, "rb") as file:
            changed_identity = file.read() != identity
        if changed_identity:
            with open(credential, "wb") as file:
                file.write(identity)
        both = {"state/even", "state/odd"} <= changed
        self.check_said({name for name in changed if not (both and name.startswith("blobs/"))}, errors, text)
        self.check_whole(newest, output, text)

    def round_under_a_running_agent(self, newest):
        """Blobs and records change between two runs of one agent; the next runs go on."""
        child = self.agent("--checkin-interval", "1")
        lines, log = [], []
        readers = [threading.Thread(target=lambda stream, to: to.extend(stream), args=pair, daemon=True)
                   for pair in ((child.stdout, lines), (child.stderr, log))]
        for reader in readers:
            reader.start()
        ran = lambda: sum(" ran " in line for line in lines)
        what = []
        for _ in range(LIVE_CHANGES):
            before = ran()
            wait_until(lambda: ran() > before or child.poll() is not None, 120, "a run")
            # Written anew like a file system that gives other bytes: the agent may be reading this one.
            try:
                what.append(self.change(self.random.choice(self.files(("blobs", "state")))))
            except FileNotFoundError:  # replaced while we looked
                pass
        before = ran()
        wait_until(lambda: ran() > before + 1 or child.poll() is not None, 120, "two more runs")
        text = "; ".join(what)
        self.assertIsNone(child.poll(), f"seed {self.seed}, live {text}: {''.join(log)[-3000:]}")
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(60), 0, f"seed {self.seed}, live {text}: {''.join(log)[-3000:]}")
        for reader in readers:
            reader.join()
        child.stdout.close()
        child.stderr.close()
        self.check_output("".join(lines))
        status, output, errors = self.once()
        self.assertEqual(status, 0, f"seed {self.seed}, live {text}: {errors[-3000:]}")
        self.check_whole(newest, output, "live " + text)
        return len(what)

    def test_random_changes(self):
        self.take(1)
        newest = self.take(2)
        self.anew = 0
        begun, done, rounds, number = time.monotonic(), 0, 0, 2
        while done < CHANGES:
            rounds += 1
            if rounds % 200 == 0:
                print(f"{done} changes, {self.runs} runs", flush=True)
            if rounds % LIVE_EVERY == 0:
                done += self.round_under_a_running_agent(newest)
                continue
            count, anew = min(self.random.randrange(1, TOGETHER + 1), CHANGES - done), self.anew
            self.round_between_starts(newest, count)
            done += count
            if self.anew > anew:  # both records at once: a way back is made again
                number += 1
                newest = self.take(number)
        print(f"{done} changes in {rounds} rounds, {time.monotonic() - begun:.0f} s: {self.runs} runs, {self.damaged} rounds with damaged "
              f"content, {self.said} lines of warning, {self.anew} times without the version before, {self.refused} times without "
              "an identity", flush=True)
        self.assertGreater(self.runs, 0)
        self.assertGreater(self.damaged, 0)
        # Told to the gateway too, and counted by no gate.
        status, device = self.stack.api(f"/api/v1/devices/{DEVICE}")
        self.assertEqual(status, 200)
        self.assertIn("fail_integrity", json.dumps(device))
        for rollout in self.stack.api("/api/v1/rollouts")[1]["items"]:
            self.assertEqual(rollout["state"], "completed", rollout)


if __name__ == "__main__":
    unittest.main()
