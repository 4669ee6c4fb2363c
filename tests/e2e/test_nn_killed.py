#!/usr/bin/env python3
"""An agent that is killed with SIGKILL while its task trains: each event is one step on weights that walle.store keeps, and the
losses that reach the gateway are those of an agent that nobody killed, step by step."""
import json
import os
import signal
import subprocess
import time
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from walle_stack import Stack, program, wait_until

DEVICE = "00000000000000b7"
FULL = [{"name": "full", "kind": "full", "percent": 100, "min_sample": 1, "min_dwell_s": 0, "max_failure": 0.5}]
ROWS, LIVES, EACH = 8, 4, 12
SCRIPT = """import walle
from walle import nn

x = nn.tensor(walle.file("x"), walle.config["x_shape"])
y = nn.tensor(walle.file("y"), walle.config["y_shape"])
trainer = nn.Trainer(nn.load("net.onnx"), loss="mse", optimizer="adam", lr=0.02)
trainer.load("net")
loss = 0
for _ in range(walle.config["steps"]):
    at = trainer.steps * walle.config["rows"] % len(x)
    loss = trainer.step(x[at:at + walle.config["rows"]], y[at:at + walle.config["rows"]])
trainer.save("net")
walle.result({"step": trainer.steps, "loss": loss})
"""
TASK = {"name": "shop/trained", "version": "1.0.0", "entry": "task", "files": ["task.py", "net.onnx", "x", "y"],
        "triggers": ["enter(item) * exit(item) page"], "events": {"take": "visit"},
        "uploads": [{"name": "trained", "class": "control"}], "result": "trained", "store": {"quota_kib": 16, "keep": "versions"}}


class Killed(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__)
        random = np.random.default_rng(3)
        self.x = random.standard_normal((40, 5)).astype(np.float32)
        self.y = np.tanh(self.x @ random.standard_normal((5, 2))).astype(np.float32)
        weights = {"w1": random.standard_normal((5, 7)), "w2": random.standard_normal((7, 2))}
        nodes = [helper.make_node("MatMul", ["x", "w1"], ["h"]), helper.make_node("Tanh", ["h"], ["t"]),
                 helper.make_node("MatMul", ["t", "w2"], ["y"])]
        graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
                                  [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)

    def folder(self, name, steps):
        folder = self.stack.path(name)
        os.makedirs(folder)
        config = {"rows": ROWS, "steps": steps, "x_shape": self.x.shape, "y_shape": self.y.shape}
        contents = {"task.json": json.dumps({**TASK, "config": config}).encode(), "task.py": SCRIPT.encode(),
                    "net.onnx": self.model.SerializeToString(), "x": self.x.tobytes(), "y": self.y.tobytes()}
        for file_name, content in contents.items():
            with open(os.path.join(folder, file_name), "wb") as file:
                file.write(content)
        return folder

    def expected(self, steps):
        """The losses of runs, one step each, that nobody cuts off."""
        folder, store = self.folder("alone", 1), self.stack.path("store")
        return [json.loads(self.stack.walle("task", "run", folder, "-o", "json", "--store", store).stdout)["result"]["loss"]
                for _ in range(steps)]

    def told(self):
        """(step, loss) of each run that the gateway was told of."""
        path = self.stack.path("records.jsonl")
        self.stack.walle("tunnel", "export", "--out", path)
        with open(path, encoding="utf-8") as file:
            records = [json.loads(line).get("record") for line in file]
        return {(record["step"], record["loss"]) for record in records if record}

    def events(self, first, count):
        path = self.stack.path("events.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for item in range(first, first + count):
                for kind in ("enter", "exit"):
                    file.write(json.dumps({"kind": kind, "page": "item", "item": f"i-{item}"}) + "\n")
        return path

    def test_losses_are_those_of_an_agent_that_lives(self):
        self.stack.start_gateway("--workers", "1", "--set", "rollout.tick_ms=100")
        key = self.stack.walle("key", "new", "--out", self.stack.path("key")).stdout.strip().splitlines()[-1]
        build = self.stack.path("build")
        self.stack.walle("task", "build", self.folder("source", 1), "--out", build)
        self.stack.walle("task", "push", build)
        with open(self.stack.path("stages.json"), "w", encoding="utf-8") as file:
            json.dump(FULL, file)
        self.stack.walle("rollout", "start", TASK["name"], "--build", build, "--key", self.stack.path("key"), "--stages",
                         self.stack.path("stages.json"))
        agent = [program("walle-device"), "--gateway", self.stack.gateway.url, "--enroll-token", self.stack.enroll_token, "--dir",
                 self.stack.path("device"), "--id", DEVICE, "--trust", key]
        subprocess.run([*agent, "--once"], check=True, capture_output=True, timeout=120)
        told = 0
        for life in range(LIVES):
            with subprocess.Popen([*agent, "--events", self.events(life * EACH, EACH)], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as process:
                try:
                    wait_until(lambda: len(self.told()) > told, timeout_s=60, what=f"a step in life {life}")
                    time.sleep(0.013 * life)
                finally:
                    process.send_signal(signal.SIGKILL)
            told = len(self.told())
        last = subprocess.run([*agent, "--once", "--events", self.events(LIVES * EACH, 2)], capture_output=True, text=True, timeout=120,
                              check=False)
        self.assertEqual(last.returncode, 0, last.stderr)
        found = sorted(self.told())
        self.assertGreater(len(found), LIVES)
        self.assertEqual([step for step, _ in found], list(range(1, len(found) + 1)))  # none left out, none with two losses
        self.assertEqual([loss for _, loss in found], self.expected(len(found)))
        self.assertLess(found[-1][1], found[0][1])


if __name__ == "__main__":
    unittest.main()
