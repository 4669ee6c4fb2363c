#!/usr/bin/env python3
"""Fine-tuning by `walle-engine train` beside numpy in double precision, written by hand: losses of 50 steps with SGD and Adam, frozen
weights, BatchNormalization by its batch; killed with SIGKILL in the middle it goes on to the same losses; the model it writes."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from walle_stack import program

ROWS, WIDTH, HIDDEN, CLASSES, STEPS = 48, 6, 10, 3, 50


class Net:
    """relu(batchnorm(x w1 + b1)) w2 + b2 and its gradients."""
    def __init__(self, random):
        self.p = {"w1": random.standard_normal((WIDTH, HIDDEN)) / 2, "b1": random.standard_normal(HIDDEN) / 2,
                  "scale": 1 + random.random(HIDDEN), "shift": random.standard_normal(HIDDEN) / 4,
                  "w2": random.standard_normal((HIDDEN, CLASSES)) / 2, "b2": random.standard_normal(CLASSES) / 2}
        self.mean, self.var = random.standard_normal(HIDDEN) / 4, 1 + random.random(HIDDEN)
        for name, value in self.p.items():
            self.p[name] = value.astype(np.float32).astype(np.float64)
        self.mean, self.var = (v.astype(np.float32).astype(np.float64) for v in (self.mean, self.var))

    def save(self, path):
        values = {**self.p, "mean": self.mean, "var": self.var}
        nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"]), helper.make_node("Add", ["a", "b1"], ["h"]),
                 helper.make_node("BatchNormalization", ["h", "scale", "shift", "mean", "var"], ["n"]), helper.make_node("Relu", ["n"], ["r"]),
                 helper.make_node("Gemm", ["r", "w2", "b2"], ["y"])]
        graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", CLASSES])],
                                  [numpy_helper.from_array(value.astype(np.float32), name) for name, value in values.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        onnx.save(model, path)

    def scores(self, x, mean, var):
        p = self.p
        h = x @ p["w1"] + p["b1"]
        z = (h - mean) / np.sqrt(var + 1e-5)
        return h, z, np.maximum(z * p["scale"] + p["shift"], 0)

    def step(self, x, y, by_batch):
        """Loss and gradients; the running statistics move when the batch's are used."""
        p, n = self.p, len(x)
        h = x @ p["w1"] + p["b1"]
        mean, var = (h.mean(0), h.var(0)) if by_batch else (self.mean, self.var)
        _, z, r = self.scores(x, mean, var)
        s = r @ p["w2"] + p["b2"]
        e = np.exp(s - s.max(1, keepdims=True))
        chances = e / e.sum(1, keepdims=True)
        loss = -np.log(chances[np.arange(n), y]).mean()
        d = chances.copy()
        d[np.arange(n), y] -= 1
        d /= n
        g = {"w2": r.T @ d, "b2": d.sum(0)}
        d = (d @ p["w2"].T) * (r > 0)
        g["scale"], g["shift"] = (d * z).sum(0), d.sum(0)
        d = d * p["scale"]
        d = (d - d.mean(0) - z * (d * z).mean(0)) if by_batch else d
        d = d / np.sqrt(var + 1e-5)
        g["w1"], g["b1"] = x.T @ d, d.sum(0)
        if by_batch:
            self.mean, self.var = 0.9 * self.mean + 0.1 * mean, 0.9 * self.var + 0.1 * var
        return loss, g

    def fit(self, x, y, words):
        """Losses of all steps."""
        first, second = ({name: np.zeros_like(v) for name, v in self.p.items()} for _ in range(2))
        losses = []
        for step in range(1, STEPS + 1):
            loss, g = self.step(x, y, words.get("batch-norm") == "train")
            losses.append(loss)
            for name, gradient in g.items():
                if words.get("only") and not name.startswith(words["only"].rstrip("*")):
                    continue
                if words.get("optimizer") == "sgd":
                    first[name] = float(words.get("momentum", 0)) * first[name] + gradient
                    move = first[name]
                else:
                    first[name] += 0.1 * (gradient - first[name])
                    second[name] += 0.001 * (gradient ** 2 - second[name])
                    move = first[name] / (1 - 0.9 ** step) / (np.sqrt(second[name] / (1 - 0.999 ** step)) + 1e-8)
                self.p[name] = self.p[name] - float(words["rate"]) * move
        return losses


class TrainKeep(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="walle-train-")
        self.addCleanup(shutil.rmtree, self.folder)
        random = np.random.default_rng(11)
        self.net = Net(random)
        self.net.save(self.path("net.onnx"))
        self.x = random.standard_normal((ROWS, WIDTH)).astype(np.float32)
        self.y = (self.x @ random.standard_normal((WIDTH, CLASSES))).argmax(1)
        np.save(self.path("x.npy"), self.x)
        np.save(self.path("y.npy"), self.y)

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, *words):
        return [program("walle-engine"), "train", self.path("net.onnx"), "--input", "x=" + self.path("x.npy"), "--target", self.path("y.npy"),
                *words]

    def train(self, *words, code=0):
        run = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run.stdout if code == 0 else run.stderr

    @staticmethod
    def losses(said):
        return re.findall(r"loss ([\d.]+)", said)

    def test_fifty_steps_are_numpys(self):
        for words in ({"optimizer": "sgd", "rate": "0.1"}, {"optimizer": "sgd", "rate": "0.05", "momentum": "0.9"}, {"rate": "0.02"},
                      {"rate": "0.05", "only": "w2"}, {"optimizer": "sgd", "rate": "0.1", "batch-norm": "train"},
                      {"rate": "0.02", "batch-norm": "train"}):
            with self.subTest(words=words):
                net = Net(np.random.default_rng(11))
                expected = net.fit(self.x.astype(np.float64), self.y, words)
                said = self.train("--epochs", str(STEPS), "--batch", str(ROWS), "--output", self.path("out.onnx"),
                                  *(part for name, value in words.items() for part in ("--" + name, value)))
                found = [float(loss) for loss in self.losses(said)]
                self.assertEqual(len(found), STEPS)
                np.testing.assert_allclose(found, expected, atol=1e-3)
                self.assertLess(expected[-1], expected[0] - 0.05)
                # The model that was written has what numpy came to; what is frozen is as it was, to the bit.
                model = onnx.load(self.path("out.onnx"))
                onnx.checker.check_model(model)
                written = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
                for name, value in {**net.p, "mean": net.mean, "var": net.var}.items():
                    if name in ("b1", "mean") and "batch-norm" in words:
                        continue  # a batch's mean takes the bias away: its gradient is rounding, which Adam makes steps of
                    np.testing.assert_allclose(written[name], value, atol=5e-3, err_msg=name)
                if "only" in words:
                    self.assertTrue((written["w1"] == self.net.p["w1"].astype(np.float32)).all())

    def test_killed_in_the_middle_it_goes_on_the_same(self):
        words = ("--epochs", "400", "--batch", "7", "--rate", "0.01", "--seed", "3", "--batch-norm", "train")
        whole = self.losses(self.train(*words, "--output", self.path("whole.onnx")))
        self.assertEqual(len(whole), 400)
        kept, seen, kills = self.path("state"), {}, 0
        for _ in range(20):
            before, deadline = len(seen), time.monotonic() + 60
            with open(self.path("said"), "wb") as said, open(self.path("said"), encoding="utf-8") as reader:
                process = subprocess.Popen(self.command(*words, "--checkpoint", kept, "--output", self.path("parts.onnx")), stdout=said)
                while process.poll() is None and time.monotonic() < deadline:
                    reader.seek(0)
                    if reader.read().count("loss") > 60 and kills < 4:
                        process.send_signal(signal.SIGKILL)
                        break
                    time.sleep(0.002)
                code = process.wait(60)
                reader.seek(0)
                for epoch, loss in re.findall(r"epoch (\d+) of 400: loss ([\d.]+), ", reader.read()):
                    self.assertEqual(loss, whole[int(epoch) - 1], epoch)
                    seen[epoch] = loss
            if code == 0:
                break
            self.assertEqual(code, -signal.SIGKILL)
            self.assertGreater(len(seen), before)
            kills += 1
        self.assertEqual((kills, len(seen)), (4, 400))
        with open(self.path("whole.onnx"), "rb") as one, open(self.path("parts.onnx"), "rb") as other:
            self.assertEqual(one.read(), other.read())
        self.assertEqual(sorted(os.listdir(self.folder)), ["net.onnx", "parts.onnx", "said", "state", "whole.onnx", "x.npy", "y.npy"])

    def test_what_is_wrong_is_said(self):
        self.train("--epochs", "2", "--checkpoint", self.path("state"))
        with open(self.path("state"), "rb") as file:
            state = file.read()
        with open(self.path("cut"), "wb") as file:
            file.write(state[:-1])
        with open(self.path("none"), "wb"):
            pass
        for words, code, text in ((("--only", "z*"), 1, "no parameter 'z*'"), (("--only", "var"), 1, "nothing to train"), (("--freeze", "w"), 1, "no parameter 'w'"),
                                  (("--freeze", "*"), 1, "nothing to train"),
                                  (("--checkpoint", self.path("state"), "--optimizer", "sgd"), 1, "another optimizer"),
                                  (("--checkpoint", self.path("state"), "--only", "b2"), 1, "other parameters"),
                                  (("--checkpoint", self.path("state"), "--epochs", "1"), 1, "other examples, batches or epochs"),
                                  (("--checkpoint", self.path("cut")), 1, "cut short"), (("--checkpoint", self.path("none")), 1, "none"),
                                  (("--checkpoint", self.path("x.npy")), 1, "no state"), (("--checkpoint", self.folder), 1, "not a regular file"),
                                  (("--optimizer", "lion"), 2, "adam or sgd, not 'lion'"), (("--momentum", "1"), 2, "from 0 up to 1"),
                                  (("--batch-norm", "on"), 2, "frozen or train, not 'on'"), (("--output", "y.txt"), 2, "y.txt")):
            with self.subTest(words=words):
                self.assertIn(text, self.train(*words, code=code))
        run = subprocess.run([program("walle-engine"), "run", self.path("net.onnx"), "--random", "1", "--output", "y.onnx"],
                             capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 2, run.stderr)


if __name__ == "__main__":
    unittest.main()
